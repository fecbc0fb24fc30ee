//! The values of a request that a check or an operator names, by the words of `per`.

mod bad_values;
pub(crate) mod query;

use std::net::IpAddr;
use std::sync::{Arc, LazyLock};

use http::header::{COOKIE, HOST};
use http::{HeaderName, HeaderValue, Method, Request};
use tidegate_doors::Check;
use tidegate_identity::{Caller, Claims, Client, Clients};
use tidegate_tower::{Descriptor, JsonPath, Per, RequestContext, Rule, folds_to};

use bad_values::MAX_VALUES;
pub(crate) use bad_values::{BadValues, Name};

/// The request of questions that give no value of a request.
static EMPTY: LazyLock<Arc<Request<()>>> = LazyLock::new(Arc::default);

/// The values of a check, by the part of a request that they stand for.
#[derive(Debug, Default)]
pub(crate) struct Values<'c> {
    names: Vec<String>,
    address: Option<IpAddr>,
    claims: Vec<(Arc<str>, Box<str>)>,
    method: Option<Method>,
    host: Option<HeaderValue>,
    headers: Vec<(HeaderName, HeaderValue)>,
    cookies: Vec<(&'c str, &'c str)>,
    path: Vec<(Arc<str>, Box<str>)>,
    query: Vec<(&'c str, &'c str)>,
    descriptor: Vec<(Box<str>, Box<str>)>,
    json: Vec<(JsonPath, Option<Box<str>>)>,
}

impl<'c> Values<'c> {
    /// Reads the values of a check.
    pub(crate) fn read(check: &'c Check) -> Result<Self, BadValues> {
        let mut values = Self::default();
        if check.per.len() > MAX_VALUES {
            return Err(BadValues::TooManyValues);
        }
        for (part, value) in &check.per {
            let invalid = || BadValues::Value((&**part).into());
            let unknown = || BadValues::Part((&**part).into());
            // A blank value counts as missing in a request.
            if value.trim_ascii().is_empty() {
                return Err(invalid());
            }
            let (kind, name) = part.split_once(':').unwrap_or((part, ""));
            match (kind, name) {
                ("ip", "") => values.address = Some(value.parse().map_err(|_| invalid())?),
                ("api_key" | "user_id" | "client_cert", "") => {
                    values.names.push(format!("{kind}:{value}"));
                }
                ("method", "") => {
                    let method = Method::from_bytes(value.as_bytes());
                    values.method = Some(method.map_err(|_| invalid())?);
                }
                ("host", "") => values.host = Some(text(value).ok_or_else(invalid)?),
                ("header", name) if !name.is_empty() => {
                    let name = header(name).ok_or_else(unknown)?;
                    if values.headers.iter().any(|(other, _)| *other == name) {
                        return Err(BadValues::PartTwice((&**part).into()));
                    }
                    let value = text(value).ok_or_else(invalid)?;
                    values.headers.push((name, value));
                }
                ("cookie", name) if !name.is_empty() => {
                    let is_plain = |c: char| c.is_ascii_graphic() && !matches!(c, ';' | ',' | '"');
                    if !value.chars().all(is_plain) {
                        return Err(invalid());
                    }
                    // The name of a cookie allows the same characters as the name of a header.
                    header(name).ok_or_else(unknown)?;
                    values.cookies.push((name, value));
                }
                ("path", name) if !name.is_empty() => {
                    values.path.push((name.into(), value.clone()));
                }
                ("query", name) if !name.is_empty() => {
                    // A limit treats names that fold together as one name.
                    let text = name.trim_ascii().as_bytes();
                    let is_same = |(other, _): &(&str, &str)| folds_to(text, other.trim_ascii());
                    if values.query.iter().any(is_same) {
                        return Err(BadValues::PartTwice((&**part).into()));
                    }
                    values.query.push((name, value));
                }
                ("claim", name) if !name.is_empty() => {
                    values.claims.push((name.into(), value.clone()));
                }
                ("descriptor", name) if !name.is_empty() => {
                    values.descriptor.push((name.into(), value.clone()));
                }
                ("json", path) => {
                    let path = path.parse().map_err(|_| unknown())?;
                    values.json.push((path, Some(value.clone())));
                }
                ("route", "") => return Err(BadValues::PartRoute),
                _ => return Err(unknown()),
            }
        }
        Ok(values)
    }

    /// Returns the caller that the names, the address and the claims identify.
    pub(crate) fn caller(
        &self,
        clients: &Clients,
        check: &Check,
        asker: IpAddr,
    ) -> Result<Caller, BadValues> {
        let others = self.names.iter().map(String::as_str);
        let claims = Claims::of_texts(self.claims.iter().cloned());
        let name = check.client.as_deref();
        Ok(Caller::introduced(
            clients,
            name,
            others,
            self.address,
            claims,
            asker,
        )?)
    }

