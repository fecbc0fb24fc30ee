//! The keys of a configuration of envoyproxy/ratelimit, and the quotas of its limits.

use crate::yaml::{Keys, Spanned};
use schemars::JsonSchema;
use serde::Deserialize;
use tidegate_core::{
    FixedWindow, Micros, Quota, QuotaError, Rate, SlidingWindowCounter, SlidingWindowLog,
    TokenBucket,
};

use crate::decisions::descriptor::{DescriptorKey, DomainName};
use crate::value::number::bounded;
use crate::value::word::choice;
use crate::value::{Fault, Scalar, Value};

/// A configuration of envoyproxy/ratelimit.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RatelimitFile {
    pub(super) domain: Scalar<DomainName>,
    pub(super) descriptors: Option<Vec<Spanned<WrittenDescriptor>>>,
}

/// A node of the tree: an entry of a descriptor.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenDescriptor {
    pub(super) key: Scalar<DescriptorKey>,
    pub(super) value: Option<Scalar<FileText>>,
    pub(super) rate_limit: Option<Spanned<WrittenRateLimit>>,
    pub(super) descriptors: Option<Vec<Spanned<Self>>>,
    pub(super) shadow_mode: Option<Scalar<bool>>,
    pub(super) quota_mode: Option<Scalar<bool>>,
    pub(super) detailed_metric: Option<Scalar<bool>>,
    pub(super) value_to_metric: Option<Scalar<bool>>,
    pub(super) share_threshold: Option<Scalar<bool>>,
    // Any keys and values may stand here.
    #[schemars(with = "serde_json::Value")]
    pub(super) metadata: Option<Spanned<Keys>>,
}

/// A limit.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenRateLimit {
    pub(super) unit: Option<Scalar<Unit>>,
    pub(super) requests_per_unit: Option<Scalar<Requests>>,
    pub(super) unlimited: Option<Scalar<bool>>,
    pub(super) name: Option<Scalar<FileText>>,
    pub(super) replaces: Option<Vec<Replacement>>,
    // This key is not a key of ratelimit.
    pub(super) algorithm: Option<Scalar<WindowAlgorithm>>,
}

/// The name of a limit that another limit replaces.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Replacement {
    pub(super) name: Scalar<FileText>,
}

/// Any text.
#[derive(Debug)]
pub(super) struct FileText;

impl Value for FileText {
    const NAME: &'static str = "FileText";
    const WHAT: &'static str = "a text";
    const ALLOWED: &'static str = "any text";

    fn read(_: &str) -> Result<Self, Fault> {
        Ok(Self)
    }
}

bounded!(
    /// The requests per unit.
    Requests(u64),
    0..=4_294_967_295,
    "a number of requests",
    "a whole number from 0 to 4294967295"
);

/// The window of a limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unit(Micros);

/// The units, each with its seconds. All windows begin at multiples of their length from 1970 on, as in ratelimit.
const UNITS: [(&str, u64); 6] = [
    ("second", 1),
    ("minute", 60),
    ("hour", 60 * 60),
    ("day", 24 * 60 * 60),
    ("week", 7 * 24 * 60 * 60),
    ("month", 30 * 24 * 60 * 60),
];

impl Value for Unit {
    const NAME: &'static str = "RatelimitUnit";
    const WHAT: &'static str = "a unit";
    const ALLOWED: &'static str = "one of a few words";

    fn read(text: &str) -> Result<Self, Fault> {
        let is_same = |name: &str| name.eq_ignore_ascii_case(text);
        if is_same("year") {
            return Err(Fault::Because(
                "a year is too long for a window: the longest unit is month, which has 30 days",
            ));
        }
        let unit = UNITS.into_iter().find(|(name, _)| is_same(name));
        let (_, seconds) = unit.ok_or(Fault::Form)?;
        Ok(Self(seconds * 1_000_000))
    }

    fn words() -> impl Iterator<Item = &'static str> {
        UNITS.into_iter().map(|(name, _)| name)
    }
}

/// The algorithm of a limit.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum WindowAlgorithm {
    #[default]
    Fixed,
    Counter,
    Log,
    Bucket,
}

choice!(
    WindowAlgorithm,
    "RatelimitAlgorithm",
    "an algorithm for these numbers",
    [
        ("fixed_window", Self::Fixed),
        ("sliding_window_counter", Self::Counter),
        ("sliding_window_log", Self::Log),
        ("token_bucket", Self::Bucket),
    ]
);

/// Returns the quota of a limit. A token bucket has the requests of one unit, and refills in one unit.
pub(super) fn quota(
    algorithm: WindowAlgorithm,
    Unit(window): Unit,
    Requests(count): Requests,
) -> Result<Quota, QuotaError> {
    match algorithm {
        WindowAlgorithm::Fixed => FixedWindow::new(count, window).map(Quota::from),
        WindowAlgorithm::Counter => SlidingWindowCounter::new(count, window).map(Quota::from),
        WindowAlgorithm::Log => SlidingWindowLog::new(count, window).map(Quota::from),
        WindowAlgorithm::Bucket => {
            let rate = Rate { count, per: window };
            TokenBucket::new(count, rate).map(Quota::from)
        }
    }
}
