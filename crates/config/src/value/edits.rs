//! Values that say what is changed on the way.

use http::HeaderValue;
use http::uri::Authority;

use super::number::pattern;
use super::{Fault, Value};

use super::net::can_be_dialled;

/// The value of a header, which may be a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HeaderText(pub(crate) HeaderValue);

impl Value for HeaderText {
    const NAME: &'static str = "HeaderText";
    const WHAT: &'static str = "the value of a header";
    const ALLOWED: &'static str = "text of one line";
    const SHOWN: bool = false;
    /// A `Content-Security-Policy` may have some thousand bytes.
    const MAX_BYTES: usize = 8 << 10;

    fn read(text: &str) -> Result<Self, Fault> {
        let mut value = HeaderValue::from_str(text.trim()).map_err(|_| Fault::Form)?;
        value.set_sensitive(true);
        Ok(Self(value))
    }
}

/// The host that an upstream gets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum UpstreamHost {
    /// The client's.
    #[default]
    Keep,
    /// That of the server's URL.
    Upstream,
    /// This one.
    Fixed(HeaderValue),
}

impl Value for UpstreamHost {
    const NAME: &'static str = "UpstreamHost";
    const WHAT: &'static str = "a host for the upstream";
    const ALLOWED: &'static str =
        "keep, upstream (that of the server's URL), or a host such as api.internal";

    fn read(text: &str) -> Result<Self, Fault> {
        match text {
            "keep" => return Ok(Self::Keep),
            "upstream" => return Ok(Self::Upstream),
            _ => {}
        }
        let authority = text.parse::<Authority>().ok();
        let authority = authority.filter(can_be_dialled).ok_or(Fault::Form)?;
        let value = HeaderValue::from_str(authority.as_str());
        value.map(Self::Fixed).map_err(|_| Fault::Form)
    }
}

/// The port at which TLS is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HttpsPort(pub u16);

impl Value for HttpsPort {
    const NAME: &'static str = "HttpsPort";
    const WHAT: &'static str = "a redirect to TLS";
    const ALLOWED: &'static str = "https, or https:PORT if that is not 443";

    fn read(text: &str) -> Result<Self, Fault> {
        let port = match text.strip_prefix("https") {
            Some("") => Some(443),
            Some(port) => port.strip_prefix(':').and_then(|port| port.parse().ok()),
            None => None,
        };
        port.filter(|port| *port > 0).map(Self).ok_or(Fault::Form)
    }

    fn schema() -> serde_json::Map<String, serde_json::Value> {
        pattern("^https(:[0-9]{1,5})?$")
    }
}
