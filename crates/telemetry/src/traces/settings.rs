//! Settings of traces: the requests whose spans are recorded, and the collector.

use std::fmt;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Uri};

/// The settings of traces.
#[derive(Clone, PartialEq, Eq)]
pub struct TraceSettings {
    /// The collector's URL, for OTLP over HTTP. If `None`, trace contexts are passed on, but no spans are sent.
    pub otlp: Option<Uri>,
    /// The headers of requests to the collector. They may hold secrets.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The share of requests whose spans are recorded, in millionths. It applies to requests for which no trusted peer has decided.
    pub sample: u32,
    /// The most recorded requests per second, including requests of trusted peers.
    pub max_per_second: u32,
    /// The longest wait for the collector's answer.
    pub timeout: Duration,
    /// Attributes of the gateway's resource. The first is `service.name`.
    pub resource: Vec<(String, String)>,
}

// Not derived, because the URL's query and the headers may hold secrets.
impl fmt::Debug for TraceSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceSettings")
            .field("otlp", &self.otlp.as_ref().and_then(Uri::host))
            .field("sample", &self.sample)
            .field("max_per_second", &self.max_per_second)
            .finish_non_exhaustive()
    }
}
