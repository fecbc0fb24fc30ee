//! The forms of values whose types are defined in other crates.

use std::sync::Arc;

use http::{HeaderName, Method};
use tidegate_identity::api_keys::UnknownKey;
use tidegate_identity::{jwt::InvalidToken, jwt::Signature};
use tidegate_net::path::EncodedSlashes;
use tidegate_net::pattern::PathPattern;
use tidegate_store::{Mode, OnFailure};
use tidegate_telemetry::RequestOutcome;
use tidegate_telemetry::access_log::AccessField;
use tidegate_telemetry::log::LogFormat;
use tidegate_tower::{JsonPath, Missing, NamedBudgets, Per, Reset};
use tidegate_upstream::Balance;

use crate::values::value::client::ClaimName;
use crate::values::value::net::{ParameterName, PrefixLength};
use crate::values::value::word::{LimitName, choice};
use crate::values::value::{Fault, Value};

choice!(
    LogFormat,
    "LogFormat",
    "a log format",
    [("text", Self::Text), ("json", Self::Json)]
);

impl Value for AccessField {
    const NAME: &'static str = "AccessField";
    const WHAT: &'static str = "a field of the access log";
    const ALLOWED: &'static str = "one of the fields in docs/operations.md";

    fn read(text: &str) -> Result<Self, Fault> {
        Self::named(text).ok_or(Fault::Form)
    }

    fn words() -> impl Iterator<Item = &'static str> {
        Self::ALL.iter().map(|field| field.name())
    }
}

choice!(
    RequestOutcome,
    "Outcome",
    "an outcome of a request",
    Self::ALL.map(|outcome| (outcome.label(), outcome))
);

choice!(
    Reset,
    "Reset",
    "a way to write a reset",
    [("epoch", Self::Epoch), ("delta", Self::Delta)]
);

choice!(
    OnFailure,
    "OnFailure",
    "a rule for a Redis failure",
    [
        ("local", Self::Local),
        ("open", Self::Open),
        ("closed", Self::Closed),
    ]
);

choice!(
    Mode,
    "Mode",
    "a mode",
    Self::ALL.map(|mode| (mode.word(), mode))
);

choice!(
    UnknownKey,
    "UnknownKey",
    "a treatment of unknown keys",
    [
        ("fall_through", Self::FallThrough),
        ("reject", Self::Reject),
        ("accept", Self::Accept),
    ]
);

choice!(
    InvalidToken,
    "InvalidToken",
    "what can be done with invalid tokens",
    [
        ("fall_through", Self::FallThrough),
        ("reject", Self::Reject),
    ]
);

choice!(Signature, "Signature", "a signature algorithm", Self::ALL);

impl Value for Balance {
    const NAME: &'static str = "Balance";
    const WHAT: &'static str = "a way to choose a server";
    const ALLOWED: &'static str = "one of a few words";

    fn read(text: &str) -> Result<Self, Fault> {
        match text {
            "round_robin" => Ok(Self::RoundRobin),
            "least_requests" => Ok(Self::LeastRequests),
            "hash" | "ip_hash" | "source" | "ring_hash" | "maglev" | "sticky" | "cookie" => {
                Err(Fault::Because(
                    "sticky sessions are `balance: { hash: client }`, or `balance: { cookie: NAME }` with a cookie of the gateway",
                ))
            }
            _ => Err(Fault::Form),
        }
    }

    fn words() -> impl Iterator<Item = &'static str> {
        ["round_robin", "least_requests"].into_iter()
    }
}

choice!(
    EncodedSlashes,
    "EncodedSlashes",
    "a treatment of encoded slashes",
    [("reject", Self::Reject), ("keep", Self::Keep)]
);

impl Value for Method {
    const NAME: &'static str = "Method";
    const WHAT: &'static str = "a method";
    const ALLOWED: &'static str = "a method in capitals, such as GET, POST or PURGE; not CONNECT";

    fn read(text: &str) -> Result<Self, Fault> {
        if ["ANY", "ALL", "*"].contains(&text.to_ascii_uppercase().as_str()) {
            let reason = format!("`{text}` is no method: leave `methods` out for any");
            return Err(Fault::Quoting(reason));
        }
        let in_capitals = text
            .bytes()
            .all(|byte| byte.is_ascii_uppercase() || byte == b'-');
        let method = text.parse().map_err(|_| Fault::Form)?;
        if !in_capitals || method == Self::CONNECT {
            return Err(Fault::Form);
        }
        Ok(method)
    }
}

impl Value for PathPattern {
    const NAME: &'static str = "Path";
    const WHAT: &'static str = "a path";
    const ALLOWED: &'static str =
        "a path such as /api/rides/{id}; {name} is one segment, /** at the end is any rest";

    fn read(text: &str) -> Result<Self, Fault> {
        Self::parse(text).map_err(|error| Fault::Quoting(error.to_string()))
    }
}

impl Value for Per {
    const NAME: &'static str = "Per";
    const WHAT: &'static str = "something that a limit can count per";
    const ALLOWED: &'static str = "client, ip, ip/48, api_key, user_id, client_cert, claim:NAME, route, method, host, header:NAME, cookie:NAME, path:NAME, query:NAME, descriptor:NAME, json:PATH";

    fn read(text: &str) -> Result<Self, Fault> {
        if let Some((_, plain)) = Self::PLAIN.into_iter().find(|(word, _)| *word == text) {
            return Ok(plain);
        }
        if let Some(bits) = text.strip_prefix("ip/") {
            return PrefixLength::read(bits).map(|PrefixLength(bits)| Self::Network(bits));
        }
        match text.split_once(':').ok_or(Fault::Form)? {
            ("claim", name) => {
                ClaimName::read(name).map(|ClaimName(name)| Self::Claim(name.into()))
            }
            ("header", name) => Ok(Self::Header(HeaderName::read(name)?)),
            ("cookie", name) => cookie_name(name).map(|name| Self::Cookie(name.into())),
            ("path", name) => LimitName::read(name).map(|LimitName(name)| Self::Path(name.into())),
            ("query", name) => {
                ParameterName::read(name).map(|ParameterName(name)| Self::Query(name.into()))
            }
            ("descriptor", name) => {
                ParameterName::read(name).map(|ParameterName(name)| Self::Descriptor(name.into()))
            }
            ("json", path) => {
                let path = JsonPath::read(path)?;
                let allow = Box::default();
                Ok(Self::Json(Arc::new(NamedBudgets { path, allow })))
            }
            _ => Err(Fault::Form),
        }
    }
}

/// Reads the name of a cookie. The name allows the same characters as a header's name, but its case matters.
fn cookie_name(name: &str) -> Result<&str, Fault> {
    let header = name.parse::<HeaderName>();
    header.map(|_| name).map_err(|_| Fault::Form)
}

choice!(
    Missing,
    "MissingCost",
    "the cost of an answer without the number",
    [("reserve", Missing::Reserve), ("all", Missing::All)]
);
