//! `redis`: its URL and its settings.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use crate::yaml::{Problem, Spanned};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, json};
use tidegate_store::redis::RedisOptions;
use tidegate_store::{Limit, Mode, OnFailure, redis};

use crate::check::Check;
use crate::secret::filled_in;
use crate::store::redis_tls::{RedisTls, redis_tls};
use crate::value::number::{object, whole, within};
use crate::value::word::name;
use crate::value::{Fault, Scalar, Value};

/// The connection to Redis, and the way in which gateways share limits.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Redis {
    /// The URL: redis://, rediss://, redis-sentinel://, redis-cluster:// or unix://.
    pub(crate) url: Scalar<RedisUrl>,
    /// The trusted authorities and the gateway's certificate, for URLs with TLS. Default: the system's authorities, no certificate.
    pub(crate) tls: Option<Spanned<RedisTls>>,
    /// The longest time for which a decision waits for Redis, at most 1m. Default: 25ms.
    pub(crate) timeout: Option<Scalar<Duration>>,
    /// The rule for decisions while Redis does not answer: local, open or closed. Default: local.
    pub(crate) on_failure: Option<Scalar<OnFailure>>,
    /// The way in which gateways share a limit: exact, leased, synced or local. Default: exact.
    pub(crate) mode: Option<Scalar<Mode>>,
    /// The time between two exchanges of synced counts, from 1ms to 1m. Default: 100ms.
    pub(crate) sync_every: Option<Scalar<Duration>>,
    /// The number of gateways that share Redis. While Redis does not answer, `on_failure: local` divides each quota by this number.
    /// Default: auto; gateways count each other in Redis.
    pub(crate) gateways: Option<Scalar<Gateways>>,
    /// The first part of all keys in Redis. Default: tidegate.
    pub(crate) key_prefix: Option<Scalar<KeyPrefix>>,
}

/// A Redis URL, which may hold a password.
pub(crate) struct RedisUrl(pub(crate) String);

impl Value for RedisUrl {
    const NAME: &'static str = "RedisUrl";
    const WHAT: &'static str = "a Redis URL";
    const ALLOWED: &'static str = "redis://[user:password@]host:port[/database], or rediss://, redis-cluster://, redis-sentinel:// or unix://";
    const SHOWN: bool = false;

    fn read(text: &str) -> Result<Self, Fault> {
        filled_in(password(text))?;
        let Err(error) = redis::check_url(text) else {
            return Ok(Self(text.to_owned()));
        };
        Err(match (text.split_once("://"), error.reason()) {
            // A URL with a quotation mark or a second scheme is reported first. Otherwise a later case would report valid characters of the
            // user or password.
            (Some((scheme, rest)), Some(reason))
                if scheme.starts_with(['"', '\'']) || rest.contains("://") =>
            {
                Fault::Because(reason)
            }
            (None, _) => Fault::Because("this URL has no scheme: write redis:// before the host"),
            (Some((_, rest)), _) if has_bare_sign(rest) => Fault::Because(
                "the user or password in this URL has a sign that must be escaped: \
                 `/` is %2F, `#` is %23, `?` is %3F, `@` is %40, `%` is %25, a space is %20",
            ),
            (_, Some(reason)) => Fault::Because(reason),
            (_, None) => Fault::Form,
        })
    }
}

/// Returns the password in a URL, or an empty text if the URL has no password.
fn password(url: &str) -> &str {
    let login = url
        .split_once("://")
        .and_then(|(_, rest)| rest.rsplit_once('@'));
    let password = login.and_then(|(login, _)| login.split_once(':'));
    password.map_or("", |(_, password)| password)
}

/// Whether a URL without TLS has port 6380, on which hosted Redis services use TLS. A URL with an IP address or a host without a dot is
/// left out, because it probably names the user's own second server.
fn may_need_tls(url: &str) -> bool {
    let host = url
        .strip_prefix("redis://")
        .map(|rest| rest.rsplit('@').next().unwrap_or(rest));
    let host = host.and_then(|rest| rest.split(['/', '?']).next()?.strip_suffix(":6380"));
    host.is_some_and(|host| host.contains('.') && host.parse::<Ipv4Addr>().is_err())
}

/// Whether the part before the last `@`, the user and password, contains a sign that must be escaped.
fn has_bare_sign(rest: &str) -> bool {
    let user = rest.rsplit_once('@').map(|(user, _)| user);
    user.is_some_and(|user| {
        user.contains(|c: char| matches!(c, '/' | '#' | '?') || c.is_whitespace())
    })
}

/// The number of gateways that share Redis. `None` means the number of gateways that report to Redis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gateways(pub(crate) Option<u64>);

impl Gateways {
    const MOST: u64 = 10_000;
}

impl Value for Gateways {
    const NAME: &'static str = "Gateways";
    const WHAT: &'static str = "a number of gateways";
    const ALLOWED: &'static str = "auto, or a whole number from 1 to 10000";