    /// Checks that the check gives every value that a rule is counted per.
    pub(crate) fn suffice(
        &self,
        rule: &Rule,
        caller: &Caller,
        check: &Check,
        has_route: bool,
    ) -> Result<(), BadValues> {
        let has_address = caller.origin.is_some();
        let has_name = check.client.is_some() || !self.names.is_empty();
        for per in rule.per.iter() {
            let given = match per {
                Per::Client => has_name || has_address,
                Per::Ip | Per::Network(_) => has_address,
                // A client that is named by its address has neither of these names, and counts under its address.
                Per::ApiKey => caller.api_key.is_some() || is_address(caller),
                Per::UserId => caller.user_id.is_some() || is_address(caller),
                Per::ClientCert => caller.client_cert.is_some() || is_address(caller),
                Per::Claim(name) => caller.claims.value(name).is_some(),
                Per::Route => has_route,
                Per::Method => self.method.is_some(),
                Per::Host => self.host.is_some(),
                Per::Header(name) => self.headers.iter().any(|(other, _)| other == name),
                Per::Cookie(name) => self.cookies.iter().any(|(other, _)| **name == **other),
                Per::Path(name) => self.path.iter().any(|(other, _)| name == other),
                Per::Query(name) => self.query.iter().any(|(other, _)| **name == **other),
                Per::Descriptor(name) => {
                    let mut entries = self.descriptor.iter();
                    entries.any(|(other, _)| **name == **other)
                }
                Per::Json(budgets) => self.json.iter().any(|(path, _)| *path == budgets.path),
            };
            if !given {
                return Err(BadValues::Missing {
                    limit: rule.limit.name().into(),
                    per: per.to_string(),
                    remedy: match per {
                        Per::Client => "`client` is missing, or a name or an address under `per`",
                        Per::Route => "name `route` in place of `limits`",
                        _ => "this value is missing under `per`",
                    },
                });
            }
        }
        Ok(())
    }

    /// Returns a request with the values.
    pub(crate) fn request(self) -> Result<Arc<Request<()>>, BadValues> {
        let is_empty = self.method.is_none()
            && self.host.is_none()
            && self.headers.is_empty()
            && self.cookies.is_empty()
            && self.path.is_empty()
            && self.query.is_empty()
            && self.descriptor.is_empty()
            && self.json.is_empty();
        if is_empty {
            return Ok(EMPTY.clone());
        }
        let mut request = Request::new(());
        if let Some(method) = self.method {
            *request.method_mut() = method;
        }
        if !self.query.is_empty() {
            let pairs = self.query.iter();
            let pairs = pairs.map(|(name, value)| format!("{}={}", escaped(name), escaped(value)));
            let target = format!("/?{}", pairs.collect::<Vec<_>>().join("&"));
            let uri = target
                .parse()
                .map_err(|_| BadValues::Value("query".into()))?;
            *request.uri_mut() = uri;
        }
        let headers = request.headers_mut();
        headers.extend(
            self.headers
                .into_iter()
                .map(|(name, value)| (Some(name), value)),
        );
        if let Some(host) = self.host {
            headers.insert(HOST, host);
        }
        if !self.cookies.is_empty() {
            let cookies = self
                .cookies
                .iter()
                .map(|(name, value)| format!("{name}={value}"));
            let cookies = cookies.collect::<Vec<_>>().join("; ");
            let value = text(&cookies).ok_or(BadValues::Value("cookie".into()))?;
            headers.insert(COOKIE, value);
        }
        if !self.path.is_empty() {
            RequestContext::of_mut(&mut request).path_values = self.path;
        }
        if !self.json.is_empty() {
            RequestContext::of_mut(&mut request).texts = self.json.into_iter().collect();
        }
        if !self.descriptor.is_empty() {
            request.extensions_mut().insert(Descriptor(self.descriptor));
        }
        Ok(Arc::new(request))
    }
}

const fn is_address(caller: &Caller) -> bool {
    matches!(caller.client, Client::Ip(_)) && caller.origin.is_some()
}

fn header(name: &str) -> Option<HeaderName> {
    name.parse().ok()
}

fn text(value: &str) -> Option<HeaderValue> {
    HeaderValue::from_str(value).ok()
}

/// Percent-encodes all bytes but letters and digits.
fn escaped(text: &str) -> String {
    let escaped = text.bytes().map(|byte| match byte {
        byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    });
    escaped.collect()
}
