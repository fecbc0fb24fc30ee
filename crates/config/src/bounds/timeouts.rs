//! `timeouts`: the timeouts of the gateway, and the lowest rate at which clients may send and receive.

use std::num::NonZeroU64;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Map;
use tidegate_net::pace::LeastRate;

use crate::check::Check;
use crate::shape::SingleOr;
use crate::value::number::{digits, pattern};
use crate::value::size::size;
use crate::value::{Fault, Scalar, Value};

/// Timeouts, each at most 31d.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Timeouts")]
pub(crate) struct WrittenTimeouts {
    /// The longest wait for a request's head. On a new connection, this time includes the TLS handshake. Default: 10s.
    pub(crate) header: Option<Scalar<Duration>>,
    /// The longest wait for a connection to an upstream server, the TLS handshake included. Default: 1s.
    pub(crate) connect: Option<Scalar<Duration>>,
    /// The longest wait for the head of the upstream's answer, and between two parts of the answer. Default: 60s.
    pub(crate) upstream: Option<Scalar<Duration>>,
    /// The longest wait for the next request on a connection, and for the next part of a request body. Default: 75s.
    pub(crate) idle: Option<Scalar<Duration>>,
    /// The longest wait for the next byte in a tunnel, in either direction. Default: 5m.
    pub(crate) tunnel_idle: Option<Scalar<Duration>>,
    /// The longest wait for requests in flight when the gateway stops: a duration, or none for no bound. Default: 30s.
    pub(crate) drain: Option<Scalar<Drain>>,
    /// The lowest rate at which clients may send and receive: none, or `{ rate, after }`. Default: `{ rate: 240B/s, after: 60s }`.
    pub(crate) slow: Option<SingleOr<NoLeastRate, Slow>>,
}

/// The lowest rate at which clients may send request bodies and receive answers, while the gateway waits for the client.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Slow {
    /// The rate in bytes per second. Default: 240B/s.
    pub(crate) rate: Option<Scalar<ByteRate>>,
    /// The longest time by which a client may lag behind `rate`. If a client lags further behind, the gateway closes its connection.
    /// Default: 60s.
    pub(crate) after: Option<Scalar<Duration>>,
}

/// A rate in bytes per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ByteRate(pub(crate) NonZeroU64);

impl ByteRate {
    /// The highest `rate` that a configuration may set, in bytes per second. Few clients could reach a higher rate.
    const MOST: u64 = 1 << 30;
}

impl Value for ByteRate {
    const NAME: &'static str = "ByteRate";
    const WHAT: &'static str = "a rate of bytes";
    const ALLOWED: &'static str = "a whole number, a unit (B, KB, MB, GB) and `/s`, from 1B/s to 1GB/s, such as 240B/s or 1KB/s";

    fn read(text: &str) -> Result<Self, Fault> {
        let bytes = text.strip_suffix("/s").ok_or(Fault::Form)?;
        // A rate without the unit `B`, such as `240/s`, is refused, because it could mean 240 requests per second.
        let bytes = match bytes.strip_suffix('B') {
            Some(number) if !number.is_empty() && digits(number).is_some() => number,
            Some(_) => bytes,
            None => return Err(Fault::Form),
        };
        let bytes = size(bytes)?.and_then(NonZeroU64::new);
        let bytes = bytes.filter(|bytes| bytes.get() <= Self::MOST);
        bytes.map(Self).ok_or(Fault::Form)
    }

    fn schema() -> Map<String, serde_json::Value> {
        pattern(r"^[0-9]+(B|KB|MB|GB)/s$")
    }
}

/// The value `none` of `slow`. With `none`, the gateway does not cut off slow clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoLeastRate;

impl Value for NoLeastRate {
    const NAME: &'static str = "NoLeastRate";
    const WHAT: &'static str = "a least rate";
    const ALLOWED: &'static str = "none, or `{ rate: …, after: … }`";

    fn read(text: &str) -> Result<Self, Fault> {
        (text == "none").then_some(Self).ok_or(Fault::Form)
    }
}

/// The time in which requests in flight must end when the gateway stops. `None` means no bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Drain(pub(crate) Option<Duration>);

impl Value for Drain {
    const NAME: &'static str = "Drain";
    const WHAT: &'static str = "a duration of the drain";
    const ALLOWED: &'static str =
        "none for no bound, or a whole number and a unit (ms, s, m, h, d), such as 30s or 10m";

    fn read(text: &str) -> Result<Self, Fault> {
        match text {
            "none" => Ok(Self(None)),
            _ => Duration::read(text).map(|drain| Self(Some(drain))),
        }
    }

    fn schema() -> Map<String, serde_json::Value> {
        pattern(r"^(none|(0|[1-9][0-9]*)(ms|s|m|h|d))$")
    }
}

/// The timeouts of the gateway, and the lowest rate at which clients may send and receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// The longest wait for a request's head, from its first byte.
    pub header: Duration,
    /// The longest wait for a connection to an upstream server.
    pub connect: Duration,
    /// The longest wait for the head of the upstream's answer, and between two parts of the answer.
    pub upstream: Duration,
    /// The longest wait for the next request on a connection, and for the next part of a request body.
    pub idle: Duration,
    /// The longest wait for the next byte in a tunnel, in either direction.
    pub tunnel_idle: Duration,
    /// The longest wait for requests in flight when the gateway stops. `None` means no bound.
    pub drain: Option<Duration>,
    /// The lowest rate at which clients may send request bodies and receive answers. `None` means no bound.
    pub slow: Option<LeastRate>,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            header: Duration::from_secs(10),
            connect: Duration::from_secs(1),
            upstream: Duration::from_secs(60),
            idle: Duration::from_secs(75),
            tunnel_idle: Duration::from_secs(300),
            drain: Some(Duration::from_secs(30)),
            slow: Some(LeastRate::default()),
        }
    }
}

pub(crate) fn timeouts(check: &mut Check<'_>, written: Option<&WrittenTimeouts>) -> Timeouts {
    let usual = Timeouts::default();
    let Some(written) = written else {
        return usual;
    };
    let drain = check.read_some(written.drain.as_ref());
    let slow = least_rate(check, written.slow.as_ref(), usual.slow);
    let mut read = |scalar: &Option<_>, usual| check.read_some(scalar.as_ref()).unwrap_or(usual);
    Timeouts {
        header: read(&written.header, usual.header),
        connect: read(&written.connect, usual.connect),
        upstream: read(&written.upstream, usual.upstream),
        idle: read(&written.idle, usual.idle),
        tunnel_idle: read(&written.tunnel_idle, usual.tunnel_idle),
        drain: drain.map_or(usual.drain, |Drain(drain)| drain),
        slow,
    }
}

/// Reads the lowest rate at which clients may send and receive. Missing keys get the values of `usual`.
pub(crate) fn least_rate(
    check: &mut Check<'_>,
    written: Option<&SingleOr<NoLeastRate, Slow>>,
    usual: Option<LeastRate>,
) -> Option<LeastRate> {
    match written {
        None => usual,
        Some(SingleOr::Single(scalar)) => {
            // If the value is refused, no settings are made, so the result does not matter.
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
