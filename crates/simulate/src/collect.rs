//! Collects the report from the results of the runs.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use foldhash::fast::RandomState;
use tidegate_core::Micros;
use tidegate_identity::Client;
use tidegate_logs::{Reader, Refused};
use tidegate_tower::Per;

use crate::caller::shown;
use crate::counts::Clients;
use crate::engine::{Found, Tried, delays};
use crate::lacks::rules;
use crate::lane::Lane;
use crate::range::Range;
use crate::report::{
    ConfigurationReport, FileReport, LimitReport, LogReport, Minute, NeededQuota, NotComputable,
    Report, SeriesReport, SoleAddress, TopClient,
};
use crate::stats::{LimitStats, Requests};
use crate::time::time;

/// Shares of requests, in millionths. For each share, the report has the smallest tried quota that refuses at most this share.
pub(crate) const SHARES: [u64; 3] = [0, 1_000, 10_000];

/// Fewest requests for which the report notes that all came from one address.
const MANY: u64 = 100;

/// Most clients in the list of the most refused ones.
const TOP: usize = 10;

/// Makes the report from the results, without notes.
pub(crate) fn report(results: &Found<'_>, reader: &Reader) -> Report {
    let read = reader.report();
    let files = reader.sources().iter().map(|source| FileReport {
        path: source.path().display().to_string(),
        format: source.format().map_or("empty", |format| format.name()),
        requests: source.requests(),
    });
    let log = LogReport {
        files: files.collect(),
        lines: read.lines,
        requests: results.times.requests,
        questions: read.questions,
        others: read.others,
        unreadable: read.refused,
        first_unreadable: read.first_refused.iter().map(Refused::to_string).collect(),
        without_path: results.times.without_path,
        lost: read.lost,
        from: results.times.first.map(time),
        to: results.times.first.map(|_| time(results.times.last)),
        whole_seconds: results.times.coarse > 0,
        stopped: results.stopped,
    };
    let configurations: Vec<_> = results.candidates.iter().map(configuration).collect();
    Report {
        log,
        configurations,
        suggested: Vec::new(),
        notes: Vec::new(),
    }
}

/// Returns the lowest and the highest value of a number over all runs.
fn of_lanes(lanes: &[Lane<'_>], of: impl Fn(&Lane<'_>) -> u64) -> Range {
    Range::of(lanes.iter().map(&of))
}

fn configuration(tried: &Tried<'_>) -> ConfigurationReport {
    let (lanes, counts) = (&tried.lanes[..], &tried.candidate.counts);
    let settings = tried.trial.settings;
    let limits = settings.limits.iter().enumerate().map(|(number, limit)| {
        let rule = rules(settings).find(|rule| rule.limit.name() == limit.name());
        let per = rule.map_or_else(Vec::new, |rule| {
            rule.per.iter().map(Per::to_string).collect()
        });
        let range =
            |of: fn(&LimitStats) -> u64| of_lanes(lanes, |lane| of(&lane.stats.limits[number]));
        let requests = range(|it| it.requests).high;
        let refused = range(|it| it.refused);
        let percent = |part: u64| match requests {
            0 => 0.0,
            requests => part as f64 * 100.0 / requests as f64,
        };
        // Values that are not ranges come from the run that refuses more.
        let stats = lanes.iter().map(|lane| &lane.stats.limits[number]);
        let worst = stats.max_by_key(|it| it.refused);
        let mut not_computable: Vec<_> = tried
            .candidate
            .lacking
            .iter()
            .filter(|((limit, _), _)| usize::from(*limit) == number)
            .map(|((_, lack), requests)| NotComputable {
                log_lacks: lack.to_string(),
                requests: *requests,
            })
            .collect();
        not_computable.sort_by(|a, b| (b.requests, &a.log_lacks).cmp(&(a.requests, &b.log_lacks)));
        LimitReport {
            name: limit.name().to_owned(),
            algorithm: limit.quota().algorithm(),
            quota: limit.quota().written(),
            per,
            observes: limit.is_observed(),
            delays: delays(settings, limit),
            asked: requests,
            admitted: range(|it| it.admitted),
            refused,
            refused_percent: [percent(refused.low), percent(refused.high)],
            delayed: range(|it| it.delayed),
            longest_delay_ms: range(|it| it.longest / 1_000),
            keys: range(|it| it.keys.len() as u64).high,
            clients_refused: range(|it| it.clients.len() as u64),
            first_refused: worst.and_then(|it| it.first).map(time),
            worst_minute: worst.and_then(|it| it.worst).map(|(at, refused)| Minute {
                at: time(at),
                refused,
            }),
            not_computable,
            needed: SHARES
                .map(|share| needed(lanes, number, Allowed::Requests(share)))
                .into(),
            series: series(worst),
        }
    });
    let limits: Vec<_> = limits.collect();
    let range = |of: fn(&Requests) -> u64| of_lanes(lanes, |lane| of(&lane.stats.requests));
    ConfigurationReport {
        file: tried.trial.name.to_owned(),
        requests: counts.requests,
        admitted: range(|it| it.admitted),
        refused: range(|it| it.refused),
        would_refuse: range(|it| it.would_refuse),
        most_refused: range(|it| it.refused + it.would_refuse).high,
        delayed: range(|it| it.delayed),
        longest_delay_ms: range(|it| it.longest / 1_000),
        retries: range(|it| it.retries),
        admitted_later: range(|it| it.after_retry),
        denied: counts.denied,
        oversized: counts.oversized,
        shed: counts.shed,
        without_route: counts.unrouted,
        route_unknown: counts.unsure,
        credentials_refused: counts.credentials_refused,
        limited_before: counts.limited_before,
        lacks_routes: lacks_routes(tried),
        sole_address: sole_address(tried, &limits),
        limits,
        top: top(tried),
    }
}

