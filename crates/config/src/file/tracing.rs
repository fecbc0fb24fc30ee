//! Traces, as they are written.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::shape::Named;
use crate::value::{HeaderText, OtlpUrl, Sample, Scalar, TracesPerSecond};

/// Traces. What is not said here is taken from the `OTEL_*` variables of the environment, if they are set.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tracing {
    /// The collector, such as http://localhost:4318, or the whole URL with its path. Default: OTEL_EXPORTER_OTLP_ENDPOINT, or none.
    pub(crate) otlp: Option<Scalar<OtlpUrl>>,
    /// How many requests are traced of those for which no trusted peer has decided that. Default: OTEL_TRACES_SAMPLER, or 1%.
    pub(crate) sample: Option<Scalar<Sample>>,
    /// How many of these are traced per second at most. Default: 100.
    pub(crate) max_per_second: Option<Scalar<TracesPerSecond>>,
    /// Headers for the collector, such as its key. Default: OTEL_EXPORTER_OTLP_HEADERS, or none.
    pub(crate) headers: Option<Named<Scalar<HeaderText>>>,
}
