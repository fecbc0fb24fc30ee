//! What the variables of OpenTelemetry say of traces.

use std::fmt;
use std::time::Duration;

use http::{HeaderName, HeaderValue};

use crate::access_log::AccessLogSettings;

const TIMEOUT: Duration = Duration::from_secs(10);
/// The longest time that a collector may take to answer, in milliseconds.
const LONGEST_TIMEOUT: u64 = 60_000;

/// A variable that does not say what it should. Its value may be a secret, and is not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct WrongVariable {
    /// The name of the variable.
    pub name: &'static str,
    /// What its value is not.
    pub what: &'static str,
    /// What its value may be.
    pub allowed: &'static str,
}

impl WrongVariable {
    const fn new(name: &'static str, what: &'static str, allowed: &'static str) -> Self {
        Self {
            name,
            what,
            allowed,
        }
    }
}

/// Where a collector is, as a variable says.
#[derive(Debug)]
#[non_exhaustive]
pub struct CollectorVariable {
    /// The name of the variable.
    pub name: &'static str,
    /// Its value, which has not been read as a URL.
    pub text: String,
    /// Whether it is the whole URL. If not, the path of traces is added.
    pub is_whole: bool,
}

/// Reads the variables of OpenTelemetry. An empty variable is one that is not set.
#[derive(Clone, Copy)]
pub struct TraceEnvironment<'e>(&'e dyn Fn(&str) -> Option<String>);

// Not derived: a function has nothing to show, and what it reads may be secret.
impl fmt::Debug for TraceEnvironment<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TraceEnvironment")
    }
}

impl<'e> TraceEnvironment<'e> {
    /// Reads variables by `env`.
    pub const fn new(env: &'e dyn Fn(&str) -> Option<String>) -> Self {
        Self(env)
    }

    fn variable(self, name: &str) -> Option<String> {
        (self.0)(name).filter(|value| !value.is_empty())
    }

    /// The first of these variables that is set, with its name.
    fn first<const N: usize>(self, names: [&'static str; N]) -> Option<(&'static str, String)> {
        let mut names = names.into_iter();
        names.find_map(|name| Some((name, self.variable(name)?)))
    }

    /// Whether nothing is traced.
    pub fn is_disabled(self) -> bool {
        let disabled = self.variable("OTEL_SDK_DISABLED");
        disabled.is_some_and(|it| it.eq_ignore_ascii_case("true"))
    }

    /// Where the collector is; none if no variable says it.
    pub fn collector(self) -> Option<CollectorVariable> {
        if self
            .variable("OTEL_TRACES_EXPORTER")
            .is_some_and(|name| name == "none")
        {
            return None;
        }
        let whole = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
        let (name, text) = self.first([whole, "OTEL_EXPORTER_OTLP_ENDPOINT"])?;
        let is_whole = name == whole;
        Some(CollectorVariable {
            name,
            text,
            is_whole,
        })
    }

    /// Checks the protocol of the collector.
    ///
    /// # Errors
    ///
    /// It is another one than OTLP over HTTP.
    pub fn protocol(self) -> Result<(), WrongVariable> {
        let protocol = self.first([
            "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
            "OTEL_EXPORTER_OTLP_PROTOCOL",
        ]);
        match protocol.filter(|(_, protocol)| protocol != "http/protobuf") {
            None => Ok(()),
            Some((name, _)) => Err(WrongVariable::new(
                name,
                "a protocol that tidegate speaks",
                "http/protobuf",
            )),
        }
    }

    /// How many requests are traced, in millionths; none if no variable says it.
    ///
    /// # Errors
    ///
    /// The sampler is not known, or its argument is no share.
    pub fn sample(self) -> Result<Option<u32>, WrongVariable> {
        let Some(sampler) = self.variable("OTEL_TRACES_SAMPLER") else {
            return Ok(None);
        };
        let share = match sampler.strip_prefix("parentbased_").unwrap_or(&sampler) {
            "always_on" => Some(1.0),
            "always_off" => Some(0.0),
            "traceidratio" => match self.variable("OTEL_TRACES_SAMPLER_ARG") {
                None => Some(1.0),
                Some(share) => share.parse::<f64>().ok(),
            },
            _ => {
                return Err(WrongVariable::new(
                    "OTEL_TRACES_SAMPLER",
                    "a sampler",
                    "always_on, always_off, traceidratio, or one of these behind parentbased_",
                ));
            }
        };
        let share = share.filter(|share| (0.0..=1.0).contains(share));
        let wrong =
            WrongVariable::new("OTEL_TRACES_SAMPLER_ARG", "a share", "a number from 0 to 1");
        let share = share.ok_or(wrong)?;
        Ok(Some(
            (share * f64::from(AccessLogSettings::ALL)).round() as u32
        ))
    }

    /// How long the collector may take to answer.
    ///
    /// # Errors
    ///
    /// The time is no number of milliseconds, or too long.
    pub fn timeout(self) -> Result<Duration, WrongVariable> {
        let timeout = self.first([
            "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
            "OTEL_EXPORTER_OTLP_TIMEOUT",
        ]);
        let Some((name, text)) = timeout else {
            return Ok(TIMEOUT);
        };
        let millis = text.parse().ok();
        let millis = millis.filter(|millis| (1..=LONGEST_TIMEOUT).contains(millis));
        let wrong = WrongVariable::new(name, "a time in milliseconds", "1 to 60000");
        millis.map(Duration::from_millis).ok_or(wrong)
    }

    /// The headers for the collector: `name=value` pairs with commas between them, the values escaped as in a URL.
    ///
    /// # Errors
    ///
    /// This is no such list.
    pub fn headers(self) -> Result<Vec<(HeaderName, HeaderValue)>, WrongVariable> {
        let headers = self.first([
            "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
            "OTEL_EXPORTER_OTLP_HEADERS",
        ]);
        let Some((name, text)) = headers else {
            return Ok(Vec::new());
        };
        let read = pairs(&text).and_then(|pairs| {
            let pairs = pairs.into_iter().map(|(name, value)| {
                let mut value = HeaderValue::from_str(value.trim()).ok()?;
                value.set_sensitive(true);
                Some((name.parse::<HeaderName>().ok()?, value))
            });
            pairs.collect::<Option<Vec<_>>>()
        });
        read.ok_or(WrongVariable::new(
            name,
            "a list of headers",
            "name=value,name=value",
        ))
    }

    /// What spans say of this process: first its name.
    ///
    /// # Errors
    ///
    /// The attributes are no list.
    pub fn resource(self) -> Result<Vec<(String, String)>, WrongVariable> {
        let variable = "OTEL_RESOURCE_ATTRIBUTES";
        let text = self.variable(variable).unwrap_or_default();
        let wrong = WrongVariable::new(variable, "a list of attributes", "name=value,name=value");
        let mut resource = pairs(&text).ok_or(wrong)?;
        let is_name = |(name, _): &(String, String)| name == "service.name";
        let named = resource.iter().position(is_name);
        let named = named.map(|at| resource.remove(at).1);
        let name = self.variable("OTEL_SERVICE_NAME").or(named);
        let name = name.unwrap_or_else(|| "tidegate".to_owned());
        resource.insert(0, ("service.name".to_owned(), name));
        Ok(resource)
    }
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