/// Whether routes have limits of their own, and no request has a route.
fn lacks_routes(tried: &Tried<'_>) -> bool {
    let (settings, counts) = (tried.trial.settings, &tried.candidate.counts);
    let mut routes = settings.routes.iter();
    let routed = counts.requests - counts.shed - counts.unsure - counts.unrouted;
    routed == 0
        && counts.unrouted > 0
        && routes.any(|route| route.policy.rules.len() > route.policy.always)
}

/// Returns the address of all requests if they have only one. `None` for fewer than `MANY` requests, or if no limit counts per client.
fn sole_address(tried: &Tried<'_>, limits: &[LimitReport]) -> Option<SoleAddress> {
    let Clients::One(Client::Ip(address)) = tried.candidate.clients else {
        return None;
    };
    let of_clients =
        |limit: &LimitReport| limit.asked > 0 && limit.per.iter().any(|per| is_of_client(per));
    let is_shown = tried.candidate.counts.requests >= MANY && !address.is_unspecified();
    if !is_shown || !limits.iter().any(of_clients) {
        return None;
    }
    let is_private = match address {
        IpAddr::V4(address) => {
            let [first, second, ..] = address.octets();
            // Carrier-grade NAT uses 100.64.0.0/10.
            let is_shared = first == 100 && (64..128).contains(&second);
            address.is_private() || address.is_loopback() || address.is_link_local() || is_shared
        }
        IpAddr::V6(address) => {
            address.is_loopback() || address.is_unique_local() || address.is_unicast_link_local()
        }
    };
    // A client with an IPv6 address is named by its prefix alone. So any IPv6 peer counts as the same address.
    let is_same = |peer: IpAddr| peer == address || peer.is_ipv6() && address.is_ipv6();
    let confirmed = tried.candidate.given.peer.is_some_and(is_same);
    Some(SoleAddress {
        address,
        may_be_proxy: is_private && !confirmed,
    })
}

/// Whether this part of `per` gives each client a budget of its own.
fn is_of_client(per: &str) -> bool {
    per == "client" || per.starts_with("ip")
}

/// The largest share that a quota may refuse.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Allowed {
    /// The most refused requests per million requests.
    Requests(u64),
    /// The most clients with a refused request per million clients.
    Clients(u64),
}

impl Allowed {
    /// Whether a share of refused requests, or of keys with a refused request, is allowed.
    fn fits(self, [refused, of]: [u64; 2], [touched, keys]: [u64; 2]) -> bool {
        let (part, of, allowed) = match self {
            Self::Requests(allowed) => (refused, of, allowed),
            Self::Clients(allowed) => (touched, keys, allowed),
        };
        u128::from(part) * 1_000_000 <= u128::from(of) * u128::from(allowed)
    }

