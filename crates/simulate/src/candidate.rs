//! One configuration: computes the charges of each request of the log.

use std::collections::HashMap;
use std::rc::Rc;

use foldhash::fast::RandomState;
use http::{Method, Request};
use tidegate_config::Settings;
use tidegate_config::routes::RouteSettings;
use tidegate_core::Micros;
use tidegate_logs::{Entry, Field};
use tidegate_store::Key;
use tidegate_tower::{Hasher, Policy, RequestContext};

use crate::asked::Asked;
use crate::cache::{self, Cache};
use crate::caller::{identify, is_refused};
use crate::charged::{Assessed, Charged, Place, Unasked, is_plain};
use crate::counts::{Clients, Counts};
use crate::lacks::{Facts, Lack, policies};
use crate::request::{Given, request, unparsed};
use crate::router::Router;
use crate::variants::{Variant, variants};

/// Longest request whose route is cached, in bytes of method, host, path and query together. The routes of longer requests are looked up
/// each time.
const LONG: usize = 4_096;

/// Most combinations of method, host and path in the cache. The cache needs a bound, because clients may invent paths.
const MAX_PATHS: usize = 1 << 16;

/// A configuration to replay.
pub(crate) struct Candidate<'p> {
    settings: &'p Settings,
    router: &'p dyn Router,
    pub(crate) given: &'p Given,
    hasher: Hasher,
    /// The index in `settings.limits` of each rule's limit, by policy and rule.
    limits: Vec<Vec<u16>>,
    /// For each policy: whether its charges depend on the caller alone.
    is_plain: Vec<bool>,
    /// Whether any route has a condition on the query or on a header.
    has_conditions: bool,
    /// The facts of each log. The key is the memory address of the log's list of fields.
    logs: HashMap<usize, Rc<Log>, RandomState>,
    /// The number of the policy, cached by log, method, host and path.
    paths: Cache<usize>,
    /// The cached charges, by caller.
    callers: Cache<Answer<'p>>,
    /// For each limit: the number of each key. A plan with other quotas has keys of its own.
    keys: Vec<HashMap<(Key, &'p str), u32, RandomState>>,
    /// Number of requests for which a limit could not be computed, by the limit and the missing fact.
    pub(crate) lacking: HashMap<(u16, Lack), u64>,
    pub(crate) counts: Counts,
    pub(crate) clients: Clients,
    keeps_ids: bool,
    /// Whether the charges of the last line came from the cache.
    is_known: bool,
}

/// The facts in a log's lines, and a variant for each route that requires a fact that the lines lack.
struct Log {
    facts: Facts,
    variants: Vec<Variant>,
}

/// A line of a log.
#[derive(Clone, Copy)]
struct Line<'l> {
    entry: &'l Entry<'l>,
    outcome: Option<&'l [u8]>,
    log: &'l Log,
    /// The memory address of the log's list of fields.
    place: usize,
}

/// The charges of a request.
type Answer<'p> = Result<Rc<Charged<'p>>, Unasked>;

impl<'p> Candidate<'p> {
    pub(crate) fn new(
        settings: &'p Settings,
        router: &'p dyn Router,
        given: &'p Given,
        keeps_ids: bool,
    ) -> Self {
        let number = |name: &str| {
            let position = settings
                .limits
                .iter()
                .position(|limit| limit.name() == name);
            position.unwrap_or_default() as u16
        };
        let numbers = |policy: &Policy| {
            let rules = policy.rules.iter();
            rules.map(|rule| number(rule.limit.name())).collect()
        };
        let conditions = |route: &RouteSettings| route.shape.conditions.is_some();
        let secret = settings
            .secret
            .as_ref()
            .map_or("", |secret| secret.expose());
        Self {
            settings,
            router,
            given,
            hasher: Hasher::new(secret),
            limits: policies(settings).map(numbers).collect(),
            is_plain: policies(settings).map(is_plain).collect(),
            has_conditions: settings.routes.iter().any(conditions),
            logs: HashMap::default(),
            paths: Cache::new(MAX_PATHS),
            callers: Cache::new(usize::MAX),
            keys: settings.limits.iter().map(|_| HashMap::default()).collect(),
            lacking: HashMap::new(),
            counts: Counts::default(),
            clients: Clients::default(),
            keeps_ids,
            is_known: false,
        }
    }

