//! Finds the client that a credential of a caller names: a key, a token, a certificate, or a user ID from a trusted proxy.

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName};
use tidegate_net::tls::ClientCertificate;

use super::{Caller, Client, Credentials};
use crate::api_keys::{self, ApiKeys, UnknownKey};
use crate::certificate::CertificateName;
use crate::jwt::{InvalidToken, TokenUser, Tokens, bearer};
use crate::plan::NamedPlan;

impl Caller {
    /// Returns the client that the request's API key names, and the client's plan.
    pub(super) fn by_key(
        &mut self,
        headers: &HeaderMap,
        header: &HeaderName,
        keys: &ApiKeys,
        unknown: UnknownKey,
    ) -> Option<(Client, NamedPlan)> {
        let mut values = headers.get_all(header).iter();
        if values.all(|value| value.as_bytes().trim_ascii().is_empty()) {
            // An empty key counts as no key, not as an unknown key.
            return None;
        }
        let sha256 = single_key(headers, header).map(api_keys::hash);
        let listed = sha256.as_ref().and_then(|sha256| keys.client(sha256));
        if let Some(listed) = listed {
            let plan = listed.plan.map_or(NamedPlan::Nothing, NamedPlan::Plan);
            return Some((Client::ApiKey(listed.name), plan));
        }
        self.unknown_key = true;
        match unknown {
            UnknownKey::FallThrough => None,
            UnknownKey::Reject => {
                self.refused = self.refused.or(Some(Credentials::ApiKey));
                None
            }
            UnknownKey::Accept => sha256.map(|sha256| {
                let mut cut = [0; 16];
                cut.copy_from_slice(&sha256[..16]);
                (Client::UnlistedKey(cut), NamedPlan::Nothing)
            }),
        }
    }

    /// Returns the client that the request's token names, and the client's plan.
    pub(super) fn by_token(
        &mut self,
        headers: &HeaderMap,
        tokens: &Tokens,
    ) -> Option<(Client, NamedPlan)> {
        let user = tokens.user(tokens.token(headers)?);
        if user.is_none() && tokens.rules.invalid == InvalidToken::Reject {
            self.refused = self.refused.or(Some(Credentials::Token));
        }
        let TokenUser { id, plan, claims } = user?;
        self.has_token = true;
        self.claims.add(claims);
        self.by_user(Some((id, plan)))
    }

    pub(super) fn by_certificate(
        &mut self,
        certificate: Option<&ClientCertificate>,
        name: CertificateName,
    ) -> Option<(Client, NamedPlan)> {
        let client = Client::Certificate(name.of(certificate?)?.clone());
        self.client_cert.get_or_insert_with(|| client.clone());
        Some((client, NamedPlan::Nothing))
    }

    pub(super) fn by_user(
        &mut self,
        user: Option<(Box<str>, NamedPlan)>,
    ) -> Option<(Client, NamedPlan)> {
        let (id, plan) = user?;
        let client = Client::UserId(id);
        self.user_id.get_or_insert_with(|| client.clone());
        Some((client, plan))
    }
}

/// Returns a header's value without blanks at its ends. `None` if the request lacks the header, has it more than once, or has an empty
/// value.
pub fn header_value<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a [u8]> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.as_bytes().trim_ascii();
    (values.next().is_none() && !value.is_empty()).then_some(value)
}

/// Returns the API key in a header. `None` if [`header_value`] returns `None`. In `Authorization`, removes the scheme `Bearer` before the
/// key.
pub(super) fn single_key<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a [u8]> {
    let value = header_value(headers, name)?;
    let behind = (name == AUTHORIZATION).then(|| bearer(value)).flatten();
    Some(behind.unwrap_or(value))
}
