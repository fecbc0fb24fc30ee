//! Which requests are traced, and where their spans go.

use std::fmt;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Uri};

/// Traces.
#[derive(Clone, PartialEq, Eq)]
pub struct TraceSettings {
    /// Where spans are sent by OTLP over HTTP; none: trace contexts are passed on, and nothing is sent.
    pub otlp: Option<Uri>,
    /// Headers of what is sent there; they may be secrets.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// How many of a million requests are traced for which no trusted peer has decided that.
    pub sample: u32,
    /// The most requests that are recorded per second, also on behalf of trusted peers.
    pub max_per_second: u32,
    /// How long the collector may take to answer.
    pub timeout: Duration,
    /// What the gateway is, as attributes of its resource; `service.name` is the first.
    pub resource: Vec<(String, String)>,
}

// Not derived: the URL's query and the headers may hold secrets.
impl fmt::Debug for TraceSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceSettings")
            .field("otlp", &self.otlp.as_ref().and_then(Uri::host))
            .field("sample", &self.sample)
            .field("max_per_second", &self.max_per_second)
            .finish_non_exhaustive()
    }
}
