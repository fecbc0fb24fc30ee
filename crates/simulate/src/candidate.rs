//! One configuration: what it asks of the limits for each request of the log.

use std::collections::HashMap;
use std::hash::BuildHasher as _;
use std::rc::Rc;

use foldhash::fast::RandomState;
use http::{Method, Request};
use tidegate_config::Plan;
use tidegate_config::routes::RoutePlan;
use tidegate_core::Micros;
use tidegate_logs::{Entry, Field};
use tidegate_store::Key;
use tidegate_tower::{Hasher, Policy, RequestContext};

use crate::asked::Asked;
use crate::cache::{BOUND, Cache, CallerKey, PathKey, ShortText};
use crate::caller::{is_refused, known};
use crate::charged::{Assessed, Charged, Place, Unasked, is_plain};
use crate::counts::{Clients, Counts};
use crate::lacks::{Facts, Lack};
use crate::request::{Given, request, unparsed};
use crate::router::Router;
use crate::variants::{Variant, variants};

/// Longer requests are looked at each time, with method, host and query.
const LONG: usize = 4_096;

/// A configuration that is tried.
pub(crate) struct Candidate<'p> {
    plan: &'p Plan,
    router: &'p dyn Router,
    pub(crate) given: &'p Given,
    hasher: Hasher,
    /// By policy, the numbers of the limits of its rules.
    limits: Vec<Vec<u16>>,
    /// By policy, whether what it charges depends on nothing but the caller.
    is_plain: Vec<bool>,
    /// Whether a query or a header chooses a route.
    has_conditions: bool,
    /// What each log says, by where its list of fields is.
    facts: HashMap<usize, (Facts, Vec<Variant>), RandomState>,
    /// The policies of methods, hosts and paths.
    paths: Cache<PathKey<Box<[u8]>>, usize>,
    /// What is asked for callers.
    callers: HashMap<u64, Caller<'p>, RandomState>,
    /// The numbers of the keys of each limit. Each plan with other numbers has keys of its own.
    keys: Vec<HashMap<(Key, &'p str), u32, RandomState>>,
    /// How often each limit could not be computed, and why.
    pub(crate) lacking: HashMap<(u16, Lack), u64>,
    pub(crate) counts: Counts,
    pub(crate) clients: Clients,
    keeps_ids: bool,
    /// Whether what is asked for the last line was remembered.
    is_known: bool,
}

/// A caller who came before.
enum Caller<'p> {
    /// What is asked for it, which has the rest of what tells it apart.
    Charged(Rc<Charged<'p>>),
    /// The limits are not asked about it.
    Unasked(Box<(CallerKey<ShortText>, Unasked)>),
}

/// What is asked for a request.
type Answer<'p> = Result<Rc<Charged<'p>>, Unasked>;

impl<'p> Candidate<'p> {
    pub(crate) fn new(
        plan: &'p Plan,
        router: &'p dyn Router,
        given: &'p Given,
        keeps_ids: bool,
    ) -> Self {
        let number = |name: &str| {
            let found = plan.limits.iter().position(|limit| limit.name() == name);
            found.unwrap_or_default() as u16
        };
        let numbers = |policy: &Policy| {
            let rules = policy.rules.iter();
            rules.map(|rule| number(rule.limit.name())).collect()
        };
        let policies = || {
            let routes = plan.routes.iter().map(|route| &route.policy);
            std::iter::once(&plan.unmatched).chain(routes)
        };
        let conditions = |route: &RoutePlan| route.shape.conditions.is_some();
        let secret = plan.secret.as_ref().map_or("", |secret| secret.expose());
        Self {
            plan,
            router,
            given,
            hasher: Hasher::new(secret),
            limits: policies().map(numbers).collect(),
            is_plain: policies().map(is_plain).collect(),
            has_conditions: plan.routes.iter().any(conditions),
            facts: HashMap::default(),
            paths: Cache::new(BOUND),
            callers: HashMap::default(),
            keys: plan.limits.iter().map(|_| HashMap::default()).collect(),
            lacking: HashMap::new(),
            counts: Counts::default(),
            clients: Clients::default(),
            keeps_ids,
            is_known: false,
        }
    }