    fn read(text: &str) -> Result<Self, Fault> {
        if text == "auto" {
            return Ok(Self(None));
        }
        within(text, 1..=Self::MOST).map(|number| Self(Some(number)))
    }

    fn schema() -> Map<String, serde_json::Value> {
        object(json!({ "anyOf": [{ "const": "auto" }, whole(1, Some(Self::MOST))] }))
    }
}

name!(
    /// The prefix of all keys in Redis. Braces are refused, because they would choose the slot of a key in a cluster.
    pub(crate) KeyPrefix,
    "a key prefix",
    "letters, digits, `.`, `_`, `-` and `:`; 128 at most",
    |c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | ':')
);

/// The default of `sync_every`. The longest value is `SLOWEST_SYNC`.
const SYNC_EVERY: Duration = Duration::from_millis(100);

const SLOWEST_SYNC: Duration = Duration::from_secs(60);

/// The longest `timeout` of a call to Redis. It is bounded, because a request waits for the call.
const LONGEST_STORE_TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) fn redis_options(check: &mut Check<'_>, redis: &Redis) -> Option<RedisOptions> {
    let url = check.read(&redis.url);
    if url.as_ref().is_some_and(|RedisUrl(url)| may_need_tls(url)) {
        let problem = Problem::new(redis.url.place, "`redis` at port 6380");
        check.warn(
            problem.note("did you mean rediss://? Redis services of clouds use this port for TLS"),
        );
    }
    let timeout = check.read_some(redis.timeout.as_ref());
    if let (Some(timeout), Some(scalar)) = (timeout, &redis.timeout)
        && timeout > LONGEST_STORE_TIMEOUT
    {
        let problem = Problem::new(scalar.place, "this timeout is too long");
        check.refuse(problem.note("the longest is 1m; 25ms is the default"));
    }
    let sync_every = sync_every(check, redis.sync_every.as_ref(), "100ms is the default");
    let key_prefix = check.read_some(redis.key_prefix.as_ref());
    let gateways = check.read_some(redis.gateways.as_ref());
    let tls = redis_tls(check, redis.tls.as_ref(), &url.as_ref()?.0, redis.url.place);
    Some(RedisOptions {
        url: url?.0,
        tls: tls?,
        timeout: timeout.unwrap_or(Duration::from_millis(25)),
        key_prefix: key_prefix.map_or_else(|| "tidegate".into(), |prefix| prefix.0),
        gateways: gateways.and_then(|Gateways(number)| number),
        sync_every: sync_every.unwrap_or(SYNC_EVERY),
        remember_refusals: true,
    })
}

/// Reads a `sync_every`. `default` describes the value without the key.
pub(crate) fn sync_every(
    check: &mut Check<'_>,
    written: Option<&Scalar<Duration>>,
    default: &str,
) -> Option<Duration> {
    let every = check.read_some(written)?;
    if !(Duration::from_millis(1)..=SLOWEST_SYNC).contains(&every) {
        let problem = Problem::new(written?.place, "`sync_every` is out of range");
        check.refuse(problem.note(format!("allowed here: 1ms to 1m; {default}")));
    }
    Some(every)
}

/// Warns of `sync_every` if no limit has it as its default.
pub(crate) fn useless_sync(check: &mut Check<'_>, written: Option<&Redis>, limits: &[Arc<Limit>]) {
    let scalar = written.and_then(|redis| redis.sync_every.as_ref());
    let has_it = |limit: &Arc<Limit>| limit.mode() == Mode::Synced && limit.sync_every().is_none();
    if let Some(scalar) = scalar.filter(|_| !limits.iter().any(has_it)) {
        let problem = Problem::new(scalar.place, "`sync_every` has no effect here");
        check.warn(problem.note("no limit has `mode: synced` and no `sync_every` of its own"));
    }
}

/// Warns if `gateways` is not set, because gateways that start without a connection to Redis cannot count each other.
pub(crate) fn uncounted_gateways(
    check: &mut Check<'_>,
    written: Option<&Redis>,
    limits: &[Arc<Limit>],
) {
    let Some(redis) = written else {
        return;
    };
    let is_local =
        |limit: &Arc<Limit>| limit.on_failure() == OnFailure::Local && limit.mode() != Mode::Local;
    let local = limits.iter().find(|limit| is_local(limit));
    if let (Some(limit), None) = (local, &redis.gateways) {
        let problem = Problem::new(redis.url.place, "`gateways` is not set");
        check.warn(problem.note(format!(
            "gateways that start while Redis is away do not know of each other: each admits the whole quota of `{}` \
             (`on_failure: local`). With several gateways write their number, such as `gateways: 4`. \
             `gateways: auto` accepts this",
            limit.name()
        )));
    }
}
