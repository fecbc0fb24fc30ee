//! The data of the report. `--json` prints these data. The text and the page are made from them.

use std::net::IpAddr;

use serde::Serialize;

use crate::range::Range;
use crate::series::Span;

/// The whole report.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    /// The logs, and counts of their lines.
    pub(crate) log: LogReport,
    /// The results of each configuration.
    pub(crate) configurations: Vec<ConfigurationReport>,
    /// The suggested quotas.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) suggested: Vec<Suggestions>,
    /// Notes on these numbers.
    pub(crate) notes: Vec<String>,
}

/// Counts of the lines and requests of the logs.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct LogReport {
    /// The files, with their formats.
    pub(crate) files: Vec<FileReport>,
    pub(crate) lines: u64,
    /// Lines that are requests.
    pub(crate) requests: u64,
    /// Decisions of tidegate by `/v1/check` or `RateLimitService`, whose lines describe no request.
    pub(crate) questions: u64,
    /// Lines that are no requests, according to their format.
    pub(crate) others: u64,
    /// Lines that could not be read.
    pub(crate) unreadable: u64,
    /// The first unreadable lines.
    pub(crate) first_unreadable: Vec<String>,
    /// Requests that have no path.
    pub(crate) without_path: u64,
    /// Requests that the log reports as lost.
    pub(crate) lost: u64,
    /// When the first request arrived.
    pub(crate) from: Option<String>,
    /// When the last request arrived.
    pub(crate) to: Option<String>,
    /// Whether some times of the log are whole seconds. If so, the counts of decisions are ranges.
    pub(crate) whole_seconds: bool,
    /// Whether the replay was stopped before the end of the log.
    pub(crate) stopped: bool,
}

/// One log file.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct FileReport {
    /// The path of the file. `-` is standard input.
    pub(crate) path: String,
    pub(crate) format: &'static str,
    pub(crate) requests: u64,
}

/// The results of one configuration.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ConfigurationReport {
    pub(crate) file: String,
    pub(crate) requests: u64,
    /// Requests that limits admit, and requests that no limit counts.
    pub(crate) admitted: Range,
    /// Requests that limits refuse.
    pub(crate) refused: Range,
    /// Admitted requests that only observed limits would refuse.
    pub(crate) would_refuse: Range,
    /// Number of requests that limits refuse or would refuse, in the run with the higher number.
    #[serde(skip)]
    pub(crate) most_refused: u64,
    /// Admitted requests that wait.
    pub(crate) delayed: Range,
    /// The longest wait, in milliseconds.
    pub(crate) longest_delay_ms: Range,
    /// Number of retries of refused requests.
    pub(crate) retries: Range,
    /// Requests that were refused first and admitted later.
    pub(crate) admitted_later: Range,
    /// Requests that `deny` answers with 403.
    pub(crate) denied: u64,
    /// Requests whose cost is higher than a limit can ever admit.
    pub(crate) oversized: u64,
    /// Requests that the gateway shed without a decision of the limits, because memory was short.
    pub(crate) shed: u64,
    /// Requests without a route.
    pub(crate) without_route: u64,
    /// Requests whose route is unknown, because the log lacks a fact.
    pub(crate) route_unknown: u64,
    /// Requests with refused credentials. Only limits under `always` count them.
    pub(crate) credentials_refused: u64,
    /// Requests that limits refused when the log was written.
    pub(crate) limited_before: u64,
    /// Whether routes have limits of their own, and no request has a route.
    #[serde(skip)]
    pub(crate) lacks_routes: bool,
    /// The only client address of the log, if a limit counts per client. `None` if the log has several addresses.
    #[serde(skip)]
    pub(crate) sole_address: Option<SoleAddress>,
    /// The limits, in the order of the file.
    pub(crate) limits: Vec<LimitReport>,
    /// The clients that are refused most.
    pub(crate) top: Vec<TopClient>,
}

/// The one address from which all requests of a log came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SoleAddress {
    pub(crate) address: IpAddr,
    /// Whether the address is private and `--peer` does not confirm it. If so, the address may belong to a proxy, not to a client.
    pub(crate) may_be_proxy: bool,
}

/// The results of one limit.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct LimitReport {
    pub(crate) name: String,
    pub(crate) algorithm: &'static str,
    /// The quota of the limit, as configured.
    pub(crate) quota: String,
    /// The parts of the limit's keys, as configured in `per`.
    pub(crate) per: Vec<String>,
    /// Whether the limit has `action: observe`, so that it refuses no requests.
    pub(crate) observes: bool,
    /// Whether requests wait by `action: delay`. No other quotas are tried for such a limit.
    pub(crate) delays: bool,
    /// Requests that the limit decided.
    pub(crate) asked: u64,
    /// Requests that this limit decided, and all limits admitted.
    pub(crate) admitted: Range,
    /// Requests that the limit refused, alone or together with other limits. If it only observes: requests that it would have refused.
    pub(crate) refused: Range,
    /// The share of refused requests, in percent of the requests that the limit decided: lower and upper bound.
    pub(crate) refused_percent: [f64; 2],
    /// Requests that the limit delayed.
    pub(crate) delayed: Range,
    /// The longest wait, in milliseconds.
    pub(crate) longest_delay_ms: Range,
    /// Number of keys for which the limit counted requests.
    pub(crate) keys: u64,
    /// Number of clients that the limit refused at least once.
    pub(crate) clients_refused: Range,
    /// The first minute in which the limit refused a request.
    pub(crate) first_refused: Option<String>,
    /// The minute in which the limit refused the most requests.
    pub(crate) worst_minute: Option<Minute>,
    /// Requests for which the limit could not be computed, by the missing fact.
    pub(crate) not_computable: Vec<NotComputable>,
    /// One entry for each bound on the share of refused requests, such as 1 %: the smallest tried quota that stays within the bound.
    pub(crate) needed: Vec<NeededQuota>,
    /// The results of the limit over time.
    pub(crate) series: SeriesReport,
}

