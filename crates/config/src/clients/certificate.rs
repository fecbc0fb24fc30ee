//! `client_cert`: clients that are named by a verified certificate.

use crate::yaml::Problem;
use schemars::JsonSchema;
use serde::Deserialize;
use tidegate_identity::CertificateName;

use crate::check::Check;
use crate::clients::WrittenClients;
use crate::value::Scalar;

/// Verified client certificates.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CertificateSource {
    /// The part of the certificate that names the client: san_dns, san_uri, cn or fingerprint. Default: san_dns.
    pub(crate) name: Option<Scalar<CertificateName>>,
}

/// Warns of each source that reads certificates. The caller has checked that no listener verifies certificates.
pub(crate) fn unverified(check: &mut Check<'_>, clients: WrittenClients<'_>) {
    for source in clients.sources {
        if source.value.client_cert.is_some() {
            check.warn(
                Problem::new(source.place, "this source never names a client")
                    .note("no listener asks for client certificates: set `client_ca` under `tls`"),
            );
        }
    }
}
