//! Certificates and keys that OpenSSL makes and TLS here does not take: each is refused with its cause.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::path::Path;

use tidegate_net::tls::{CertificateFiles, ServerFiles, ServerTls};

/// What is wrong with a pair of files of the folder `certificates`.
fn refusal(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/certificates");
    let files = CertificateFiles {
        certificate: folder.join(format!("{name}.pem")),
        key: folder.join(format!("{name}.key")),
    };
    let loaded = ServerTls::load(ServerFiles {
        certificates: vec![files],
        clients: None,
    });
    let error = loaded.map(drop).unwrap_err();
    let file = error.path.file_name().unwrap().to_str().unwrap();
    format!("{file} {}", error.why)
}

#[test]
fn a_key_of_an_unsupported_kind_is_named_as_such() {
    for name in ["rsa-1024", "secp256k1", "ed448"] {
        assert_eq!(
            refusal(name),
            format!(
                "{name}.key holds a private key that is not supported: allowed are RSA with 2048 to 8192 bits, \
                 ECDSA with P-256, P-384 or P-521, and Ed25519"
            )
        );
    }
}

#[test]
fn a_certificate_of_version_1_is_named_as_such() {
    assert_eq!(
        refusal("version-1"),
        "version-1.pem holds a certificate of X.509 version 1; version 3 is needed"
    );
}
