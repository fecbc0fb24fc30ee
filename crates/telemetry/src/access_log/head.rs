//! The parts of a request's head that its record keeps.

use http::header::{HOST, REFERER, USER_AGENT};
use http::{HeaderName, HeaderValue, Request};

use super::format::Format;
use super::settings::AccessField;
use super::value::Value;

/// The most bytes of the path, the referer and the user agent. Longer texts are cut.
const MAX_TEXT: usize = 1_024;
/// The most bytes of the host.
const MAX_HOST: usize = 255;

/// The parts of a request's head that a record keeps in addition to the path.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HeadFields {
    pub(super) host: bool,
    pub(super) user_agent: bool,
    referer: bool,
}

impl HeadFields {
    /// Returns the parts that this format needs.
    pub(super) fn for_format(format: &Format) -> Self {
        Self {
            host: format.has(AccessField::Host),
            user_agent: format.has(AccessField::UserAgent),
            referer: format.has(AccessField::Referer),
        }
    }
}

/// The kept texts of a request's head, concatenated. A text above its bound keeps one byte more than the bound, so that the line marks it
/// as cut.
#[derive(Debug)]
pub(super) struct Texts {
    bytes: Box<[u8]>,
    /// Ends of the path, the host, the user agent and the referer, in this order.
    ends: [u16; 4],
}

impl Texts {
    pub(super) fn of<B>(request: &Request<B>, kept: HeadFields) -> Self {
        let header = |is_kept: bool, name: HeaderName| {
            let value = is_kept.then(|| request.headers().get(name)).flatten();
            value.map_or(&[][..], HeaderValue::as_bytes)
        };
        let path = request.uri().path().as_bytes();
        let host = match request.uri().authority() {
            Some(authority) if kept.host => authority.as_str().as_bytes(),
            _ => header(kept.host, HOST),
        };
        let user_agent = header(kept.user_agent, USER_AGENT);
        // The referer and the path are kept without their queries, which may hold secrets.
        let mut pieces = header(kept.referer, REFERER).split(|byte| matches!(byte, b'?' | b'#'));
        let referer = pieces.next().unwrap_or_default();
        let start = |text: &'_ [u8], longest: usize| text.len().min(longest + 1);
        let parts = [
            &path[..start(path, MAX_TEXT)],
            &host[..start(host, MAX_HOST)],
            &user_agent[..start(user_agent, MAX_TEXT)],
            &referer[..start(referer, MAX_TEXT)],
        ];
        let mut end = 0;
        Self {
            bytes: parts.concat().into(),
            ends: parts.map(|part| {
                end += part.len() as u16;
                end
            }),
        }
    }

    /// Returns the texts for a request whose head could not be read: the path `-`, and no others.
    pub(super) fn unparsed() -> Self {
        Self {
            bytes: b"-".as_slice().into(),
            ends: [1; 4],
        }
    }

    /// Returns the text of a field. `None` if the head lacks it or the record does not keep it.
    pub(super) fn get(&self, field: AccessField) -> Option<Value<'_>> {
        let [path, host, user_agent, referer] = self.ends.map(usize::from);
        let (text, longest) = match field {
            AccessField::Path => (0..path, MAX_TEXT),
            AccessField::Host => (path..host, MAX_HOST),
            AccessField::UserAgent => (host..user_agent, MAX_TEXT),
            AccessField::Referer => (user_agent..referer, MAX_TEXT),
            _ => return None,
        };
        let text = &self.bytes[text];
        (!text.is_empty()).then_some(Value::Text(text, longest))
    }
}