    /// Returns the charges of a line's request, or the reason why the limits do not decide it.
    pub(crate) fn request(&mut self, entry: &Entry<'_>, number: u64) -> Result<Asked<'p>, Unasked> {
        self.counts.requests += 1;
        let outcome = entry.text(Field::Outcome);
        let outcome = outcome.as_ref().map(|text| text.raw());
        if outcome == Some(b"shed") {
            self.counts.shed += 1;
            return Err(Unasked::Shed);
        }
        let place = std::ptr::from_ref(entry.fields()) as usize;
        let (settings, given) = (self.settings, self.given);
        let log = self.logs.entry(place).or_insert_with(|| {
            Rc::new(Log {
                facts: Facts::of(entry.fields(), given, settings),
                variants: variants(settings, entry.fields(), given),
            })
        });
        let log = log.clone();
        let line = Line {
            entry,
            outcome,
            log: &log,
            place,
        };
        self.is_known = false;
        let path = self.path(line);
        let policy_at = path.as_ref().and_then(|key| self.paths.get(key)).copied();
        let assessed = match policy_at {
            Some(policy_at) if self.is_plain[policy_at] => {
                self.counts.unrouted += u64::from(policy_at == 0);
                self.plain(line, policy_at, None)
            }
            _ => self.whole(line, path),
        };
        let charged = match assessed {
            Ok(charged) => charged,
            Err(why) => {
                self.counts.denied += u64::from(why == Unasked::Denied);
                self.counts.oversized += u64::from(why == Unasked::Oversized);
                return Err(why);
            }
        };
        self.counts.credentials_refused += u64::from(charged.is_refused);
        self.clients.note(&charged.client);
        for lack in &charged.lacks {
            *self.lacking.entry(lack.clone()).or_default() += 1;
        }
        let limited = is_limited(entry, outcome);
        self.counts.limited_before += u64::from(limited);
        // The gateway does not see the answer to a request that another program carries, and charges the reserved units.
        let is_unseen = limited || outcome == Some(b"admitted");
        let id = entry.text(Field::Id).filter(|_| self.keeps_ids);
        let status = || entry.upstream_status().or_else(|| entry.status());
        let cost = || entry.cost().unwrap_or(0);
        Ok(Asked {
            service: service(entry).filter(|_| !limited),
            status: if is_unseen { None } else { status() },
            cost: (charged.asks_cost && !is_unseen).then(cost),
            charged,
            is_known: self.is_known,
            number,
            id: id.map(|id| String::from_utf8_lossy(&id.bytes()).into()),
            attempt: 0,
        })
    }

    /// Returns the key under which `paths` caches the request's policy. `None` if the route may depend on more than method, host and path,
    /// or if the request is too long for the cache.
    fn path(&self, line: Line<'_>) -> Option<cache::Key> {
        let (entry, facts) = (line.entry, &line.log.facts);
        let is_simple = !self.has_conditions
            && facts.unsure.is_none()
            && facts.route.is_none()
            && line.outcome != Some(b"preflight");
        let (method, path) = (entry.method()?.raw(), entry.path()?.raw());
        let query = entry.query().map_or(&b""[..], |query| query.raw());
        let host = entry.host().map(|host| host.raw());
        let length = method.len() + host.map_or(0, <[u8]>::len) + path.len() + query.len();
        if !is_simple
            || method == b"OPTIONS"
            || length > LONG
            || !query.iter().all(|byte| is_usual(*byte))
        {
            return None;
        }
        let mut key = cache::Key::default();
        key.number(line.place).text(Some(method));
        key.text(host).text(Some(path));
        Some(key)
    }

    /// Returns the charges of a request under a policy whose charges depend on the caller alone.
    fn plain(
        &mut self,
        line: Line<'_>,
        policy_at: usize,
        parsed: Option<&Request<()>>,
    ) -> Answer<'p> {
        let entry = line.entry;
        if !line.log.facts.plain_callers {
            let assessed = match parsed {
                Some(request) => self.assess(line, policy_at, None, request),
                None => {
                    let request = request(entry, self.given).unwrap_or_else(unparsed);
                    self.assess(line, policy_at, None, &request)
                }
            };
            return assessed.map(Rc::new);
        }
        let (name, of_plan) = (entry.client(), entry.text(Field::Plan));
        let mut key = cache::Key::default();
        key.number(line.place)
            .number(policy_at)
            .number(is_refused(entry).into())
            .address(entry.peer())
            .address(entry.client_ip())
            .text(name.as_ref().map(|name| name.raw()))
            .text(of_plan.as_ref().map(|name| name.raw()));
        if let Some(answer) = self.callers.get(&key) {
            self.is_known = true;
            return answer.clone();
        }
        let assessed = self.assess(line, policy_at, None, &unparsed());
        let answer = assessed.map(Rc::new);
        self.callers.put(&key, answer.clone());
        answer
    }

