//! One configuration: what it asks of the limits for each request of the log.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};

use http::{Method, Request};
use tidegate_config::Plan;
use tidegate_core::Micros;
use tidegate_logs::{Entry, Field};
use tidegate_tower::{
    Caller, Client, Cost, Credentials, Hasher, Peer, Per, Policy, Preflight, RuleCharge,
    RuleCharges, assess_known,
};

use crate::asked::Asked;
use crate::lacks::{Facts, Lack, name_lack, needs_client};
use crate::request::{Given, request, unparsed};
use crate::router::Router;
use crate::variants::{Variant, variants};

/// A configuration that is tried.
pub(crate) struct Candidate<'p> {
    plan: &'p Plan,
    router: &'p dyn Router,
    given: &'p Given,
    hasher: Hasher,
    /// By policy, the numbers of the limits of its rules.
    limits: Vec<Vec<u16>>,
    /// What each log says, by where its list of fields is.
    facts: HashMap<usize, (Facts, Vec<Variant>)>,
    /// How often each limit could not be computed, and why.
    pub(crate) lacking: HashMap<(u16, Lack), u64>,
    pub(crate) counts: Counts,
    keeps_ids: bool,
}

/// Requests that limits were not asked about, and others worth a note.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) requests: u64,
    /// No route took them: only limits under `always` count.
    pub(crate) unrouted: u64,
    /// The route is not known.
    pub(crate) unsure: u64,
    pub(crate) denied: u64,
    pub(crate) oversized: u64,
    /// The gateway did not ask limits about them: memory was short.
    pub(crate) shed: u64,
    /// Limits refused them when they were logged.
    pub(crate) limited_before: u64,
}

