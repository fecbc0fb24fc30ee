//! The gateway itself: where state is kept, how long it waits.

use std::sync::Arc;
use std::time::Duration;

use tidegate_store::redis::RedisOptions;
use tidegate_store::{Limit, Mode, OnFailure};

use super::limits::StoreDefaults;
use crate::check::redis_tls::redis_tls;
use crate::file::{self, File, Redis, SingleOr};
use crate::plan::{LeastRate, StorePlan, Timeouts};
use crate::reading::Check;
use crate::secret::Secret;
use crate::value::{ByteRate, Connections, Gateways, MemoryLimit, NoLeastRate};
use tidegate_yaml::Problem;

/// How often synced limits are exchanged: by default, and at most.
const SYNC_EVERY: Duration = Duration::from_millis(100);
const SLOWEST_SYNC: Duration = Duration::from_secs(60);

/// Longer than this nobody waits for a limit.
const LONGEST_STORE_TIMEOUT: Duration = Duration::from_secs(60);

/// The store, and how its limits are shared by default.
pub(crate) fn store(check: &mut Check<'_>, file: &File) -> (Option<StorePlan>, StoreDefaults) {
    let store = match &file.store {
        None => return (Some(StorePlan::Memory), StoreDefaults::default()),
        Some(SingleOr::Single(word)) => {
            let memory = check.read(word).map(|_| StorePlan::Memory);
            return (memory, StoreDefaults::default());
        }
        Some(SingleOr::Block(store)) => store,
    };
    let Some(redis) = &store.value.redis else {
        check.refuse(
            Problem::new(store.place, "no store is named here")
                .note("allowed here: memory, or `redis: { url: … }`"),
        );
        return (None, StoreDefaults::default());
    };
    let on_failure = check.read_some(redis.on_failure.as_ref());
    let mode = check.read_some(redis.mode.as_ref());
    let shared = StoreDefaults {
        on_failure: on_failure.unwrap_or_default(),
        mode: mode.unwrap_or_default(),
    };
    let plan = redis_options(check, redis).map(StorePlan::Redis);
    (plan, shared)
}

fn redis_options(check: &mut Check<'_>, redis: &Redis) -> Option<RedisOptions> {
    let url = check.read(&redis.url);
    let timeout = check.read_some(redis.timeout.as_ref());
    if let (Some(timeout), Some(scalar)) = (timeout, &redis.timeout)
        && timeout > LONGEST_STORE_TIMEOUT
    {
        check.refuse(
            Problem::new(scalar.place, "this timeout is too long")
                .note("the longest is 1m; 25ms is the default"),
        );
    }
    let sync_every = check.read_some(redis.sync_every.as_ref());
    if let (Some(every), Some(scalar)) = (sync_every, &redis.sync_every)
        && !(Duration::from_millis(1)..=SLOWEST_SYNC).contains(&every)
    {
        check.refuse(
            Problem::new(scalar.place, "`sync_every` is out of range")
                .note("allowed here: 1ms to 1m; 100ms is the default"),
        );
    }
    let key_prefix = check.read_some(redis.key_prefix.as_ref());
    let gateways = check.read_some(redis.gateways.as_ref());
    let tls = redis_tls(check, redis, url.as_ref()?);
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

/// Warns that gateways which start without Redis do not know of each other.
pub(crate) fn uncounted_gateways(check: &mut Check<'_>, file: &File, limits: &[Arc<Limit>]) {
    let Some(SingleOr::Block(store)) = &file.store else {
        return;
    };
    let Some(redis) = &store.value.redis else {
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

pub(crate) fn secret(
    check: &mut Check<'_>,
    file: &File,
    store: Option<&StorePlan>,
) -> Option<Secret> {
    let secret = check
        .read_some(file.secret.as_ref())
        .and_then(|text| text.0);
    if secret.is_none() && matches!(store, Some(StorePlan::Redis(_))) {
        let place = file.secret.as_ref().and_then(|scalar| scalar.place);
        check.warn(Problem::new(place, "there is no `secret`").note(
            "the gateways then make one and keep it in Redis, so a reader of Redis can find out which clients are in it. \
             Set the same random text on all gateways",
        ));
    }
    secret
}

pub(crate) fn timeouts(check: &mut Check<'_>, file: &File) -> Timeouts {
    let mut timeouts = Timeouts::default();
    if let Some(written) = &file.timeouts {
        let Timeouts {
            header,
            connect,
            upstream,
            idle,
            tunnel_idle,
            slow,
        } = timeouts;
        let slow = least_rate(check, written.slow.as_ref(), slow);
        let mut read =
            |scalar: &Option<_>, default| check.read_some(scalar.as_ref()).unwrap_or(default);
        timeouts = Timeouts {
            header: read(&written.header, header),
            connect: read(&written.connect, connect),
            upstream: read(&written.upstream, upstream),
            idle: read(&written.idle, idle),
            tunnel_idle: read(&written.tunnel_idle, tunnel_idle),
            slow,
        };
    }
    timeouts
}

/// The least rate of clients; what is not written is as `usual`.
pub(crate) fn least_rate(
    check: &mut Check<'_>,
    written: Option<&SingleOr<NoLeastRate, file::Slow>>,
    usual: Option<LeastRate>,
) -> Option<LeastRate> {
    match written {
        None => usual,
        Some(SingleOr::Single(scalar)) => {
            // A refused value makes no plan anyway.
            let _ = check.read(scalar);
            None
        }
        Some(SingleOr::Block(block)) => {
            let usual = usual.unwrap_or_default();
            let rate = check.read_some(block.value.rate.as_ref());
            let after = check.read_some(block.value.after.as_ref());
            Some(LeastRate {
                rate: rate.map_or(usual.rate, |ByteRate(rate)| rate),
                after: after.unwrap_or(usual.after),
            })
        }
    }
}

pub(crate) fn max_connections(check: &mut Check<'_>, file: &File) -> usize {
    let written = check.read_some(file.max_connections.as_ref());
    written.map_or(10_000, |Connections(number)| number)
}

pub(crate) fn max_connections_per_ip(check: &mut Check<'_>, file: &File) -> Option<usize> {
    let written = check.read_some(file.max_connections_per_ip.as_ref());
    written.map(|Connections(number)| number)
}

pub(crate) fn max_memory(check: &mut Check<'_>, file: &File) -> Option<u64> {
    let written = check.read_some(file.max_memory.as_ref());
    written.and_then(|MemoryLimit(bytes)| bytes)
}
