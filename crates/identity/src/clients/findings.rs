//! Explains why client sources named no client, for `tidegate explain`. Requests do not use this module.

use std::sync::Arc;

use http::HeaderMap;
use tidegate_net::peer::Peer;
use tidegate_net::tls::ClientCertificate;

use super::{ClientSource, Clients, header_value, single_key};
use crate::api_keys::{self, UnknownKey};
use crate::jwt::TokenFault;

/// The reason why a source named no client, though the request has the source's header or certificate. A finding contains no text of the
/// request, because the text may be secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Finding {
    /// The header is there more than once.
    #[error("it is there more than once")]
    Twice,
    /// The header is empty.
    #[error("it is empty")]
    Empty,
    /// The key is not listed.
    #[error("the key is not listed")]
    UnlistedKey,
    /// The key of this client has expired.
    #[error("the key of {0} has expired")]
    ExpiredKey(Arc<str>),
    /// The header is accepted from trusted proxies only.
    #[error("it is believed from `trusted_proxies` only")]
    Untrusted,
    /// The header's value is not valid UTF-8.
    #[error("it is no text")]
    NoText,
    /// The header has credentials of another kind than a bearer token.
    #[error("its scheme is not Bearer")]
    OtherScheme,
    /// The token names no client.
    #[error("{0}")]
    Token(TokenFault),
    /// The certificate has no name of the kind that the source reads.
    #[error("it has no such name")]
    NoName,
}

impl Clients {
    /// Returns the index of each source that named no client, with the reason. Leaves out sources whose header or certificate the request
    /// lacks.
    pub fn findings(
        &self,
        peer: Peer,
        headers: &HeaderMap,
        certificate: Option<&ClientCertificate>,
    ) -> Vec<(usize, Finding)> {
        let trusted = self.trusts(peer);
        let sources = self.sources.iter().enumerate();
        let findings = sources.filter_map(|(index, source)| {
            let finding = match source {
                ClientSource::Certificate(name) => {
                    let has_name = name.of(certificate?).is_some();
                    (!has_name).then_some(Finding::NoName)
                }
                other => other.finding(headers, trusted),
            };
            Some((index, finding?))
        });
        findings.collect()
    }
}

impl ClientSource {
    fn finding(&self, headers: &HeaderMap, trusted: bool) -> Option<Finding> {
        let header = self.header()?;
        if !headers.contains_key(header) {
            return None;
        }
        if self.is_ambiguous(headers, trusted) {
            return Some(Finding::Twice);
        }
        if matches!(self, Self::UserId { .. }) && !trusted {
            return Some(Finding::Untrusted);
        }
        let Some(value) = header_value(headers, header) else {
            return Some(Finding::Empty);
        };
        match self {
            Self::ApiKey { keys, unknown, .. } => {
                let key = single_key(headers, header).unwrap_or(value);
                let sha256 = api_keys::hash(key);
                if keys.client(&sha256).is_some() || *unknown == UnknownKey::Accept {
                    return None;
                }
                Some(match keys.expired(&sha256) {
                    Some(name) => Finding::ExpiredKey(name),
                    None => Finding::UnlistedKey,
                })
            }
            Self::UserId { .. } => std::str::from_utf8(value).err().map(|_| Finding::NoText),
            Self::Token(tokens) => match tokens.token(headers) {
                None => Some(Finding::OtherScheme),
                Some(_) => tokens.fault(headers).map(Finding::Token),
            },
            // Sources that read no header have returned above.
            Self::Certificate(_) | Self::Ip => None,
        }
    }
}