/// Who is calling, and what is missing to know it.
struct Known {
    caller: Caller,
    trusted: bool,
    client: Option<Lack>,
    address: Option<Lack>,
}

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
        let policies = std::iter::once(&plan.unmatched);
        let policies = policies.chain(plan.routes.iter().map(|route| &route.policy));
        let secret = plan.secret.as_ref().map_or("", |secret| secret.expose());
        Self {
            plan,
            router,
            given,
            hasher: Hasher::new(secret),
            limits: policies.map(numbers).collect(),
            facts: HashMap::new(),
            lacking: HashMap::new(),
            counts: Counts::default(),
            keeps_ids,
        }
    }

    /// What the request of a line asks of the limits; none if they are not asked about it.
    pub(crate) fn asked(&mut self, entry: &Entry<'_>, number: u64) -> Option<Asked<'p>> {
        self.counts.requests += 1;
        let outcome = entry.text(Field::Outcome);
        let outcome = outcome.as_ref().map(|text| text.raw());
        if outcome == Some(b"shed") {
            self.counts.shed += 1;
            return None;
        }
        let place = std::ptr::from_ref(entry.fields()) as usize;
        let (plan, given) = (self.plan, self.given);
        let (facts, variants) = self.facts.entry(place).or_insert_with(|| {
            let facts = Facts::of(entry.fields(), given, plan);
            (facts, variants(plan, entry.fields(), given))
        });
        let parsed = request(entry, given);
        let is_parsed = parsed.is_some();
        let mut request = parsed.unwrap_or_else(unparsed);
        let mut route_lack = facts.route.clone().filter(|_| is_parsed);
        let mut at = None;
        let preflight = || {
            let name = entry.text(Field::Route)?.bytes();
            plan.routes
                .iter()
                .position(|route| *route.name.as_bytes() == *name)
        };
        if is_parsed && outcome == Some(b"preflight") {
            at = preflight();
            request.extensions_mut().insert(Preflight);
        } else if is_parsed && facts.preflight.is_some() && request.method() == Method::OPTIONS {
            route_lack.clone_from(&facts.preflight);
        } else if is_parsed && route_lack.is_none() {
            at = self.router.route(&mut request);
            let differs = |variant: &Variant| variant.route(self.router, &request) != at;
            if facts.unsure.is_some() && variants.iter().any(differs) {
                route_lack.clone_from(&facts.unsure);
            }
        }
        if route_lack.is_some() {
            self.counts.unsure += 1;
        } else if at.is_none() {
            self.counts.unrouted += 1;
        }
        let policy_at = match (at, &route_lack) {
            (Some(at), None) => at + 1,
            _ => 0,
        };
        let policy = policy(plan, policy_at);
        let known = known(plan, facts, entry, given, &request);
        let (caller, assessment) = assess_known(
            policy,
            &self.hasher,
            (known.caller, known.trusted),
            &request,
        );
        if assessment.denied_by().is_some() {
            self.counts.denied += 1;
            return None;
        }
        let is_refused = caller.refused.is_some();
        let charges = assessment.charges(policy, is_refused, caller.plan.as_ref());
        let Ok(charges) = charges else {
            self.counts.oversized += 1;
            return None;
        };
        let limited = is_limited(entry, outcome);
        self.counts.limited_before += u64::from(limited);
        let mut asked = Asked {
            charges: RuleCharges::new(),
            limits: Default::default(),
            client: caller.client,
            service: service(entry).filter(|_| !limited),
            status: entry.upstream_status().or_else(|| entry.status()),
            cost: None,
            number,
            id: None,
            attempt: 0,
        };
        if limited {
            asked.status = None;
        }
        if self.keeps_ids {
            let id = entry.text(Field::Id).map(|id| id.bytes().into_owned());
            asked.id = id.map(|id| String::from_utf8_lossy(&id).into());
        }
        if let Some(lack) = &route_lack {
            // Every limit that a route might have charged.
            for number in 0..self.plan.limits.len() {
                let is_always = charges
                    .iter()
                    .any(|charge| charge.rule.limit.name() == self.plan.limits[number].name());
                if !is_always {
                    let key = (number as u16, lack.clone());
                    *self.lacking.entry(key).or_default() += 1;
                }
            }
        }
        let fixed = fixed_costs(&charges);
        for mut charge in charges {
            let limit = self.limits[policy_at][charge.index];
            let rule = charge.rule;
            let by_rule = facts.rules[policy_at][charge.index].as_ref();
            let by_route = route_lack
                .as_ref()
                .filter(|_| rule.per.contains(&Per::Route));
            let client = known.client.as_ref();
            let by_client = client.filter(|_| needs_client(policy, rule));
            let by_name = || match facts.names_client {
                // Names beside that of the client are not in the log.
                true => named_other(rule, &asked.client)
                    .then(|| name_lack(rule, &plan.clients, &facts.sources))
                    .flatten(),
                false => name_lack(rule, &plan.clients, &facts.sources),
            };
            // What is missing counts under the address.
            let by_address = known
                .address
                .as_ref()
                .filter(|_| !rule.per.is_empty() && *rule.per != [Per::Route]);
            let lack = by_rule.or(by_route).or(by_client).cloned();
            let lack = lack.or_else(by_name).or_else(|| by_address.cloned());
            let lack =
                lack.or_else(|| told_cost(&mut charge, entry, facts, (fixed, known.trusted)).err());
            if let Some(lack) = lack {
                *self.lacking.entry((limit, lack)).or_default() += 1;
                continue;
            }
            if !matches!(rule.cost, Cost::Fixed(_)) && rule.limit.reserves().is_some() && !limited {
                asked.cost = Some(entry.cost().unwrap_or(0));
            }
            asked.limits.push(limit);
            asked.charges.push(charge);
        }
        Some(asked)
    }
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

/// Names the caller as far as the line allows.
fn known(
    plan: &Plan,
    facts: &Facts,
    entry: &Entry<'_>,
    given: &Given,
    request: &Request<()>,
) -> Known {
    let peer = entry.peer().or(given.peer);
    let address = entry.client_ip().or(peer);
    let clients = &plan.clients;
    let at = Peer::named((peer.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)), 0).into());
    let trusted = clients.trusts(at);
    let no_address = || Lack::from("client address (--peer names one)");
    if facts.names_client {
        let unknown = |client: Lack| Known {
            caller: clients.identify(at, &http::HeaderMap::new()),
            trusted,
            client: Some(client),
            address: address.is_none().then(no_address),
        };
        let Some(name) = entry.client() else {
            return unknown("client: these requests ended before they were decided".into());
        };
        let name = name.bytes();
        let name = String::from_utf8_lossy(&name);
        let origin = address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        let listed = entry.text(Field::Plan).map(|name| name.bytes());
        let listed = listed.and_then(|name| plan.plans.called(&String::from_utf8_lossy(&name)));
        let has_credentials = clients.sources.len() > 1;
        return match Caller::logged(clients, &name, origin, listed) {
            Ok(caller) => {
                let is_refused = entry.status() == Some(401) && entry.upstream_status().is_none();
                let caller = match is_refused && has_credentials {
                    true => caller.with_refused(Credentials::ApiKey),
                    false => caller,
                };
                let is_address = matches!(caller.client, Client::Ip(_));
                Known {
                    caller,
                    trusted,
                    client: None,
                    address: (address.is_none() && !is_address).then(no_address),
                }
            }
            Err(error) => unknown(format!("client as this configuration knows it: {error}").into()),
        };
    }
    let caller = clients.identify(at, request.headers());
    let address = match peer {
        None => Some(no_address()),
        Some(_) if trusted && !facts.has_hops => {
            Some("client address behind a trusted proxy".into())
        }
        Some(_) => None,
    };
    let before = caller.named_by.unwrap_or(clients.sources.len());
    let asked = clients.sources.iter().zip(&facts.sources).take(before);
    let mut lacks = asked.filter_map(|(source, lack)| {
        // A user ID of somebody who is not trusted counts for nothing.
        let is_asked = trusted
            || peer.is_none()
            || !matches!(source, tidegate_tower::ClientSource::UserId { .. });
        lack.clone().filter(|_| is_asked)
    });
    let client = lacks.next().or_else(|| {
        let is_address = matches!(caller.client, Client::Ip(_));
        address.clone().filter(|_| is_address)
    });
    Known {
        caller,
        trusted,
        client,
        address,
    }
}

