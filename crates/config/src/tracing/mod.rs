//! The requests that are traced, and the collector that gets their spans (`tracing`).

mod environment;

use crate::yaml::Spanned;
use http::{HeaderName, HeaderValue, Uri};
use schemars::JsonSchema;
use serde::Deserialize;
use tidegate_telemetry::access_log::AccessLogSettings;
use tidegate_telemetry::traces::TraceSettings;

use environment::Environment;

use crate::check::Check;
use crate::log::access::Sample;
use crate::shape::Named;
use crate::value::header::HeaderText;
use crate::value::net::http_url;
use crate::value::number::bounded;
use crate::value::{Fault, Scalar, Value};

/// Traces of requests. Missing keys are taken from the `OTEL_*` variables of the environment.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tracing {
    /// The URL of the collector, such as http://localhost:4318, or its full URL for spans, including the path. Default:
    /// OTEL_EXPORTER_OTLP_ENDPOINT, or none.
    pub(crate) otlp: Option<Scalar<OtlpUrl>>,
    /// The share of requests that are traced. If a trusted peer has decided for a request, its decision applies instead. Default:
    /// OTEL_TRACES_SAMPLER, or 1%.
    pub(crate) sample: Option<Scalar<Sample>>,
    /// The most requests that are recorded per second, including requests that trusted peers decided to trace. Default: 100.
    pub(crate) max_per_second: Option<Scalar<TracesPerSecond>>,
    /// Headers for the collector, such as its key. Default: OTEL_EXPORTER_OTLP_HEADERS, or none.
    pub(crate) headers: Option<Named<Scalar<HeaderText>>>,
}

/// The URL at which a collector receives spans by OTLP over HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OtlpUrl(pub(crate) Uri);

impl OtlpUrl {
    /// The standard path at which collectors receive spans.
    const PATH: &str = "/v1/traces";

    /// Reads the URL of a collector without the path for spans, and adds the path.
    pub(crate) fn of_collector(text: &str) -> Result<Self, Fault> {
        Self::exact(&format!("{}{}", text.trim_end_matches('/'), Self::PATH))
    }

    /// Reads the URL of a collector that already includes the path for spans.
    pub(crate) fn exact(text: &str) -> Result<Self, Fault> {
        http_url(text, "the URL of a collector holds no user and password").map(Self)
    }
}

impl Value for OtlpUrl {
    const NAME: &'static str = "OtlpUrl";
    const WHAT: &'static str = "the URL of a collector";
    const ALLOWED: &'static str = "http://host:port or https://host:port, to which /v1/traces is added, or the same with a path of its own";
    const SHOWN: bool = false;

    fn read(text: &str) -> Result<Self, Fault> {
        let Self(uri) = Self::exact(text)?;
        match (uri.path(), uri.query()) {
            ("/" | "", None) => Self::of_collector(text),
            _ => Ok(Self(uri)),
        }
    }
}

bounded!(
    /// A number of traced requests per second.
    TracesPerSecond(u32),
    1..=100_000,
    "a number of traces per second",
    "a whole number from 1 to 100000"
);

/// The default share of requests that are traced, in millionths. If a trusted peer has decided whether a request is traced, the default
/// does not apply to the request.
const SAMPLE: u32 = AccessLogSettings::ALL / 100;

const PER_SECOND: u32 = 100;

/// Reads the settings. Missing keys are taken from the environment. If tracing is off, returns `None`, and the gateway forwards trace
/// contexts unchanged.
pub(crate) fn tracing(
    check: &mut Check<'_>,
    written: Option<&Spanned<Tracing>>,
) -> Option<TraceSettings> {
    let Spanned { value, place } = written?;
    let place = *place;
    let mut environment = Environment { check, place };
    if environment.is_disabled() {
        return None;
    }
    let otlp = match &value.otlp {
        Some(scalar) => environment.check.read(scalar),
        None => environment.collector(),
    };
    let sample = match &value.sample {
        Some(scalar) => environment.check.read(scalar).map(|Sample(share)| share),
        None => environment.sample(),
    };
    let most = environment.check.read_some(value.max_per_second.as_ref());
    let headers = match &value.headers {
        Some(written) => headers(environment.check, written),
        None => environment.headers(),
    };
    Some(TraceSettings {
        otlp: otlp.map(|OtlpUrl(url)| url),
        headers,
        sample: sample.unwrap_or(SAMPLE),
        max_per_second: most.map_or(PER_SECOND, |TracesPerSecond(number)| number),
        timeout: environment.timeout(),
        resource: environment.resource(),
    })
}

fn headers(
    check: &mut Check<'_>,
    written: &Named<Scalar<HeaderText>>,
) -> Vec<(HeaderName, HeaderValue)> {
    let mut read = Vec::new();
    for (name, value) in &written.0 {
        let name = Scalar::<HeaderName>::new(name.raw.clone(), name.place);
        let (name, value) = (check.read_hidden(&name), check.read_hidden(value));
        if let (Some(name), Some(HeaderText(value))) = (name, value) {
            read.push((name, value));
        }
    }
    read
}

#[cfg(test)]
mod tests;
