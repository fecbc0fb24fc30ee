//! The report, as programs read it.

use std::net::IpAddr;

use serde::Serialize;

use crate::range::Range;
use crate::series::Span;

/// The whole report.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    /// The logs, and what was read of them.
    pub(crate) log: LogReport,
    /// What each configuration would have done.
    pub(crate) configurations: Vec<ConfigurationReport>,
    /// Quotas that are suggested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) suggested: Vec<Suggestions>,
    /// What is to be known of these numbers.
    pub(crate) notes: Vec<String>,
}

/// What was read.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct LogReport {
    /// The files, with their formats.
    pub(crate) files: Vec<FileReport>,
    pub(crate) lines: u64,
    /// Lines that are requests.
    pub(crate) requests: u64,
    /// Lines that are none by their format.
    pub(crate) others: u64,
    /// Lines that could not be read.
    pub(crate) unreadable: u64,
    /// The first of these.
    pub(crate) first_unreadable: Vec<String>,
    /// Requests that have no path.
    pub(crate) without_path: u64,
    /// Requests that the log itself calls lost.
    pub(crate) lost: u64,
    /// When the first and the last request arrived.
    pub(crate) from: Option<String>,
    pub(crate) to: Option<String>,
    /// Whether times are whole seconds: then numbers are ranges.
    pub(crate) whole_seconds: bool,
    /// Whether the replay was ended before the log did.
    pub(crate) stopped: bool,
}

/// One file.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct FileReport {
    /// Its path; `-` is standard input.
    pub(crate) path: String,
    pub(crate) format: &'static str,
    pub(crate) requests: u64,
}

/// What one configuration would have done.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ConfigurationReport {
    pub(crate) file: String,
    pub(crate) requests: u64,
    /// Requests that limits let through, or do not count.
    pub(crate) admitted: Range,
    /// Requests that limits refuse.
    pub(crate) refused: Range,
    /// Of the admitted, those that only observed limits would refuse.
    pub(crate) would_refuse: Range,
    /// The most of one run that limits refuse or would refuse.
    #[serde(skip)]
    pub(crate) most_refused: u64,
    /// Of the admitted, those that wait.
    pub(crate) delayed: Range,
    /// The longest wait, in milliseconds.
    pub(crate) longest_delay_ms: Range,
    /// How often refused requests came again.
    pub(crate) retries: Range,
    /// Requests that were refused first and admitted later.
    pub(crate) admitted_later: Range,
    /// Requests that `deny` answers with 403.
    pub(crate) denied: u64,
    /// Requests that cost more than a limit can ever admit.
    pub(crate) oversized: u64,
    /// Requests that the gateway did not ask limits about, because memory was short.
    pub(crate) shed: u64,
    /// Requests that no route takes.
    pub(crate) without_route: u64,
    /// Requests whose route the log does not tell.
    pub(crate) route_unknown: u64,
    /// Requests whose credentials are refused. Limits under `always` alone count them.
    pub(crate) credentials_refused: u64,
    /// Requests that limits refused when they were logged.
    pub(crate) limited_before: u64,
    /// Whether routes have limits of their own, and no request has a route.
    #[serde(skip)]
    pub(crate) lacks_routes: bool,
    /// The address that all clients have, if limits count them.
    #[serde(skip)]
    pub(crate) sole_address: Option<SoleAddress>,
    /// The limits, in the order of the file.
    pub(crate) limits: Vec<LimitReport>,
    /// The clients that are refused most.
    pub(crate) top: Vec<TopClient>,
}

/// The address that all clients of a log have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SoleAddress {
    pub(crate) address: IpAddr,
    /// Whether it is of a private network, and not confirmed by `--peer`.
    pub(crate) may_be_proxy: bool,
}

