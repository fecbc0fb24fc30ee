//! `tls` of a listener: the certificates of the gateway, and the certificates of clients.

use std::time::{Duration, SystemTime};

use crate::yaml::{Problem, Spanned};
use schemars::JsonSchema;
use serde::Deserialize;
use tidegate_net::tls::{
    CertificateFiles, ClientCertificates, ServerFiles, ServerTls, ShownCertificate,
};

use crate::check::Check;
use crate::pem::usable;
use crate::value::Scalar;
use crate::value::word::{FilePath, choice};

/// TLS towards clients: versions 1.2 and 1.3, with HTTP/2 or HTTP/1.1 as the client prefers.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListenerTls {
    /// A file with the certificate and its chain, in PEM. The gateway rereads the file when it changes.
    pub(crate) cert: Option<Scalar<FilePath>>,
    /// A file with the key of `cert`.
    pub(crate) key: Option<Scalar<FilePath>>,
    /// Several pairs in place of `cert` and `key`, chosen by the name in the client's handshake. The first pair serves all other names.
    pub(crate) certificates: Option<Spanned<Vec<Certificate>>>,
    /// A file with the authorities of client certificates. Default: none; clients show no certificate.
    pub(crate) client_ca: Option<Scalar<FilePath>>,
    /// Whether clients need a certificate: required or optional. Default: required.
    pub(crate) client_cert: Option<Scalar<ClientCert>>,
}

/// A certificate and its key.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Certificate {
    /// A file with the certificate and its chain, in PEM. The gateway rereads the file when it changes.
    pub(crate) cert: Scalar<FilePath>,
    /// A file with the key of `cert`.
    pub(crate) key: Scalar<FilePath>,
}

/// Whether a client must show a certificate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum ClientCert {
    #[default]
    Required,
    Optional,
}

choice!(
    ClientCert,
    "ClientCert",
    "a rule for client certificates",
    [("required", Self::Required), ("optional", Self::Optional)]
);

/// If a certificate expires within this time, the check of the configuration warns of the certificate.
const SOON: Duration = Duration::from_secs(14 * 24 * 60 * 60);

pub(crate) fn listener_tls(
    check: &mut Check<'_>,
    written: &Spanned<ListenerTls>,
) -> Option<ServerTls> {
    let tls = &written.value;
    let pairs: Vec<(&Scalar<FilePath>, &Scalar<FilePath>)> =
        match (&tls.cert, &tls.key, &tls.certificates) {
            (Some(cert), Some(key), None) => vec![(cert, key)],
            (None, None, Some(several)) if !several.value.is_empty() => {
                let several = several.value.iter();
                several.map(|one| (&one.cert, &one.key)).collect()
            }
            _ => {
                let message = "there is not exactly one kind of certificates";
                check.refuse(Problem::new(written.place, message).note(
                    "allowed here: `cert` and `key`, or a list of such pairs under `certificates`",
                ));
                return None;
            }
        };
    let mut certificates = Vec::new();
    for (cert, key) in &pairs {
        certificates.push(CertificateFiles {
            certificate: check.file(cert)?,
            key: check.file(key)?,
        });
    }
    let client_cert = check.read_some(tls.client_cert.as_ref());
    if let (Some(scalar), None) = (&tls.client_cert, &tls.client_ca) {
        let note = "`client_ca` is a file with the authorities of client certificates";
        check.refuse(Problem::new(scalar.place, "`client_cert` needs `client_ca`").note(note));
    }
    let clients = match &tls.client_ca {
        Some(scalar) => Some(ClientCertificates {
            authorities: check.file(scalar)?,
            required: client_cert.unwrap_or_default() == ClientCert::Required,
        }),
        None => None,
    };
    let files = ServerFiles {
        certificates,
        clients,
    };
    let scalars = pairs.iter().flat_map(|(cert, key)| [*cert, *key]);
    let scalars = scalars.chain(&tls.client_ca);
    let loaded = usable(check, ServerTls::load(files), scalars)?;
    for ((cert, _), shown) in pairs.into_iter().zip(loaded.shown()) {
        soon_over(check, cert, &shown);
    }
    Some(loaded)
}

/// Warns of a certificate that has expired or expires within [`SOON`].
fn soon_over(check: &mut Check<'_>, scalar: &Scalar<FilePath>, shown: &ShownCertificate) {
    let Some(ends) = shown.ends else {
        return;
    };
    let day = humantime::format_rfc3339_seconds(ends);
    let message = match ends.duration_since(SystemTime::now()) {
        Err(_) => format!("a certificate in this file has expired, at {day}"),
        Ok(left) if left < SOON => {
            format!("a certificate in this file expires within 14 days, at {day}")
        }
        Ok(_) => return,
    };
    let note = "clients refuse it from then on; replace the file, and the gateway reloads it";
    check.warn(Problem::new(scalar.place, message).note(note));
}
