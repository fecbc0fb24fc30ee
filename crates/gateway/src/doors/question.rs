//! Makes questions of the limits, the client and the values that a check names.

use std::net::IpAddr;
use std::sync::{Arc, LazyLock};

use http::header::{COOKIE, HOST};
use http::{HeaderName, HeaderValue, Method, Request};
use tidegate_doors::{Check, MAX_COST, MAX_HOLD};
use tidegate_identity::{Caller, Claims, Client, Clients};
use tidegate_store::MAX_CHARGES;
use tidegate_tower::{Descriptor, Per, Question, QuestionPart, RequestContext, Rule, folds_to};

use super::Doors;
use super::bad_check::{BadCheck, MAX_VALUES};
use super::judgement::Subject;
use crate::stack::Stack;

/// A question that is ready to be decided.
#[derive(Debug)]
pub(super) struct Ready<'a> {
    pub(super) subject: Subject<'a>,
    pub(super) question: Question,
}

/// The request of questions that give no value of a request.
static EMPTY: LazyLock<Arc<Request<()>>> = LazyLock::new(Arc::default);

impl Doors {
    /// Makes the question of a check.
    pub(super) fn question<'a>(
        &'a self,
        stack: &'a Stack,
        check: &Check,
        asker: IpAddr,
    ) -> Result<Ready<'a>, BadCheck> {
        let ready = self.looking(stack, check, asker)?;
        let parts = ready.question.parts.iter();
        let rules = &ready.subject.limits.policy().rules;
        let mut rules = parts.map(|part| &rules[part.rule]);
        if check.hold.is_none() {
            // A place is held until the request ends, so a check without a hold would be admitted in vain.
            let running = rules.find(|rule| rule.limit.quota().lease().is_some());
            return match running {
                Some(rule) => Err(BadCheck::NeedsHold(rule.limit.name().into())),
                None => Ok(ready),
            };
        }
        match rules.any(Rule::can_hold) {
            true => Ok(ready),
            false => Err(BadCheck::NoHold),
        }
    }

    /// Makes the question of a check without a charge.
    pub(super) fn looking<'a>(
        &'a self,
        stack: &'a Stack,
        check: &Check,
        asker: IpAddr,
    ) -> Result<Ready<'a>, BadCheck> {
        let (subject, rules) = self.subject(stack, check)?;
        let values = Values::read(check)?;
        let caller = values.caller(&stack.clients, check, asker)?;
        if check
            .cost
            .is_some_and(|cost| !(1..=MAX_COST).contains(&cost))
        {
            return Err(BadCheck::Cost);
        }
        if check
            .hold
            .is_some_and(|hold| !(1..=MAX_HOLD).contains(&hold))
        {
            return Err(BadCheck::Hold);
        }
        let all = &subject.limits.policy().rules;
        for rule in rules.iter().map(|index| &all[*index]) {
            values.suffice(rule, &caller, check, subject.route.is_some())?;
        }
        let request = values.request()?;
        let parts = rules.into_iter().map(|rule| QuestionPart {
            rule,
            caller: None,
            request: request.clone(),
            cost: check.cost,
            limit: None,
        });
        let question = Question {
            caller,
            parts: parts.collect(),
            holds: check.hold.is_some(),
        };
        Ok(Ready { subject, question })
    }

    /// Returns the limits that a check is about, and the indices of their rules.
    fn subject<'a>(
        &'a self,
        stack: &'a Stack,
        check: &Check,
    ) -> Result<(Subject<'a>, Vec<usize>), BadCheck> {
        if let Some(name) = &check.route {
            if !check.limits.is_empty() {
                return Err(BadCheck::Subject);
            }
            let route = stack.routes.find_value(|route| *route.name == **name);
            let route = route.ok_or_else(|| BadCheck::Route((&**name).into()))?;
            let metrics = route
                .doors
                .as_ref()
                .map_or(&self.checks, |doors| &doors.check);
            let subject = Subject {
                limits: &route.limits,
                route: Some(&route.name),
                metrics,
            };
            let count = route.limits.policy().rules.len();
            return Ok((subject, (0..count).collect()));
        }
        match check.limits.len() {
            0 => return Err(BadCheck::Subject),
            count if count > MAX_CHARGES => return Err(BadCheck::TooManyLimits),
            _ => {}
        }
        let mut rules = Vec::with_capacity(check.limits.len());
        for name in &check.limits {
            let rule = self.names.get(name);
            let rule = *rule.ok_or_else(|| BadCheck::Limit((&**name).into()))?;
            if rules.contains(&rule) {
                return Err(BadCheck::Twice((&**name).into()));
            }
            rules.push(rule);
        }
        let subject = Subject {
            limits: &self.limits,
            route: None,
            metrics: &self.checks,
        };
        Ok((subject, rules))
    }
}

/// The values of a check, by the part of a request that they stand for.
#[derive(Debug, Default)]
struct Values<'c> {
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
}

impl<'c> Values<'c> {
    fn read(check: &'c Check) -> Result<Self, BadCheck> {
        let mut values = Self::default();
        if check.per.len() > MAX_VALUES {
            return Err(BadCheck::TooManyValues);
        }
        for (part, value) in &check.per {
            let invalid = || BadCheck::Value((&**part).into());
            let unknown = || BadCheck::Part((&**part).into());
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
                        return Err(BadCheck::PartTwice((&**part).into()));
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
                        return Err(BadCheck::PartTwice((&**part).into()));
                    }
                    values.query.push((name, value));
                }
                ("claim", name) if !name.is_empty() => {
                    values.claims.push((name.into(), value.clone()));
                }
                ("descriptor", name) if !name.is_empty() => {
                    values.descriptor.push((name.into(), value.clone()));
                }
                ("route", "") => return Err(BadCheck::PartRoute),
                _ => return Err(unknown()),
            }
        }
        Ok(values)
    }

    fn caller(&self, clients: &Clients, check: &Check, asker: IpAddr) -> Result<Caller, BadCheck> {
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
    fn suffice(
        &self,
        rule: &Rule,
        caller: &Caller,
        check: &Check,
        has_route: bool,
    ) -> Result<(), BadCheck> {
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
            };
            if !given {
                return Err(BadCheck::Missing {
                    limit: rule.limit.name().into(),
                    per: per.to_string(),
                    remedy: match per {
                        Per::Client => {
                            "the check needs `client`, or a name or an address under `per`"
                        }
                        Per::Route => "the check needs `route` in place of `limits`",
                        _ => "the check needs this value under `per`",
                    },
                });
            }
        }
        Ok(())
    }

    /// Returns a request with the values.
    fn request(self) -> Result<Arc<Request<()>>, BadCheck> {
        let is_empty = self.method.is_none()
            && self.host.is_none()
            && self.headers.is_empty()
            && self.cookies.is_empty()
            && self.path.is_empty()
            && self.query.is_empty()
            && self.descriptor.is_empty();
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
                .map_err(|_| BadCheck::Value("query".into()))?;
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
            let value = text(&cookies).ok_or(BadCheck::Value("cookie".into()))?;
            headers.insert(COOKIE, value);
        }
        if !self.path.is_empty() {
            RequestContext::of_mut(&mut request).path_values = self.path;
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
