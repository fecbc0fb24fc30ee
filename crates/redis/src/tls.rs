//! TLS to Redis. A connection never falls back to plain text.

use std::sync::Arc;

use rustls::ClientConfig;

/// Settings of TLS: trusted authorities, and the certificate of the gateway.
#[derive(Clone)]
pub struct Tls(pub(crate) Arc<ClientConfig>);

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}

impl From<ClientConfig> for Tls {
    fn from(config: ClientConfig) -> Self {
        Self(Arc::new(config))
    }
}

impl From<Arc<ClientConfig>> for Tls {
    fn from(config: Arc<ClientConfig>) -> Self {
        Self(config)
    }
}

/// Returns the reason of a failed handshake, from words in the errors of rustls and fred.
pub(crate) fn reason(details: &str) -> Option<Arc<str>> {
    const REASONS: [(&str, &str); 13] = [
        (
            "UnknownIssuer",
            "no authority that is trusted here issued the server's certificate",
        ),
        // The server's authority has the same name as a trusted authority, but another key.
        (
            "BadSignature",
            "no authority that is trusted here issued the server's certificate",
        ),
        (
            "NotValidForName",
            "the server's certificate is for another name",
        ),
        ("Expired", "the server's certificate has expired"),
        ("NotValidYet", "the server's certificate is not valid yet"),
        (
            "CaUsedAsEndEntity",
            "the server's certificate is marked as an authority's (basicConstraints CA:TRUE): name its own file under `ca`, or make it with CA:FALSE",
        ),
        (
            "UnsupportedCertVersion",
            "the server's certificate has X.509 version 1: make it with version 3",
        ),
        // All other reasons of a certificate verifier, in both spellings of rustls.
        (
            "invalid peer certificate",
            "the server's certificate is not accepted",
        ),
        (
            "InvalidCertificate",
            "the server's certificate is not accepted",
        ),
        (
            "AlertReceived",
            "the server does not accept this client's certificate, or wants one",
        ),
        (
            "InvalidMessage",
            "the server does not speak TLS on this port",
        ),
        (
            "InvalidDnsName",
            "the server's name cannot stand in a certificate",
        ),
        (
            "tls handshake eof",
            "the server does not speak TLS on this port, or ended the handshake",
        ),
    ];
    let (word, reason) = REASONS.iter().find(|(word, _)| details.contains(word))?;
    Some(match details.split_once("InvalidCertificate(") {
        // A fault that `REASONS` does not contain gets the text of rustls.
        Some((_, behind)) if *word == "InvalidCertificate" => {
            let fault = behind.split(['{', '}']).next().unwrap_or_default();
            format!("{reason}: {}", fault.trim_end_matches([' ', ')'])).into()
        }
        _ => (*reason).into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_refused_with_its_fault() {
        let text = |details| reason(details).unwrap().to_string();
        let unknown = "Custom { kind: InvalidData, error: InvalidCertificate(UnknownIssuer) }";
        assert!(text(unknown).contains("authority"), "{}", text(unknown));
        let other = "Custom { kind: InvalidData, error: InvalidCertificate(BadEncoding) }";
        assert_eq!(
            text(other),
            "the server's certificate is not accepted: BadEncoding"
        );
        assert_eq!(reason("Os { code: 111, kind: ConnectionRefused }"), None);
    }
}
