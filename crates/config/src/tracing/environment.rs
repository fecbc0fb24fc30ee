//! What the variables of OpenTelemetry say of traces, where the file does not.

use std::time::Duration;

use http::{HeaderName, HeaderValue};
use tidegate_telemetry::access_log::AccessLogSettings;
use tidegate_yaml::{Place, Problem};

use crate::check::Check;
use crate::tracing::OtlpUrl;
use crate::value::Value as _;
use crate::value::header::HeaderText;

const TIMEOUT: Duration = Duration::from_secs(10);

/// The longest time that a collector may take to answer.
const LONGEST_TIMEOUT: u64 = 60_000;

/// A variable that is set and not empty.
pub(crate) fn variable(check: &Check<'_>, name: &str) -> Option<String> {
    (check.env)(name).filter(|value| !value.is_empty())
}

/// The first of these variables that is set, with its name.
fn first_variable(check: &Check<'_>, names: &[&'static str]) -> Option<(&'static str, String)> {
    let mut names = names.iter();
    names.find_map(|name| Some((*name, variable(check, name)?)))
}

/// Refuses a variable. Its value is not shown: it may be a secret.
fn wrong_variable(
    check: &mut Check<'_>,
    place: Option<Place>,
    name: &str,
    what: &str,
    allowed: &str,
) {
    let problem = format!("the environment variable `{name}` is not {what}");
    let problem = Problem::new(place, problem).note(format!("allowed there: {allowed}"));
    check.refuse(problem.note("`tracing` takes from the environment what is not written here"));
}

pub(crate) fn collector_of_environment(
    check: &mut Check<'_>,
    place: Option<Place>,
) -> Option<OtlpUrl> {
    if variable(check, "OTEL_TRACES_EXPORTER").is_some_and(|name| name == "none") {
        return None;
    }
    let names = [
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
        "OTEL_EXPORTER_OTLP_ENDPOINT",
    ];
    let (name, text) = first_variable(check, &names)?;
    let protocols = [
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
        "OTEL_EXPORTER_OTLP_PROTOCOL",
    ];
    let protocol = first_variable(check, &protocols);
    if let Some((name, _)) = protocol.filter(|(_, protocol)| protocol != "http/protobuf") {
        wrong_variable(
            check,
            place,
            name,
            "a protocol that tidegate speaks",
            "http/protobuf",
        );
    }
    let is_whole = name == names[0];
    let read = if is_whole {
        OtlpUrl::exact(&text)
    } else {
        OtlpUrl::of_collector(&text)
    };
    if read.is_err() {
        wrong_variable(
            check,
            place,
            name,
            OtlpUrl::WHAT,
            "a URL such as http://localhost:4318",
        );
    }
    read.ok()
}

pub(crate) fn sample_of_environment(check: &mut Check<'_>, place: Option<Place>) -> Option<u32> {
    let sampler = variable(check, "OTEL_TRACES_SAMPLER")?;
    let share = match sampler.strip_prefix("parentbased_").unwrap_or(&sampler) {
        "always_on" => Some(1.0),
        "always_off" => Some(0.0),
        "traceidratio" => match variable(check, "OTEL_TRACES_SAMPLER_ARG") {
            None => Some(1.0),
            Some(share) => share.parse::<f64>().ok(),
        },
        _ => {
            let samplers =
                "always_on, always_off, traceidratio, or one of these behind parentbased_";
            wrong_variable(check, place, "OTEL_TRACES_SAMPLER", "a sampler", samplers);
            return None;
        }
    };
    let share = share.filter(|share| (0.0..=1.0).contains(share));
    if share.is_none() {
        wrong_variable(
            check,
            place,
            "OTEL_TRACES_SAMPLER_ARG",
            "a share",
            "a number from 0 to 1",
        );
    }
    share.map(|share| (share * f64::from(AccessLogSettings::ALL)).round() as u32)
}

pub(crate) fn timeout_of_environment(check: &mut Check<'_>, place: Option<Place>) -> Duration {
    let names = [
        "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
        "OTEL_EXPORTER_OTLP_TIMEOUT",
    ];
    let Some((name, text)) = first_variable(check, &names) else {
        return TIMEOUT;
    };
    let millis = text
        .parse()
        .ok()
        .filter(|millis| (1..=LONGEST_TIMEOUT).contains(millis));
    if millis.is_none() {
        wrong_variable(check, place, name, "a time in milliseconds", "1 to 60000");
    }
    millis.map_or(TIMEOUT, Duration::from_millis)
}

/// `name=value` pairs with commas between them, the values escaped as in a URL.
pub(crate) fn headers_of_environment(
    check: &mut Check<'_>,
    place: Option<Place>,
) -> Vec<(HeaderName, HeaderValue)> {
    let names = [
        "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
        "OTEL_EXPORTER_OTLP_HEADERS",
    ];
    let Some((variable, text)) = first_variable(check, &names) else {
        return Vec::new();
    };
    let read = pairs(&text).and_then(|pairs| {
        let pairs = pairs.into_iter().map(|(name, value)| {
            let name = name.parse::<HeaderName>().ok()?;
            let HeaderText(value) = HeaderText::read(&value).ok()?;
            Some((name, value))
        });
        pairs.collect::<Option<Vec<_>>>()
    });
    if read.is_none() {
        wrong_variable(
            check,
            place,
            variable,
            "a list of headers",
            "name=value,name=value",
        );
    }
    read.unwrap_or_default()
}

pub(crate) fn resource(check: &mut Check<'_>, place: Option<Place>) -> Vec<(String, String)> {
    let mut resource = Vec::new();
    let text = variable(check, "OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
    match pairs(&text) {
        Some(pairs) => resource = pairs,
        None => wrong_variable(
            check,
            place,
            "OTEL_RESOURCE_ATTRIBUTES",
            "a list of attributes",
            "name=value,name=value",
        ),
    }
    let is_name = |(name, _): &(String, String)| name == "service.name";
    let named = resource.iter().position(is_name);
    let named = named.map(|at| resource.remove(at).1);
    let name = variable(check, "OTEL_SERVICE_NAME").or(named);
    let name = name.unwrap_or_else(|| "tidegate".to_owned());
    resource.insert(0, ("service.name".to_owned(), name));
    resource
}

/// Reads `name=value,name=value`, the values escaped as in a URL.
fn pairs(text: &str) -> Option<Vec<(String, String)>> {
    let pairs = text
        .split(',')
        .map(str::trim)
        .filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| {
        let (name, value) = pair.split_once('=')?;
        let name = name.trim();
        (!name.is_empty()).then_some(())?;
        Some((name.to_owned(), unescaped(value.trim())?))
    });
    pairs.collect()
}

/// Text without its `%XX` escapes.
fn unescaped(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [byte, behind @ ..] = rest {
        rest = behind;
        if *byte != b'%' {
            bytes.push(*byte);
            continue;
        }
        let digits = rest
            .get(..2)
            .filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
        let digits = std::str::from_utf8(digits).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &rest[2..];
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests;
