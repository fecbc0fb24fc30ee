//! Computes the charges of a request, and finds the limits that cannot be computed.

use http::Request;
use smallvec::SmallVec;
use tidegate_config::Settings;
use tidegate_identity::{Client, Credentials};
use tidegate_logs::Entry;
use tidegate_tower::{Cost, Hasher, Per, Policy, RuleCharge, RuleCharges, assess_known};

use crate::caller::{Known, named_other};
use crate::lacks::{Facts, Lack, name_lack, needs_client};

/// The charges of a request, or the reason why the limits do not decide it.
pub(crate) type Assessed<'p> = Result<Charged<'p>, Unasked>;

/// The reason why limits do not decide a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unasked {
    /// `deny` lists the client of the request.
    Denied,
    /// The cost of the request is higher than a limit can ever admit.
    Oversized,
    /// The gateway that wrote the log shed the request, because its memory was short.
    Shed,
}

/// The charges of a request.
#[derive(Debug)]
pub(crate) struct Charged<'p> {
    pub(crate) client: Client,
    pub(crate) charges: RuleCharges<'p>,
    /// The index in `settings.limits` of the limit of each charge.
    pub(crate) limits: SmallVec<[u16; 2]>,
    /// The number of the key of each charge. Each limit numbers its keys from 0.
    pub(crate) keys: SmallVec<[u32; 2]>,
    /// The limits that cannot be computed for the request, each with the fact that the log lacks.
    pub(crate) lacks: Vec<(u16, Lack)>,
    /// Whether the gateway refuses the request's credentials. If so, only limits under `always` count the request.
    pub(crate) is_refused: bool,
    /// Whether the cost of a charge depends on the answer.
    pub(crate) asks_cost: bool,
}

impl Charged<'_> {
    /// Returns the number of the limit and the number of the key for the charge with this index.
    pub(crate) fn key(&self, index: usize) -> (u16, u32) {
        (self.limits[index], self.keys[index])
    }
}

/// A policy, and the data that its charges depend on. `limits` has the index of each rule's limit in `settings.limits`.
#[derive(Clone, Copy)]
pub(crate) struct Place<'p, 'f> {
    pub(crate) settings: &'p Settings,
    pub(crate) policy: &'p Policy,
    pub(crate) at: usize,
    pub(crate) limits: &'f [u16],
    pub(crate) facts: &'f Facts,
    pub(crate) hasher: &'f Hasher,
}

impl<'p> Place<'p, '_> {
    /// Computes the charges of a request by this policy. `identity` is the caller of the request.
    pub(crate) fn assess(
        self,
        identity: Known,
        route_lack: Option<&Lack>,
        request: &Request<()>,
        entry: &Entry<'_>,
    ) -> Assessed<'p> {
        let (settings, policy, facts) = (self.settings, self.policy, self.facts);
        let by = (identity.caller, identity.trusted);
        let (caller, assessment) = assess_known(policy, self.hasher, by, request);
        if assessment.denied_by().is_some() {
            return Err(Unasked::Denied);
        }
        let is_refused = caller.refused.is_some();
        // The request may have had credentials that the log lacks, so the gateway may have accepted them.
        let may_have_shown = matches!(caller.refused, Some(Credentials::Missing(_)))
            && (identity.client.is_some() || facts.names_client);
        // The charges outlive the caller, so they borrow its plan from the settings.
        let of_client = caller.plan.as_ref();
        let of_client = of_client.and_then(|it| settings.plans.iter().nth(it.index()));
        let charges = assessment.charges(policy, is_refused, of_client);
        let Ok(charges) = charges else {
            return Err(Unasked::Oversized);
        };
        let mut charged = Charged {
            client: caller.client,
            charges: RuleCharges::new(),
            limits: SmallVec::new(),
            keys: SmallVec::new(),
            lacks: Vec::new(),
            is_refused: is_refused && !may_have_shown,
            asks_cost: false,
        };
        if may_have_shown {
            let lack = identity.client.clone();
            let lack = lack.unwrap_or_else(|| "credentials that the route requires".into());
            let limits = self.limits.iter().skip(policy.always);
            let lacks = limits.map(|limit| (*limit, lack.clone()));
            charged.lacks.extend(lacks);
        }
        if let Some(lack) = route_lack {
            // The route is unknown and may have charged any limit. So every limit that is not charged yet lacks the fact for the route.
            for (number, limit) in settings.limits.iter().enumerate() {
                let mut always = charges.iter();
                if !always.any(|charge| charge.rule.limit.name() == limit.name()) {
                    charged.lacks.push((number as u16, lack.clone()));
                }
            }
        }
        let fixed = fixed_costs(&charges);
        for mut charge in charges {
            let limit = self.limits[charge.index];
            let rule = charge.rule;
            let by_rule = facts.rules[self.at][charge.index].as_ref();
            let by_route = route_lack.filter(|_| rule.per.contains(&Per::Route));
            let client = identity.client.as_ref();
            let by_client = client.filter(|_| needs_client(policy, rule));
            let by_name = || match facts.names_client {
                // tidegate's own log has only one name of the client, so a limit that counts by another name lacks that name.
                true => named_other(rule, &charged.client)
                    .then(|| name_lack(rule, &settings.clients, &facts.sources))
                    .flatten(),
                false => name_lack(rule, &settings.clients, &facts.sources),
            };
            // If a request lacks a name in `per`, the limit counts the request under the client's address. Access lists and plans may also
            // contain addresses. In all these cases the limit needs the address.
            let access = policy.access.as_ref();
            let asks_address = !rule.per.is_empty() && *rule.per != [Per::Route]
                || access.is_some_and(|access| access.needs_address(charge.index))
                || !rule.plans.is_empty() && settings.clients.members.has_networks();
            let by_address = identity.address.as_ref().filter(|_| asks_address);
            let lack = by_rule.or(by_route).or(by_client).cloned();
            let lack = lack.or_else(by_name).or_else(|| by_address.cloned());
            let lack = lack
                .or_else(|| set_cost(&mut charge, entry, facts, (fixed, identity.trusted)).err());
            if let Some(lack) = lack {
                charged.lacks.push((limit, lack));
                continue;
            }
            let is_told = matches!(rule.cost, Cost::Answer { .. } | Cost::Body { .. });
            charged.asks_cost |= is_told;
            charged.limits.push(limit);
            charged.charges.push(charge);
        }
        charged.lacks.dedup_by(|a, b| a.0 == b.0 && a.1 == b.1);
        Ok(charged)
    }
}

