//! The messages of `/v1/check` and `/v1/settle`.

mod object;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use object::{Object, without_repeats};

/// The most checks, or settlements, of one call.
pub const MAX_CHECKS: usize = 1_000;
/// The longest time of a hold, in seconds.
pub const MAX_HOLD: u64 = 3_600;
/// The highest cost. Programs that read JSON numbers as `f64` have this number exactly.
pub const MAX_COST: u64 = (1 << 53) - 1;

/// A call of `POST /v1/check`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckCall {
    /// The checks. Each is a decision of its own.
    checks: Vec<Object<Check>>,
}

/// A question about one request.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// The names of the limits. Empty if `route` is set.
    #[serde(default)]
    pub limits: Vec<Box<str>>,
    /// The name of a route, whose limits are charged.
    #[serde(default)]
    pub route: Option<Box<str>>,
    /// The client, such as `api_key:acme`.
    #[serde(default)]
    pub client: Option<Box<str>>,
    /// The values that the limits are counted per, by the words of `per`.
    #[serde(default, deserialize_with = "without_repeats")]
    pub per: BTreeMap<Box<str>, Box<str>>,
    /// The cost. `None` for the limit's own cost.
    #[serde(default)]
    pub cost: Option<u64>,
    /// The longest time, in seconds, for which the units are held until they are settled. `None` without a hold.
    #[serde(default)]
    pub hold: Option<u64>,
}

/// The answer to a call of `POST /v1/check`.
#[derive(Debug, Serialize)]
pub struct CheckReply {
    /// The result of each check, in the order of the call.
    pub results: Vec<CheckResult>,
}

/// The decision about one request.
#[derive(Debug, Serialize)]
pub struct CheckResult {
    /// Whether the request may pass.
    pub admitted: bool,
    /// The state of each limit that was charged, or that refused.
    pub limits: Vec<LimitState>,
    /// The names of the limits that refused.
    pub refused_by: Vec<Box<str>>,
    /// The time until a retry can succeed, in seconds, rounded up; 0 if the request was admitted.
    pub retry_after: u64,
    /// The time to wait before the admitted request may go on, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
    /// The part that decided: `store`, `gateway`, `remembered` or `on_failure`. `None` without a charge.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<&'static str>,
    /// The receipt by which held units are settled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receipt: Option<String>,
    /// The reason of a refusal that no limit caused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<&'static str>,
    /// The ID of the decision in the access log. `None` for a look, which is not logged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// The state of a limit after a decision.
#[derive(Debug, Serialize)]
pub struct LimitState {
    /// The limit's name.
    pub name: Box<str>,
    /// The most units.
    pub limit: u64,
    /// The units that are left.
    pub remaining: u64,
    /// The time when all units are free again, in seconds since the epoch, rounded up. `None` for `concurrency`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reset: Option<u64>,
    /// The time until the limit admits the request, in seconds, rounded up; 0 if it did.
    pub retry_after: u64,
    /// Whether the limit refused the request.
    pub refused: bool,
}

/// A call of `POST /v1/settle`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SettleCall {
    /// The settlements.
    settlements: Vec<Object<Settlement>>,
}

/// The real cost of a request whose units are held.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settlement {
    /// The receipt of the check.
    pub receipt: String,
    /// The cost; 0 if the request was not served. `None` for the reserved units.
    #[serde(default)]
    pub cost: Option<u64>,
}

/// The answer to a call of `POST /v1/settle`.
#[derive(Debug, Serialize)]
pub struct SettleReply {
    /// The result of each settlement, in the order of the call.
    pub results: Vec<SettleResult>,
}

/// The result of a settlement.
#[derive(Debug, Serialize)]
pub struct SettleResult {
    /// Whether this call has settled the units.
    pub settled: bool,
    /// The reason if not: `unknown_receipt` or `other_gateway`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<&'static str>,
}

impl CheckCall {
    /// Reads the checks of a call.
    ///
    /// # Errors
    ///
    /// The text is no call, or is out of bounds. The error describes the mistake.
    pub fn read(text: &[u8]) -> Result<Vec<Check>, String> {
        let call: Object<Self> = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        counted(call.0.checks.len(), "checks")?;
        Ok(call.0.checks.into_iter().map(|check| check.0).collect())
    }
}

impl SettleCall {
    /// Reads the settlements of a call.
    ///
    /// # Errors
    ///
    /// The text is no call, or is out of bounds. The error describes the mistake.
    pub fn read(text: &[u8]) -> Result<Vec<Settlement>, String> {
        let call: Object<Self> = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        counted(call.0.settlements.len(), "settlements")?;
        let settlements: Vec<_> = call.0.settlements.into_iter().map(|it| it.0).collect();
        match settlements.iter().position(|it| it.cost > Some(MAX_COST)) {
            Some(index) => Err(format!(
                "settlements[{index}]: `cost` is at most {MAX_COST}"
            )),
            None => Ok(settlements),
        }
    }
}

fn counted(count: usize, name: &str) -> Result<(), String> {
    match count {
        1..=MAX_CHECKS => Ok(()),
        _ => Err(format!(
            "`{name}` has 1 to {MAX_CHECKS} elements, not {count}"
        )),
    }
}