/// Whether a limit is counted per a name that the client of a log may have beside its own.
fn named_other(rule: &tidegate_tower::Rule, client: &Client) -> bool {
    rule.per.iter().any(|per| match per {
        // Who is an address has no name at all.
        Per::ApiKey => matches!(client, Client::UserId(_) | Client::Certificate(_)),
        Per::UserId => matches!(
            client,
            Client::ApiKey(_) | Client::UnlistedKey(_) | Client::Certificate(_)
        ),
        Per::ClientCert => !matches!(client, Client::Certificate(_)),
        Per::Claim(_) => !matches!(client, Client::Ip(_)),
        _ => false,
    })
}

/// The highest cost of limits whose cost is fixed, and how many have another.
fn fixed_costs(charges: &[RuleCharge<'_>]) -> (u64, usize) {
    let told = charges
        .iter()
        .filter(|charge| !matches!(charge.rule.cost, Cost::Fixed(_)));
    let fixed = charges
        .iter()
        .filter(|charge| matches!(charge.rule.cost, Cost::Fixed(_)));
    let highest = fixed.map(|charge| charge.cost).max();
    (highest.unwrap_or(0), told.count())
}

/// Takes the cost that the log has, where a header of the request told it and the log lacks the header.
fn told_cost(
    charge: &mut RuleCharge<'_>,
    entry: &Entry<'_>,
    facts: &Facts,
    ((fixed, told), trusted): ((u64, usize), bool),
) -> Result<(), Lack> {
    match &charge.rule.cost {
        Cost::Fixed(_) => return Ok(()),
        Cost::Header { .. } if !trusted => return Ok(()),
        Cost::Header { name, .. } if entry.fields().has_header(name.as_str()) => return Ok(()),
        _ => {}
    }
    // The log has the highest cost of all limits of the request.
    let is_told = facts.has_cost && told == 1;
    let cost = entry.cost().unwrap_or(0);
    if !facts.has_cost {
        return Err("cost".into());
    }
    if !is_told || (cost <= fixed && fixed > 1) {
        return Err("cost of each limit (only the highest)".into());
    }
    if let Cost::Header { max, .. } = &charge.rule.cost {
        charge.cost = cost.clamp(1, *max);
    }
    Ok(())
}