/// What one limit would have done.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct LimitReport {
    pub(crate) name: String,
    pub(crate) algorithm: &'static str,
    /// Its quota, as it is written.
    pub(crate) quota: String,
    /// What it is counted per.
    pub(crate) per: Vec<String>,
    /// Whether it only observes.
    pub(crate) observes: bool,
    /// Whether requests wait by `action: delay`. Then no other quota is tried.
    pub(crate) delays: bool,
    /// Requests that it was asked about.
    pub(crate) asked: u64,
    /// Requests that it and all others let through.
    pub(crate) admitted: Range,
    /// Requests that it refused, perhaps with others.
    pub(crate) refused: Range,
    /// The refused, in percent of the asked.
    pub(crate) refused_percent: [f64; 2],
    /// Requests that it let wait.
    pub(crate) delayed: Range,
    /// The longest wait, in milliseconds.
    pub(crate) longest_delay_ms: Range,
    /// The keys that it counted for.
    pub(crate) keys: u64,
    /// The clients that it refused.
    pub(crate) clients_refused: Range,
    /// The first minute in which it refused.
    pub(crate) first_refused: Option<String>,
    /// The minute in which it refused most.
    pub(crate) worst_minute: Option<Minute>,
    /// Requests for which it could not be computed, by what the log lacks.
    pub(crate) not_computable: Vec<NotComputable>,
    /// Quotas that would refuse no more than a share of the requests.
    pub(crate) needed: Vec<NeededQuota>,
    /// What happened over time.
    pub(crate) series: SeriesReport,
}

/// A minute.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Minute {
    /// When it began.
    pub(crate) at: String,
    /// How many were refused in it.
    pub(crate) refused: u64,
}

/// Requests for which a limit could not be computed.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct NotComputable {
    /// What the log does not have.
    pub(crate) log_lacks: String,
    /// How many.
    pub(crate) requests: u64,
}

/// A quota that would refuse no more than a share of the requests, if the limit were the only one.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct NeededQuota {
    /// The share, in percent.
    pub(crate) percent: f64,
    /// The quota; none if even the largest that was tried refuses more.
    pub(crate) quota: Option<String>,
    pub(crate) capacity: Option<u64>,
    /// How many it would refuse.
    pub(crate) refused: Option<u64>,
    /// Of how many clients, or other keys, it would refuse requests.
    pub(crate) clients: Option<u64>,
    /// The largest capacity that was tried and refuses more.
    pub(crate) more_at: Option<u64>,
    /// How many were tried.
    pub(crate) of: u64,
    /// How many clients, or other keys, these are of.
    pub(crate) of_clients: u64,
}

/// What happened over time.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct SeriesReport {
    /// When the first span begins, in seconds since the epoch.
    pub(crate) from: u64,
    /// How long a span is, in seconds.
    pub(crate) seconds: u64,
    pub(crate) spans: Vec<Span>,
}

/// A client that is refused.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct TopClient {
    pub(crate) client: String,
    /// The limit that refuses.
    pub(crate) limit: String,
    /// How often.
    pub(crate) refused: Range,
}

impl Report {
    /// Why limits do not pass: they would refuse more than this share of the requests, in percent, or that is not known.
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

    /// Why the log is probably misread, or is no evidence for this configuration.
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
    /// The quota, as it is written in YAML.
    pub(crate) yaml: String,
    pub(crate) capacity: u64,
    /// How many of the requests it would refuse, if it were the only limit.
    pub(crate) refused: u64,
    /// How many were tried.
    pub(crate) of: u64,
    /// Of how many clients, or other keys, it would refuse requests.
    pub(crate) clients: u64,
    /// How many there are.
    pub(crate) of_clients: u64,
    /// The largest capacity that was tried and refuses more than is allowed.
    pub(crate) more_at: Option<u64>,
}

/// What is suggested for one configuration.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Suggestions {
    pub(crate) file: String,
    /// The share of clients of whom no request may be refused, in percent.
    pub(crate) untouched_percent: f64,
    pub(crate) limits: Vec<Suggestion>,
    /// The limits for which none is suggested.
    pub(crate) without: Vec<Unsuggested>,
}

/// A limit for which no quota is suggested.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Unsuggested {
    pub(crate) limit: String,
    pub(crate) why: String,
}