    /// What the request of a line asks of the limits, or why they are not asked about it.
    pub(crate) fn asked(&mut self, entry: &Entry<'_>, number: u64) -> Result<Asked<'p>, Unasked> {
        self.counts.requests += 1;
        let outcome = entry.text(Field::Outcome);
        let outcome = outcome.as_ref().map(|text| text.raw());
        if outcome == Some(b"shed") {
            self.counts.shed += 1;
            return Err(Unasked::Shed);
        }
        let place = std::ptr::from_ref(entry.fields()) as usize;
        let (plan, given) = (self.plan, self.given);
        self.facts.entry(place).or_insert_with(|| {
            let facts = Facts::of(entry.fields(), given, plan);
            (facts, variants(plan, entry.fields(), given))
        });
        self.is_known = false;
        let path = self.path(place, entry, outcome);
        let known = path
            .as_ref()
            .and_then(|(hash, key)| self.paths.get(*hash, |it| it.is(key)));
        let assessed = match known {
            Some(route) if self.is_plain[*route] => {
                let policy_at = *route;
                self.counts.unrouted += u64::from(policy_at == 0);
                self.plain(place, policy_at, None, entry)
            }
            _ => self.whole(place, entry, outcome, path),
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
        let id = entry.text(Field::Id).filter(|_| self.keeps_ids);
        let status = || entry.upstream_status().or_else(|| entry.status());
        let cost = || entry.cost().unwrap_or(0);
        Ok(Asked {
            service: service(entry).filter(|_| !limited),
            status: if limited { None } else { status() },
            cost: (charged.asks_cost && !limited).then(cost),
            charged,
            is_known: self.is_known,
            number,
            id: id.map(|id| String::from_utf8_lossy(&id.bytes()).into()),
            attempt: 0,
        })
    }

    /// By what the route of a request is remembered; none if more than method, host and path choose it.
    fn path<'e>(
        &self,
        place: usize,
        entry: &Entry<'e>,
        outcome: Option<&[u8]>,
    ) -> Option<(u64, PathKey<&'e [u8]>)> {
        let (facts, _) = self.facts.get(&place)?;
        let is_simple = !self.has_conditions
            && facts.unsure.is_none()
            && facts.route.is_none()
            && outcome != Some(b"preflight");
        let (method, path) = (entry.method()?.raw(), entry.path()?.raw());
        let query = entry.query().map_or(&b""[..], |query| query.raw());
        let host = entry.host().map_or(0, |host| host.raw().len());
        if !is_simple
            || method == b"OPTIONS"
            || method.len() + host + path.len() + query.len() > LONG
            || !query.iter().all(|byte| is_usual(*byte))
        {
            return None;
        }
        let key = PathKey {
            place,
            method,
            host: entry.host().map(|host| host.raw()),
            path,
        };
        Some((self.paths.hash(&key), key))
    }

    /// What is asked for a request of this policy, which depends on nothing but the caller.
    fn plain(
        &mut self,
        place: usize,
        policy_at: usize,
        request: Option<&Request<()>>,
        entry: &Entry<'_>,
    ) -> Answer<'p> {
        let unknown = || Err(Unasked::Denied);
        let Some((facts, _)) = self.facts.get(&place) else {
            return unknown();
        };
        let of_policy = Place {
            plan: self.plan,
            policy: policy(self.plan, policy_at),
            at: policy_at,
            limits: &self.limits[policy_at],
            facts,
            hasher: &self.hasher,
        };
        let assess = |request: &Request<()>| {
            let known = known(self.plan, facts, entry, self.given, request);
            of_policy.assess(known, None, request, entry)
        };
        if !facts.plain_callers {
            let assessed = match request {
                Some(request) => assess(request),
                None => {
                    assess(&crate::request::request(entry, self.given).unwrap_or_else(unparsed))
                }
            };
            return self.numbered(assessed).map(Rc::new);
        }
        let (name, of_plan) = (entry.client(), entry.text(Field::Plan));
        let key = CallerKey {
            place,
            policy: policy_at,
            peer: entry.peer(),
            client_ip: entry.client_ip(),
            is_refused: is_refused(entry),
            name: name.as_ref().map(|name| name.raw()),
            plan: of_plan.as_ref().map(|name| name.raw()),
        };
        let hash = self.callers.hasher().hash_one(&key);
        match self.callers.get(&hash) {
            Some(Caller::Charged(charged)) if charged.of.as_ref().is_some_and(|it| it.is(&key)) => {
                self.is_known = true;
                return Ok(charged.clone());
            }
            Some(Caller::Unasked(caller)) if caller.0.is(&key) => {
                self.is_known = true;
                return Err(caller.1);
            }
            _ => {}
        }
        let assessed = assess(&unparsed());
        let answer = self.numbered(assessed).map(|mut charged| {
            charged.of = Some(key.owned());
            Rc::new(charged)
        });
        let caller = match &answer {
            Ok(charged) => Caller::Charged(charged.clone()),
            Err(unasked) => Caller::Unasked(Box::new((key.owned(), *unasked))),
        };
        self.callers.insert(hash, caller);
        answer
    }

