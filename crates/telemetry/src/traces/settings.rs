//! Settings of traces: the requests that are traced, and the collector.

use std::fmt;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Uri};

/// Traces.
#[derive(Clone, PartialEq, Eq)]
pub struct TraceSettings {
    /// The collector's URL, for OTLP over HTTP; none: trace contexts are passed on, and no spans are sent.
    pub otlp: Option<Uri>,
    /// Headers of requests to the collector; they may be secrets.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Traced requests in a million, if no trusted peer has decided.
    pub sample: u32,
    /// Bounds the recorded requests per second, including requests of trusted peers.
    pub max_per_second: u32,
    /// Longest wait for the collector's answer.
    pub timeout: Duration,
    /// Attributes of the gateway's resource; `service.name` is the first.
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
