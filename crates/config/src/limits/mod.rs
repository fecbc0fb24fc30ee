//! The limits: their algorithms and keys, the way in which gateways share them, and the lists of limits (`limits`, `always`).

pub(crate) mod action;
mod bucket;
mod calendar;
mod concurrency;
pub(crate) mod cost;
mod models;
mod notify;
mod numbers;
mod pairs;
pub(crate) mod plans;
mod quota;
mod reserve;
pub(crate) mod set;
pub(crate) mod share;
pub(crate) mod sharing;
mod slips;
mod units;
mod window;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use crate::yaml::{Place, Problem, Spanned};
use schemars::JsonSchema;
use serde::Deserialize;
use tidegate_core::{Block, Micros, micros};
use tidegate_identity::LimitLists;
use tidegate_store::{Limit, Mode, OnFailure};
use tidegate_tower::{NamePattern, Per, Rule};

use crate::access::list::{KnownClients, Purpose, client_list};
use crate::check::Check;
use crate::clients::WrittenClients;
use crate::clients::ip::{IPV6_PREFIX, shared_network};
use crate::limits::action::{
    ActionWord, Counted, WrittenAction, action, count, reserves_fit, reserving,
};
use crate::limits::bucket::has_nodelay;
use crate::limits::cost::{WrittenCost, cost};
use crate::limits::numbers::Numbers;
use crate::limits::pairs::pairs;
use crate::limits::quota::{algorithms, quota};
use crate::limits::sharing::{mode_fits, own_sync_every, without_effect};
use crate::limits::slips::slips;
use crate::shape::{Named, SingleOr};
use crate::store::StoreDefaults;
use crate::value::Scalar;
use crate::value::client::ListedText;
use crate::value::net::PrefixLength;
use crate::value::number::Count;
use crate::value::word::LimitName;

