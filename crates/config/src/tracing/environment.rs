//! The environment variables of OpenTelemetry. A variable applies if the configuration lacks the key of `tracing` with the same meaning.

use std::time::Duration;

use crate::yaml::{Place, Problem};
use http::{HeaderName, HeaderValue};
use tidegate_net::path::decoded_part;
use tidegate_telemetry::access_log::AccessLogSettings;

use super::OtlpUrl;
use crate::check::Check;
use crate::value::Value as _;

const TIMEOUT: Duration = Duration::from_secs(10);
/// The longest timeout that the variables may set for the collector's answer, in milliseconds.
const LONGEST_TIMEOUT: u64 = 60_000;
const PROTOCOL: &str = "http/protobuf";

/// The environment variables of OpenTelemetry. An empty variable counts as unset.
pub(super) struct Environment<'c, 'e> {
    pub(super) check: &'c mut Check<'e>,
    /// The place of the key `tracing`. Errors in variables are reported at this place.
    pub(super) place: Option<Place>,
}

impl Environment<'_, '_> {
    /// Returns the name and the value of the first of these variables that is set.
    fn first<const N: usize>(&self, names: [&'static str; N]) -> Option<(&'static str, String)> {
        names.into_iter().find_map(|name| {
            let value = (self.check.env)(name).filter(|value| !value.is_empty())?;
            Some((name, value))
        })
    }

    /// Reads the first of these variables that is set. A wrong value is refused.
    fn read<T, const N: usize>(
        &mut self,
        names: [&'static str; N],
        what: &str,
        allowed: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        let (name, text) = self.first(names)?;
        let value = read(&text);
        if value.is_none() {
            self.refuse(name, what, allowed);
        }
        value
    }

    /// Refuses a variable. Does not show its value, which may be a secret.
    fn refuse(&mut self, name: &str, what: &str, allowed: &str) {
        let message = format!("the environment variable `{name}` is not {what}");
        let problem = Problem::new(self.place, message).note(format!("allowed there: {allowed}"));
        let note = "`tracing` takes from the environment what is not written here";
        self.check.refuse(problem.note(note));
    }

    /// Whether tracing is off.
    pub(super) fn is_disabled(&self) -> bool {
        let disabled = self.first(["OTEL_SDK_DISABLED"]);
        disabled.is_some_and(|(_, it)| it.eq_ignore_ascii_case("true"))
    }

    /// Returns the URL of the collector.
    pub(super) fn collector(&mut self) -> Option<OtlpUrl> {
        let exporter = self.first(["OTEL_TRACES_EXPORTER"]);
        if exporter.is_some_and(|(_, name)| name == "none") {
            return None;
        }
        let whole = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
        let names = [whole, "OTEL_EXPORTER_OTLP_ENDPOINT"];
        let (name, _) = self.first(names)?;
        let protocols = [
            "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
            "OTEL_EXPORTER_OTLP_PROTOCOL",
        ];
        let what = "a protocol that tidegate speaks";
        self.read(protocols, what, PROTOCOL, |it| {
            (it == PROTOCOL).then_some(())
        });
        let allowed = "a URL such as http://localhost:4318";
        self.read(names, OtlpUrl::WHAT, allowed, |text| {
            let url = match name == whole {
                true => OtlpUrl::exact(text),
                false => OtlpUrl::of_collector(text),
            };
            url.ok()
        })
    }

    /// Returns the share of requests that are traced, in millionths.
    pub(super) fn sample(&mut self) -> Option<u32> {
        let sampler = "OTEL_TRACES_SAMPLER";
        let (_, name) = self.first([sampler])?;
        let share = match name.strip_prefix("parentbased_").unwrap_or(&name) {
            "always_on" => Some(1.0),
            "always_off" => Some(0.0),
            "traceidratio" => {
                let names = ["OTEL_TRACES_SAMPLER_ARG"];
                let share = self.read(names, "a share", "a number from 0 to 1", |text| {
                    text.parse().ok().filter(|it| (0.0..=1.0).contains(it))
                });
                share.or(Some(1.0))
            }
            _ => {
                let allowed =
                    "always_on, always_off, traceidratio, or one of these behind parentbased_";
                self.refuse(sampler, "a sampler", allowed);
                None
            }
        };
        share.map(|share| (share * f64::from(AccessLogSettings::ALL)).round() as u32)
    }

    /// Returns the longest time that the collector may take to answer a batch of spans.
    pub(super) fn timeout(&mut self) -> Duration {
        let names = [
            "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
            "OTEL_EXPORTER_OTLP_TIMEOUT",
        ];
        let millis = self.read(names, "a time in milliseconds", "1 to 60000", |text| {
            text.parse()
                .ok()
                .filter(|it| (1..=LONGEST_TIMEOUT).contains(it))
        });
        millis.map_or(TIMEOUT, Duration::from_millis)
    }

    /// Returns the headers for the collector. The variable has `name=value` pairs with commas between them. The values are escaped as in a
    /// URL.
    pub(super) fn headers(&mut self) -> Vec<(HeaderName, HeaderValue)> {
        let names = [
            "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
            "OTEL_EXPORTER_OTLP_HEADERS",
        ];
        let headers = self.read(
            names,
            "a list of headers",
            "name=value,name=value",
            |text| {
                let pairs = pairs(text)?.into_iter().map(|(name, value)| {
                    let mut value = HeaderValue::from_str(value.trim()).ok()?;
                    value.set_sensitive(true);
                    Some((name.parse::<HeaderName>().ok()?, value))
                });
                pairs.collect()
            },
        );
        headers.unwrap_or_default()
    }

    /// Returns the attributes of this process. The first attribute is the name of the service.
    pub(super) fn resource(&mut self) -> Vec<(String, String)> {
        let names = ["OTEL_RESOURCE_ATTRIBUTES"];
        let resource = self.read(
            names,
            "a list of attributes",
            "name=value,name=value",
            pairs,
        );
        let mut resource = resource.unwrap_or_default();
        let at = resource.iter().position(|(name, _)| name == "service.name");
        let named = at.map(|at| resource.remove(at).1);
        let name = self.first(["OTEL_SERVICE_NAME"]).map(|(_, name)| name);
        let name = name.or(named).unwrap_or_else(|| "tidegate".to_owned());
        resource.insert(0, ("service.name".to_owned(), name));
        resource
    }
}

/// Reads pairs such as `name=value,name=value`. The values are escaped as in a URL.
fn pairs(text: &str) -> Option<Vec<(String, String)>> {
    text.split(',')
        .map(str::trim)
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=')?;
            let name = name.trim();
            (!name.is_empty()).then_some(())?;
            Some((name.to_owned(), decoded_part(value.trim())?))
        })
        .collect()
}

#[cfg(test)]
mod tests;