/// Whether the charges of a policy depend on the caller alone.
pub(crate) fn is_plain(policy: &Policy) -> bool {
    policy.rules.iter().all(|rule| {
        let plain_cost = matches!(rule.cost, Cost::Fixed(_));
        let mut per = rule.per.iter();
        plain_cost
            && per.all(|per| {
                matches!(
                    per,
                    Per::Client
                        | Per::Ip
                        | Per::Network(_)
                        | Per::ApiKey
                        | Per::UserId
                        | Per::ClientCert
                        | Per::Claim(_)
                        | Per::Route
                )
            })
    })
}

/// Returns the highest fixed cost, and the number of limits whose cost is not fixed.
fn fixed_costs(charges: &[RuleCharge<'_>]) -> (u64, usize) {
    let is_fixed = |charge: &&RuleCharge<'_>| matches!(charge.rule.cost, Cost::Fixed(_));
    let fixed = || charges.iter().filter(is_fixed);
    let highest = fixed().map(|charge| charge.cost).max();
    (highest.unwrap_or(0), charges.len() - fixed().count())
}

/// Checks that the log has the cost of a charge. If the cost comes from a request header that the log lacks, sets the charge's cost to the
/// logged cost. Returns the missing fact as an error.
fn set_cost(
    charge: &mut RuleCharge<'_>,
    entry: &Entry<'_>,
    facts: &Facts,
    ((fixed, unfixed), trusted): ((u64, usize), bool),
) -> Result<(), Lack> {
    match &charge.rule.cost {
        Cost::Fixed(_) => return Ok(()),
        Cost::Header { .. } if !trusted => return Ok(()),
        Cost::Header { name, .. } if entry.fields().has_header(name.as_str()) => return Ok(()),
        _ => {}
    }
    // The log has one cost for each request: the highest cost that any of its limits charged.
    let is_told = facts.has_cost && unfixed == 1;
    let cost = entry.cost().unwrap_or(0);
    if !facts.has_cost {
        return Err("cost".into());
    }
    // The cost in a header is at least 1, and the cost in an answer at least 0. If a fixed cost is higher than this minimum, the logged
    // cost may be the fixed cost, and hide a lower cost.
    let least = u64::from(matches!(charge.rule.cost, Cost::Header { .. }));
    if !is_told || (cost <= fixed && fixed > least) {
        return Err("cost of each limit (only the highest)".into());
    }
    if let Cost::Header { max, .. } = &charge.rule.cost {
        charge.cost = cost.clamp(1, *max);
    }
    Ok(())
}