macro_rules! limit {
    ($($(#[$doc:meta])* $key:ident: $numbers:ty,)*) => {
        /// A limit: exactly one algorithm, and the parts of a request whose values have separate budgets.
        #[derive(Debug, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        #[schemars(rename = "Limit")]
        pub(crate) struct WrittenLimit {
            $($(#[$doc])* pub(crate) $key: Option<$numbers>,)*
            /// The parts of a request whose values have separate budgets; `[]` is one budget for all requests. Default: `[client]`.
            pub(crate) per: Option<Vec<Scalar<Per>>>,
            /// The names that have budgets of their own under a part `json:PATH` of `per`; `*` at the end stands for any rest.
            pub(crate) allow: Option<Vec<Scalar<NamePattern>>>,
            /// The members that divide the limit fairly, if several clients share it. Default: the limit is not divided.
            pub(crate) share: Option<Spanned<share::WrittenShare>>,
            /// The cost of a request: a whole number, or a number from a trusted proxy's header or from the answer. Default: 1.
            pub(crate) cost: Option<SingleOr<Count, WrittenCost>>,
            /// The used shares of a budget that cause an event, and the receiver of the events. Default: no events.
            pub(crate) notify: Option<Spanned<notify::WrittenNotify>>,
            /// The statuses of answers after which a request stays charged. Default: every request stays charged.
            pub(crate) count: Option<Spanned<Counted>>,
            /// The action on requests over the limit: reject, drop, observe or `delay: { max }`. Default: reject.
            pub(crate) action: Option<SingleOr<ActionWord, WrittenAction>>,
            /// The time for which all requests of a key are refused after the key exceeded the limit. Default: none.
            pub(crate) block: Option<Scalar<Duration>>,
            /// Whether each refused request starts the time of `block` again. Default: false.
            pub(crate) extend: Option<Scalar<bool>>,
            /// Networks, addresses and clients whose requests the limit does not charge. Default: none.
            pub(crate) exempt: Option<Vec<Scalar<ListedText>>>,
            /// Networks, addresses and clients that are answered with 403 on routes that charge the limit. Default: none.
            pub(crate) deny: Option<Vec<Scalar<ListedText>>>,
            /// The rule for decisions while Redis does not answer: local, open or closed. Default: the store's.
            pub(crate) on_failure: Option<Scalar<OnFailure>>,
            /// The way in which gateways share the limit: exact, leased, synced or local. Default: the store's.
            pub(crate) mode: Option<Scalar<Mode>>,
            /// The time between two exchanges of the counts of a synced limit, from 1ms to 1m. Default: the store's.
            pub(crate) sync_every: Option<Scalar<Duration>>,
        }

        impl WrittenLimit {
            /// Returns the numbers of each algorithm that the limit has. A valid limit has exactly one algorithm.
            fn algorithms(&self) -> Vec<&dyn Numbers> {
                let all = [$(self.$key.as_ref().map(|numbers| numbers as &dyn Numbers)),*];
                all.into_iter().flatten().collect()
            }
        }
    };
}

algorithms!(limit);

/// The lease of a hold of reserved units, in us. If a gateway dies, its holds lapse after this time.
const RESERVED: Micros = 10_000_000;

/// The rules of limits, by name. `None` if the limit was refused.
pub(crate) type Rules = HashMap<String, Option<Rule>>;

/// Reads all limits. Returns the limits in the order of the file, and their rules by name.
pub(crate) fn limits(
    check: &mut Check<'_>,
    written: Option<&Named<WrittenLimit>>,
    clients: WrittenClients<'_>,
    sources: &KnownClients,
    claims: &[Arc<str>],
    shared: StoreDefaults,
) -> (Vec<Arc<Limit>>, Rules) {
    let mut limits = Vec::new();
    let mut rules = Rules::new();
    for (name, limit) in written.into_iter().flat_map(|limits| &limits.0) {
        let reserves = reserving(limit).is_some();
        let written = limit.algorithms();
        let whose = format!("the limit `{}`", name.raw);
        let quota = quota(check, &whose, name.place, &written);
        let per = per(check, limit, clients, claims);
        let on_failure = check.read_some(limit.on_failure.as_ref());
        let mode = check.read_some(limit.mode.as_ref()).unwrap_or(shared.mode);
        without_effect(check, limit, mode, shared.in_memory);
        let sync_every = own_sync_every(check, limit);
        let cost = cost(check, limit, quota.as_ref(), clients);
        let action = action(check, limit, quota.as_ref());
        let count = count(check, limit);
        let nodelay = has_nodelay(check, limit.leaky_bucket.as_ref());
        let block = block(check, limit, mode);
        let lists = LimitLists {
            exempt: client_list(check, limit.exempt.as_deref(), sources, Purpose::Exempt),
            deny: client_list(check, limit.deny.as_deref(), sources, Purpose::Deny),
        };
        if let Some(quota) = &quota {
            mode_fits(check, name, limit, quota, mode);
            reserves_fit(check, name, limit, quota, mode);
        }
        let Some(LimitName(name)) = check.read(name) else {
            continue;
        };
        let notify = notify::notify(check, limit, mode, quota.as_ref(), &per);
        let rule = quota.map(|quota| {
            let on_failure = on_failure.unwrap_or(shared.on_failure);
            let mut limit = Limit::new(&name, quota, on_failure).in_mode(mode);
            if let Some(block) = block {
                limit = limit.blocking(block);
            }
            if let Some(every) = sync_every {
                limit = limit.synced_every(every);
            }
            if !per.iter().any(Per::is_callers) {
                limit = limit.shared();
            }
            if action.observes {
                limit = limit.observed();
            }
            if reserves {
                limit = limit.reserving(RESERVED);
            }
            let limit = Arc::new(limit);
            limits.push(Arc::clone(&limit));
            Rule {
                cost: cost.unwrap_or_default(),
                action: action.of_refused,
                count,
                nodelay,
                lists,
                notify,
                ..Rule::new(limit, per)
            }
        });
        if let Some(rule) = &rule {
            slips(check, limit, rule, shared.sync_every);
        }
        rules.insert(name, rule);
    }
    pairs(check, written, &rules);
    (limits, rules)
}

/// Warns of limits that neither `always` nor a route lists.
pub(crate) fn unused_limits<'f>(
    check: &mut Check<'_>,
    written: Option<&Named<WrittenLimit>>,
    listed: impl Iterator<Item = &'f Scalar<LimitName>>,
) {
    let used: HashSet<_> = listed.map(|scalar| &scalar.raw).collect();
    for (name, _) in written.into_iter().flat_map(|limits| &limits.0) {
        if !used.contains(&name.raw) {
            let message = format!("no route uses the limit `{}`", name.raw);
            let note = "list it under `limits` of a route, or under `always`";
            check.warn(Problem::new(name.place, message).note(note));
        }
    }
}

/// Reads `block`, the time for which a key that exceeded the limit is refused. Leased and synced limits cannot have this key.
fn block(check: &mut Check<'_>, limit: &WrittenLimit, mode: Mode) -> Option<Block> {
    let span = check.read_some(limit.block.as_ref());
    let extend = check.read_some(limit.extend.as_ref()).unwrap_or_default();
    let Some(scalar) = &limit.block else {
        if let Some(scalar) = &limit.extend {
            let problem = Problem::new(scalar.place, "there is no `block` to extend");
            check.refuse(problem.note("add `block: 30m`, or remove `extend`"));
        }
        return None;
    };
    if matches!(mode, Mode::Leased | Mode::Synced) {
        let message = format!("a limit that is {} cannot block", mode.word());
        let problem = Problem::new(scalar.place, message);
        check.refuse(problem.note("all gateways must know a block at once: write `mode: exact`"));
    }
    Some(Block {
        span: micros(span?),
        extend,
    })
}

fn per(
    check: &mut Check<'_>,
    limit: &WrittenLimit,
    clients: WrittenClients<'_>,
    claims: &[Arc<str>],
) -> Vec<Per> {
    let mut per = match &limit.per {
        None => vec![Per::Client],
        Some(scalars) => parts(check, scalars, clients, claims),
    };
    models::allow(check, limit, &mut per);
    per
}

/// Reads a list of parts of a request.
fn parts(
    check: &mut Check<'_>,
    scalars: &[Scalar<Per>],
    clients: WrittenClients<'_>,
    claims: &[Arc<str>],
) -> Vec<Per> {
    let mut per = Vec::new();
    for scalar in scalars {
        let Some(part) = check.read(scalar) else {
            continue;
        };
        if per.contains(&part) {
            let problem = Problem::new(scalar.place, format!("`{}` is here twice", scalar.raw));
            check.refuse(problem);
        }
        wider(check, &part, clients, scalar.place);
        listed_claim(check, &part, claims, scalar);
        let mut sources = clients.sources.iter().map(|source| &source.value);
        let (is_named, source) = match part {
            Per::ApiKey => (sources.any(|it| it.api_key.is_some()), "`api_key`"),
            Per::UserId => (
                sources.any(|it| it.user_id.is_some() || it.jwt.is_some()),
                "`user_id` or `jwt`",
            ),
            Per::ClientCert => (sources.any(|it| it.client_cert.is_some()), "`client_cert`"),
            _ => (true, ""),
        };
        if !is_named {
            let message = format!("no client source names a `{}`", scalar.raw);
            check.warn(Problem::new(scalar.place, message).note(format!(
                "every client is counted by address here: list {source} under `clients`, or write `client` in its place"
            )));
        }
        per.push(part);
    }
    per
}

/// Refuses `claim:NAME` in `per` if the key `claims` of the `jwt` source does not list the claim.
fn listed_claim(check: &mut Check<'_>, part: &Per, claims: &[Arc<str>], scalar: &Scalar<Per>) {
    let Per::Claim(name) = part else {
        return;
    };
    if claims.contains(name) {
        return;
    }
    let message = format!("no `jwt` source of `clients` reads `{}`", scalar.raw);
    let problem = Problem::new(scalar.place, message);
    check.refuse(match claims {
        [] => problem.note("list the claim under `claims` of a `jwt` source"),
        claims => problem.choices(name, claims.iter().map(|claim| &**claim)),
    });
}

/// Refuses `ip/N` in `per` if N is not below `ipv6_prefix`, because such a network is no wider than one client.
fn wider(check: &mut Check<'_>, part: &Per, clients: WrittenClients<'_>, place: Option<Place>) {
    let Per::Network(bits) = part else {
        return;
    };
    let mut sources = clients.sources.iter();
    let scalar = sources.find_map(|source| source.value.ip.as_ref()?.ipv6_prefix.as_ref());
    let own = scalar.and_then(|scalar| check.read(scalar));
    let own = own.map_or(IPV6_PREFIX, |PrefixLength(own)| own);
    shared_network(check, &format!("ip/{bits}"), *bits, place);
    if *bits >= own {
        let problem = Problem::new(place, format!("`ip` is one client per /{own} already"));
        check.refuse(problem.note(format!("allowed here: ip/1 to ip/{}", own - 1)));
    }
}

/// Returns the rules of the limits that a list names. Refuses a limit that is listed twice.
pub(crate) fn rules_of(
    check: &mut Check<'_>,
    scalars: &[Scalar<LimitName>],
    rules: &Rules,
    whose: &str,
) -> Vec<Rule> {
    let mut seen = HashSet::new();
    let mut list = Vec::new();
    for scalar in scalars {
        let Some((name, rule)) = defined(check, scalar, rules) else {
            continue;
        };
        if !seen.insert(name) {
            let message = format!("{whose} lists the limit `{}` twice", scalar.raw);
            check.refuse(Problem::new(scalar.place, message));
            continue;
        }
        if let Some(rule) = rule {
            without_descriptor(check, scalar, rule, whose);
        }
        list.extend(rule.clone());
        list.extend(
            rule.as_ref()
                .and_then(|rule| rule.share.as_deref())
                .cloned(),
        );
    }
    list
}

/// Refuses a limit per parts of a descriptor in a list for requests, because requests have no descriptor.
fn without_descriptor(check: &mut Check<'_>, scalar: &Scalar<LimitName>, rule: &Rule, whose: &str) {
    let mut per = rule.per.iter();
    if let Some(part) = per.find(|per| matches!(per, Per::Descriptor(_))) {
        let message = format!(
            "{whose} lists the limit `{}`, which is counted per `{part}`",
            scalar.raw
        );
        let problem = Problem::new(scalar.place, message);
        check.refuse(problem.note(
            "requests have no descriptor: list the limit under `domains` of `decisions`, or count it per another part",
        ));
    }
}

/// Returns the name and the rule of a limit. Refuses a name that no limit has.
pub(crate) fn defined<'r>(
    check: &mut Check<'_>,
    scalar: &Scalar<LimitName>,
    rules: &'r Rules,
) -> Option<(String, &'r Option<Rule>)> {
    let LimitName(name) = check.read(scalar)?;
    let rule = rules.get(&name);
    if rule.is_none() {
        let none = "no limit is defined; define limits under `limits`";
        check.undefined("limit", scalar, rules.keys(), none);
    }
    Some((name, rule?))
}

#[cfg(test)]
mod tests;
