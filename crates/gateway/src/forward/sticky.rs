//! Sticky sessions: the server that a request prefers, and the cookie that names the server.

use http::header::SET_COOKIE;
use http::{HeaderValue, Request};
use tidegate_identity::header_value;
use tidegate_tower::{RequestContext, cookie_value};
use tidegate_upstream::{Affinity, Answer, HashedPart, ServerMark, Sticky};

/// The server that a request prefers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Preference {
    pub(super) affinity: Option<Affinity>,
    /// Whether the client uses TLS, so that the cookie is marked `Secure`.
    pub(super) is_https: bool,
}

/// Returns the server that a request prefers under this rule. `None` if the request lacks the cookie, the header or the client that the
/// rule reads.
pub(super) fn affinity<B>(sticky: &Sticky, request: &Request<B>) -> Option<Affinity> {
    match sticky {
        Sticky::Cookie(name, _) => {
            let value = cookie_value(request, name)?;
            ServerMark::read(&value).map(Affinity::Mark)
        }
        Sticky::Hash(HashedPart::Cookie(name)) => {
            let value = cookie_value(request, name)?;
            Some(Affinity::of(&value))
        }
        Sticky::Hash(HashedPart::Header(name)) => {
            let value = header_value(request.headers(), name)?;
            Some(Affinity::of(value))
        }
        Sticky::Hash(HashedPart::Client) => {
            let client = RequestContext::of(request).client.as_ref()?;
            Some(Affinity::of(client.to_string().as_bytes()))
        }
    }
}

impl Preference {
    /// Sets the cookie that names the answer's server, unless the client already has this cookie.
    pub(super) fn tell(self, sticky: Option<&Sticky>, answer: &mut Answer) {
        let (Some(Sticky::Cookie(name, _)), Some(mark)) = (sticky, answer.mark) else {
            return;
        };
        if self.affinity == Some(Affinity::Mark(mark)) {
            return;
        }
        let secure = if self.is_https { "; Secure" } else { "" };
        let cookie = format!("{name}={mark}; Path=/; HttpOnly; SameSite=Lax{secure}");
        if let Ok(cookie) = HeaderValue::try_from(cookie) {
            answer.response.headers_mut().append(SET_COOKIE, cookie);
        }
    }
}