/// A minute in which a limit refused requests.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Minute {
    /// When the minute began.
    pub(crate) at: String,
    /// Number of requests refused in this minute.
    pub(crate) refused: u64,
}

/// Requests for which a limit could not be computed.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct NotComputable {
    /// The missing fact.
    pub(crate) log_lacks: String,
    /// Number of requests whose log lines lack this fact.
    pub(crate) requests: u64,
}

/// A quota that would refuse no more than a share of the requests, if the limit were the only one.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct NeededQuota {
    /// The largest share that the quota may refuse, in percent.
    pub(crate) percent: f64,
    /// The smallest tried quota that refuses at most the share. `None` if even the largest tried quota refuses more.
    pub(crate) quota: Option<String>,
    pub(crate) capacity: Option<u64>,
    /// Number of requests that the quota would refuse.
    pub(crate) refused: Option<u64>,
    /// Number of clients, or other keys, with requests that the quota would refuse.
    pub(crate) clients: Option<u64>,
    /// The largest tried capacity that refuses more than the share.
    pub(crate) more_at: Option<u64>,
    /// Number of requests that were tried at this quota.
    pub(crate) of: u64,
    /// Number of clients, or other keys, of the tried requests.
    pub(crate) of_clients: u64,
}

/// A limit over time.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct SeriesReport {
    /// When the first span begins, in seconds since the epoch.
    pub(crate) from: u64,
    /// Length of a span, in seconds.
    pub(crate) seconds: u64,
    pub(crate) spans: Vec<Span>,
}

/// A client that is refused.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct TopClient {
    pub(crate) client: String,
    /// The limit that refuses the client.
    pub(crate) limit: String,
    /// Number of requests of this client that the limit refuses.
    pub(crate) refused: Range,
}

impl Report {
    /// Returns why `--fail-over` fails: limits would refuse more than this percentage of the requests, or the number of refused requests is
    /// unknown.
    pub(crate) fn fails(&self, percent: f64) -> Option<String> {
        let refuses = |of: &ConfigurationReport| {
            of.most_refused as f64 > percent / 100.0 * of.requests as f64
        };
        if self.configurations.iter().any(refuses) {
            return Some(format!(
                "limits would refuse more than {percent} % of the requests"
            ));
        }
        let unknown = |why: String| {
            Some(format!(
                "it is not known whether limits would refuse more than {percent} % of the requests: {why}"
            ))
        };
        if self.log.stopped {
            return unknown("the replay was stopped".to_owned());
        }
        if self.log.requests == 0 {
            return unknown("the logs have none".to_owned());
        }
        let limits = self.configurations.iter().flat_map(|of| &of.limits);
        let mut lacking = limits.filter(|limit| limit.asked == 0);
        let lack = lacking.find_map(|limit| {
            let lack = &limit.not_computable.first()?.log_lacks;
            Some(format!("for {} the log has no {lack}", limit.name))
        });
        let mut configurations = self.configurations.iter();
        lack.or_else(|| configurations.find_map(|of| self.misread(of)))
            .and_then(unknown)
    }

    /// Returns the reason why the replay probably misread the log, or why the log has no suitable traffic for this configuration.
    fn misread(&self, of: &ConfigurationReport) -> Option<String> {
        if of.lacks_routes && self.log.without_path == self.log.requests {
            return Some("no line has a path".to_owned());
        }
        if of.lacks_routes {
            return Some(format!("no request of the logs has a route in {}", of.file));
        }
        let sole = of.sole_address.filter(|sole| sole.may_be_proxy)?;
        Some(format!(
            "all clients have one address, {0}, which may be a proxy's: --peer {0} confirms it",
            sole.address
        ))
    }
}

/// A suggested quota.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Suggestion {
    pub(crate) limit: String,
    /// The quota, as YAML.
    pub(crate) yaml: String,
    pub(crate) capacity: u64,
    /// Number of requests that the quota would refuse, if its limit were the only one.
    pub(crate) refused: u64,
    /// Number of requests that were tried at this quota.
    pub(crate) of: u64,
    /// Number of clients, or other keys, with requests that the quota would refuse.
    pub(crate) clients: u64,
    /// Number of clients, or other keys, of all requests tried.
    pub(crate) of_clients: u64,
    /// The largest tried capacity that refuses more than is allowed.
    pub(crate) more_at: Option<u64>,
}

/// The suggested quotas for one configuration.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Suggestions {
    pub(crate) file: String,
    /// The share of clients that must have no refused request (`--suggest`), in percent.
    pub(crate) untouched_percent: f64,
    pub(crate) limits: Vec<Suggestion>,
    /// The limits without a suggested quota.
    pub(crate) without: Vec<Unsuggested>,
}

/// A limit without a suggested quota.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Unsuggested {
    pub(crate) limit: String,
    pub(crate) why: String,
}