    /// Returns the charges of a request whose policy is not cached, or whose charges depend on more than the caller.
    fn whole(&mut self, line: Line<'_>, path: Option<cache::Key>) -> Answer<'p> {
        let (settings, facts) = (self.settings, &line.log.facts);
        let parsed = request(line.entry, self.given);
        let is_parsed = parsed.is_some();
        let mut request = parsed.unwrap_or_else(unparsed);
        let mut route_lack = facts.route.clone().filter(|_| is_parsed);
        let mut at = None;
        let preflight = || {
            let name = line.entry.text(Field::Route)?.bytes();
            let mut routes = settings.routes.iter();
            routes.position(|route| *route.name.as_bytes() == *name)
        };
        let is_preflight = is_parsed && line.outcome == Some(b"preflight");
        if is_preflight {
            at = preflight();
            RequestContext::of_mut(&mut request).is_preflight = true;
        } else if is_parsed && facts.preflight.is_some() && request.method() == Method::OPTIONS {
            route_lack.clone_from(&facts.preflight);
        } else if is_parsed && route_lack.is_none() {
            at = self.router.route(&mut request);
            let differs = |variant: &Variant| variant.route(self.router, &request) != at;
            if facts.unsure.is_some() && line.log.variants.iter().any(differs) {
                route_lack.clone_from(&facts.unsure);
            }
        }
        self.counts.unsure += u64::from(route_lack.is_some());
        self.counts.unrouted += u64::from(route_lack.is_none() && at.is_none());
        let policy_at = match (at, &route_lack) {
            (Some(at), None) => at + 1,
            _ => 0,
        };
        if let Some(key) = path
            && is_parsed
            && route_lack.is_none()
        {
            self.paths.put(&key, policy_at);
        }
        if route_lack.is_none() && self.is_plain[policy_at] && !is_preflight {
            return self.plain(line, policy_at, Some(&request));
        }
        let assessed = self.assess(line, policy_at, route_lack.as_ref(), &request);
        assessed.map(Rc::new)
    }

    /// Computes the charges of a request by the policy with this number.
    fn assess(
        &mut self,
        line: Line<'_>,
        at: usize,
        route_lack: Option<&Lack>,
        request: &Request<()>,
    ) -> Assessed<'p> {
        let (settings, facts) = (self.settings, &line.log.facts);
        let identity = identify(settings, facts, line.entry, self.given, request);
        let place = Place {
            settings,
            policy: policy(settings, at),
            at,
            limits: &self.limits[at],
            facts,
            hasher: &self.hasher,
        };
        let mut charged = place.assess(identity, route_lack, request, line.entry)?;
        for (charge, limit) in charged.charges.iter().zip(&charged.limits) {
            let keys = &mut self.keys[usize::from(*limit)];
            let next = keys.len() as u32;
            let key = (charge.key, charge.limit.id());
            charged.keys.push(*keys.entry(key).or_insert(next));
        }
        Ok(charged)
    }
}

/// Whether a byte is valid in every query. A request with other bytes in its query may be invalid, so its policy is not cached.
const fn is_usual(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'-' | b'.' | b'_' | b'~' | b'%' | b'&' | b'=' | b'+' | b',' | b':' | b'/'
        )
}

/// Returns the policy with this number. Number 0 is the policy of requests without a route.
fn policy(settings: &Settings, at: usize) -> &Policy {
    let route = at.checked_sub(1).and_then(|at| settings.routes.get(at));
    route.map_or(&settings.unmatched, |route| &route.policy)
}

/// Whether limits refused the request when it was logged. The log line of a refused request shows neither the status nor the duration of an
/// admitted request.
fn is_limited(entry: &Entry<'_>, outcome: Option<&[u8]>) -> bool {
    match outcome {
        Some(outcome) => matches!(outcome, b"limited" | b"dropped" | b"unavailable"),
        None => entry.status() == Some(429),
    }
}

/// Returns the duration of a request after the limits admitted it, in us.
fn service(entry: &Entry<'_>) -> Option<Micros> {
    let duration = entry.duration()?;
    let ended = entry.ended()?;
    // The times of arrival and end may come from two clocks. If their difference deviates from the logged duration by 1 s or more, the
    // logged duration is used.
    let since = ended.saturating_sub(entry.arrival());
    let ran = match since.abs_diff(duration) < 1_000_000 {
        true => since,
        false => duration,
    };
    Some(ran.saturating_sub(entry.waited().unwrap_or(0)))
}