    pub(crate) const fn percent(self) -> f64 {
        let (Self::Requests(millionths) | Self::Clients(millionths)) = self;
        millionths as f64 / 10_000.0
    }
}

/// Returns the smallest tried quota whose refusals stay within the `allowed` share in every run.
pub(crate) fn needed(lanes: &[Lane<'_>], number: usize, allowed: Allowed) -> NeededQuota {
    let mut result = NeededQuota::default();
    for lane in lanes {
        let ladder = &lane.ladders[number];
        let (of, keys) = (ladder.tried(), ladder.keys());
        let none = NeededQuota {
            percent: allowed.percent(),
            of,
            of_clients: keys,
            ..NeededQuota::default()
        };
        let needed = ladder.needed(|refused, touched| allowed.fits([refused, of], [touched, keys]));
        let Some(needed) = needed else {
            return NeededQuota {
                more_at: ladder.largest().map(|quota| quota.capacity()),
                ..none
            };
        };
        let capacity = Some(needed.quota.capacity());
        if result.capacity < capacity {
            result = NeededQuota {
                quota: Some(needed.quota.written()),
                capacity,
                refused: Some(needed.refused),
                clients: Some(needed.touched),
                more_at: needed.above.map(|quota| quota.capacity()),
                ..none
            };
        }
    }
    result
}

fn series(stats: Option<&LimitStats>) -> SeriesReport {
    let Some(stats) = stats else {
        return SeriesReport::default();
    };
    let (from, width): (Micros, Micros) = stats.series.place();
    SeriesReport {
        from: from / 1_000_000,
        seconds: width / 1_000_000,
        spans: stats.series.spans().to_vec(),
    }
}

/// Returns the clients that are refused most.
fn top(tried: &Tried<'_>) -> Vec<TopClient> {
    let mut clients: BTreeMap<(String, usize), &Client> = BTreeMap::new();
    for lane in &tried.lanes {
        for (number, stats) in lane.stats.limits.iter().enumerate() {
            let most = most(&stats.clients).into_iter();
            clients.extend(most.map(|(name, client)| ((name, number), client)));
        }
    }
    // A client that is refused little in one run may be refused most in the other. So its count is a range over both runs.
    let refused = |client: &Client, number: usize| {
        of_lanes(&tried.lanes, |lane| {
            let refused = lane.stats.limits[number].clients.get(client);
            refused.copied().unwrap_or(0)
        })
    };
    let mut top: Vec<TopClient> = clients
        .into_iter()
        .map(|((name, number), client)| TopClient {
            client: name,
            limit: tried.trial.settings.limits[number].name().to_owned(),
            refused: refused(client, number),
        })
        .collect();
    top.sort_by(|a, b| (b.refused.high, &a.client).cmp(&(a.refused.high, &b.client)));
    top.truncate(TOP);
    top
}

/// Returns the `TOP` clients with the highest counts, and their names. Clients with equal counts are ordered by name.
fn most(clients: &HashMap<Client, u64, RandomState>) -> Vec<(String, &Client)> {
    let mut counts: Vec<u64> = clients.values().copied().collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let least = counts.get(TOP - 1).copied().unwrap_or(0);
    let named = |(client, count): (_, &u64)| (Reverse(*count), shown(client), client);
    let most = clients.iter().filter(|(_, count)| **count >= least);
    let mut most: Vec<_> = most.map(named).collect();
    most.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
    most.truncate(TOP);
    let most = most.into_iter();
    most.map(|(_, name, client)| (name, client)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_counts_are_found_and_ties_are_in_order_of_names() {
        let client = |nth: u8| Client::Ip([192, 0, 2, nth].into());
        let counts = (0..100).map(|nth| (client(nth), if nth % 30 == 7 { 9 } else { 2 }));
        let clients = counts.collect();
        let top = most(&clients);
        let names: Vec<&str> = top.iter().map(|(name, _)| &**name).collect();
        let last = ["37", "67", "7", "97", "0", "1", "10", "11", "12", "13"];
        assert_eq!(names, last.map(|nth| format!("ip:192.0.2.{nth}")));
        assert_eq!(most(&HashMap::default()), []);
    }
}