    /// The same with the numbers of its keys.
    fn numbered(&mut self, assessed: Assessed<'p>) -> Assessed<'p> {
        let mut charged = assessed?;
        for (charge, limit) in charged.charges.iter().zip(&charged.limits) {
            let keys = &mut self.keys[usize::from(*limit)];
            let next = keys.len() as u32;
            let key = (charge.key, charge.limit.id());
            charged.keys.push(*keys.entry(key).or_insert(next));
        }
        Ok(charged)
    }

    /// The same for any request.
    fn whole(
        &mut self,
        place: usize,
        entry: &Entry<'_>,
        outcome: Option<&[u8]>,
        path: Option<(u64, PathKey<&[u8]>)>,
    ) -> Answer<'p> {
        let (plan, given) = (self.plan, self.given);
        let Some((facts, variants)) = self.facts.get(&place) else {
            return Err(Unasked::Denied);
        };
        let parsed = request(entry, given);
        let is_parsed = parsed.is_some();
        let mut request = parsed.unwrap_or_else(unparsed);
        let mut route_lack = facts.route.clone().filter(|_| is_parsed);
        let mut at = None;
        let preflight = || {
            let name = entry.text(Field::Route)?.bytes();
            let mut routes = plan.routes.iter();
            routes.position(|route| *route.name.as_bytes() == *name)
        };
        let is_preflight = is_parsed && outcome == Some(b"preflight");
        if is_preflight {
            at = preflight();
            RequestContext::of_mut(&mut request).is_preflight = true;
        } else if is_parsed && facts.preflight.is_some() && request.method() == Method::OPTIONS {
            route_lack.clone_from(&facts.preflight);
        } else if is_parsed && route_lack.is_none() {
            at = self.router.route(&mut request);
            let differs = |variant: &Variant| variant.route(self.router, &request) != at;
            if facts.unsure.is_some() && variants.iter().any(differs) {
                route_lack.clone_from(&facts.unsure);
            }
        }
        self.counts.unsure += u64::from(route_lack.is_some());
        self.counts.unrouted += u64::from(route_lack.is_none() && at.is_none());
        let policy_at = match (at, &route_lack) {
            (Some(at), None) => at + 1,
            _ => 0,
        };
        if let Some((hash, key)) = path
            && is_parsed
            && route_lack.is_none()
        {
            self.paths.put(hash, key.owned(), policy_at);
        }
        if route_lack.is_none() && self.is_plain[policy_at] && !is_preflight {
            return self.plain(place, policy_at, Some(&request), entry);
        }
        let known = known(plan, facts, entry, given, &request);
        let of_policy = Place {
            plan,
            policy: policy(plan, policy_at),
            at: policy_at,
            limits: &self.limits[policy_at],
            facts,
            hasher: &self.hasher,
        };
        let assessed = of_policy.assess(known, route_lack.as_ref(), &request, entry);
        self.numbered(assessed).map(Rc::new)
    }
}

/// Whether a byte of a query means nothing in particular.
const fn is_usual(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'-' | b'.' | b'_' | b'~' | b'%' | b'&' | b'=' | b'+' | b',' | b':' | b'/'
        )
}

/// The policy with this number.
fn policy(plan: &Plan, at: usize) -> &Policy {
    let route = at.checked_sub(1).and_then(|at| plan.routes.get(at));
    route.map_or(&plan.unmatched, |route| &route.policy)
}

/// Whether limits refused the request when it was logged: how it would have gone on is not in the log.
fn is_limited(entry: &Entry<'_>, outcome: Option<&[u8]>) -> bool {
    match outcome {
        Some(outcome) => matches!(outcome, b"limited" | b"dropped" | b"unavailable"),
        None => entry.status() == Some(429),
    }
}

/// For how long a request ran after the limits had let it through.
fn service(entry: &Entry<'_>) -> Option<Micros> {
    let duration = entry.duration()?;
    let ended = entry.ended()?;
    // Of two clocks that differ, the duration is right.
    let since = ended.saturating_sub(entry.arrival());
    let ran = match since.abs_diff(duration) < 1_000_000 {
        true => since,
        false => duration,
    };
    Some(ran.saturating_sub(entry.waited().unwrap_or(0)))
}
