//! What is kept of a request's head.

use http::header::{HOST, REFERER, USER_AGENT};
use http::{HeaderName, Request};

use super::format::Format;
use super::settings::AccessField;
use super::value::Value;

/// The longest path, referer and user agent, in bytes. What is longer is cut.
const MAX_TEXT: usize = 1_024;
/// The longest host, in bytes.
const MAX_HOST: usize = 255;

/// The parts of a request's head that a record keeps beside its path.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeadFields {
    host: bool,
    user_agent: bool,
    referer: bool,
}

impl HeadFields {
    pub(super) const NOTHING: Self = Self {
        host: false,
        user_agent: false,
        referer: false,
    };

    /// What spans need beside it.
    pub(super) const fn and_for_spans(self) -> Self {
        Self {
            host: true,
            user_agent: true,
            referer: self.referer,
        }
    }

    /// What this format needs.
    pub(super) fn for_format(format: &Format) -> Self {
        Self {
            host: format.has(AccessField::Host),
            user_agent: format.has(AccessField::UserAgent),
            referer: format.has(AccessField::Referer),
        }
    }
}

/// The texts of a request's head that are kept, one behind the other. Each is one byte longer than its longest form if it is to
/// be cut.
#[derive(Debug)]
pub(super) struct Texts {
    bytes: Box<[u8]>,
    /// Where the path, the host and the user agent end; the referer is the rest.
    ends: [u16; 3],
}

impl Texts {
    pub(super) fn of<B>(request: &Request<B>, kept: HeadFields) -> Self {
        let header = |name: HeaderName| request.headers().get(name).map(|value| value.as_bytes());
        let start = |bytes: Option<&'_ [u8]>, longest: usize| {
            let bytes = bytes.unwrap_or_default();
            bytes.len().min(longest + 1)
        };
        let path = request.uri().path().as_bytes();
        let host = kept.host.then(|| match request.uri().authority() {
            Some(authority) => Some(authority.as_str().as_bytes()),
            None => header(HOST),
        });
        let host = host.flatten();
        let user_agent = kept.user_agent.then(|| header(USER_AGENT)).flatten();
        // Without the query, which may hold secrets, as that of the request itself.
        let referer = kept.referer.then(|| header(REFERER)).flatten();
        let referer = referer.and_then(|it| it.split(|byte| matches!(byte, b'?' | b'#')).next());
        let parts = [
            &path[..start(Some(path), MAX_TEXT)],
            &host.unwrap_or_default()[..start(host, MAX_HOST)],
            &user_agent.unwrap_or_default()[..start(user_agent, MAX_TEXT)],
            &referer.unwrap_or_default()[..start(referer, MAX_TEXT)],
        ];
        let [path, host, agent, _] = parts.map(|part| part.len() as u16);
        Self {
            bytes: parts.concat().into(),
            ends: [path, path + host, path + host + agent],
        }
    }

    /// Of a head that could not be read.
    pub(super) fn unparsed() -> Self {
        Self {
            bytes: b"-".as_slice().into(),
            ends: [1; 3],
        }
    }

    fn between(&self, start: u16, end: usize, longest: usize) -> Value<'_> {
        match self.bytes.get(start.into()..end) {
            None | Some([]) => Value::Missing,
            Some(bytes) => Value::Text(bytes, longest),
        }
    }

    pub(super) fn path(&self) -> Value<'_> {
        self.between(0, self.ends[0].into(), MAX_TEXT)
    }

    pub(super) fn host(&self) -> Value<'_> {
        self.between(self.ends[0], self.ends[1].into(), MAX_HOST)
    }

    pub(super) fn user_agent(&self) -> Value<'_> {
        self.between(self.ends[1], self.ends[2].into(), MAX_TEXT)
    }

    pub(super) fn referer(&self) -> Value<'_> {
        self.between(self.ends[2], self.bytes.len(), MAX_TEXT)
    }
}
