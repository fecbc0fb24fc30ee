//! Certificates of test servers and their clients, made when they are needed.

mod trust;

use std::path::{Path, PathBuf};
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType, date_time_ymd,
};

/// A private certificate authority.
#[derive(Debug)]
pub struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate with its key, both in PEM.
#[derive(Debug)]
pub struct Certificate {
    /// The certificate.
    pub pem: String,
    /// Its key.
    pub key: String,
}

impl Authority {
    /// Makes an authority that no client or server trusts yet.
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let name = &mut params.distinguished_name;
        name.push(DnType::CommonName, "tidegate's tests");
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self {
            pem,
            issuer: Issuer::new(params, key),
        }
    }

    /// Returns its own certificate, in PEM.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// Makes a certificate for these names and addresses, which servers and clients can present.
    pub fn issue(&self, names: &[&str]) -> Certificate {
        self.sign(params(names))
    }

    /// Makes a certificate of a client with this common name, and these DNS names and URIs.
    pub fn issue_client(&self, cn: &str, names: &[&str], uris: &[&str]) -> Certificate {
        let mut params = params(names);
        let subject = &mut params.distinguished_name;
        subject.push(DnType::OrganizationName, "tidegate's tests");
        subject.push(DnType::CommonName, cn);
        for uri in uris {
            let uri = SanType::URI((*uri).try_into().unwrap());
            params.subject_alt_names.push(uri);
        }
        self.sign(params)
    }

    /// Makes a certificate like [`issue`](Self::issue) that expired years ago.
    pub fn issue_expired(&self, names: &[&str]) -> Certificate {
        let mut params = params(names);
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2021, 1, 1);
        self.sign(params)
    }

    /// Makes a certificate like [`issue`](Self::issue) that expires at this time since the epoch.
    pub fn issue_until(&self, names: &[&str], since_epoch: Duration) -> Certificate {
        let mut params = params(names);
        params.not_before = date_time_ymd(1970, 1, 1);
        params.not_after = date_time_ymd(1970, 1, 1) + since_epoch;
        self.sign(params)
    }

    /// Makes a self-signed certificate that is marked as an authority, like the certificates of `openssl req -x509`.
    pub fn own(names: &[&str]) -> Certificate {
        Self::self_signed(names, |_| {})
    }

    /// Makes a self-signed certificate that expired years ago.
    pub fn own_expired(names: &[&str]) -> Certificate {
        Self::self_signed(names, |params| {
            params.not_before = date_time_ymd(2020, 1, 1);
            params.not_after = date_time_ymd(2021, 1, 1);
        })
    }

    fn self_signed(names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> Certificate {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        Certificate {
            pem: params.self_signed(&key).unwrap().pem(),
            key: key.serialize_pem(),
        }
    }

    fn sign(&self, params: CertificateParams) -> Certificate {
        let key = KeyPair::generate().unwrap();
        let signed = params.signed_by(&key, &self.issuer).unwrap();
        Certificate {
            pem: signed.pem(),
            key: key.serialize_pem(),
        }
    }
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

impl Certificate {
    /// Writes the certificate to `NAME.pem` and the key to `NAME.key`, in a folder. Returns their paths.
    pub fn write(&self, dir: &Path, name: &str) -> (PathBuf, PathBuf) {
        let paths = (
            dir.join(format!("{name}.pem")),
            dir.join(format!("{name}.key")),
        );
        std::fs::write(&paths.0, &self.pem).unwrap();
        std::fs::write(&paths.1, &self.key).unwrap();
        paths
    }
}

fn params(names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let mut params = CertificateParams::new(names).unwrap();
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    params
}
