//! The last refusals by request ID, for `tidegate why`.

use std::sync::Arc;

use http::StatusCode;
use tidegate_status::Recent;
use tidegate_status::document::Refused;
use tidegate_tower::Decided;

use super::{ClientName, epoch_ms, longest_refusal};
use crate::outcome::RequestOutcome;
use crate::request_id::RequestId;

/// The most refusals that are kept. Each kept refusal takes less than 500 bytes.
pub const MOST_REFUSED: usize = 8_192;
/// The most refusals that are added in a second.
pub const REFUSED_A_SECOND: u32 = 200;
/// The most bytes of a kept ID. A trusted proxy may send a longer ID.
const MAX_ID: usize = 128;

/// A request that the gateway has just refused, and the gateway's answer.
#[derive(Clone, Copy, Debug)]
pub struct RefusedAnswer<'a> {
    /// The ID of the request.
    pub id: &'a RequestId,
    /// The status of the answer. `None` if the request was dropped without an answer.
    pub status: Option<StatusCode>,
    /// The outcome of the request.
    pub outcome: RequestOutcome,
    /// The word of the error in the answer, if there is one.
    pub error: Option<&'static str>,
}

/// The last refusals.
#[derive(Debug)]
pub struct LastRefused(Recent<Kept>);

#[derive(Clone, Debug)]
struct Kept {
    id: RequestId,
    at: u64,
    status: Option<StatusCode>,
    outcome: RequestOutcome,
    error: Option<&'static str>,
    route: Arc<str>,
    client: Option<ClientName>,
    limit: Option<Arc<str>>,
    retry_after: Option<u64>,
    denied_by: Option<Arc<str>>,
}

impl Default for LastRefused {
    fn default() -> Self {
        Self(Recent::new(MOST_REFUSED, REFUSED_A_SECOND))
    }
}

impl LastRefused {
    /// Adds a refusal on this route. `limit` returns the name of the limit at an index in the route's list of limits.
    #[inline]
    pub(in crate::metrics) fn add(
        &self,
        refused: RefusedAnswer<'_>,
        route: &Arc<str>,
        limit: impl Fn(usize) -> Option<Arc<str>>,
        decided: Option<&Decided>,
    ) {
        self.0.add(|| kept(refused, route, limit, decided));
    }

    /// Begins the next second.
    pub fn refill(&self) {
        self.0.refill();
    }

    /// Returns the refusal of the request with this ID, if the refusal is kept.
    pub fn of(&self, id: &str) -> Option<Refused> {
        let id = &id.as_bytes()[..id.len().min(MAX_ID)];
        let kept = self.0.find(|kept| kept.id.0.as_bytes() == id)?;
        let client = kept.client.as_ref().map(ClientName::shown);
        Some(Refused {
            id: String::from_utf8_lossy(id).into_owned(),
            at: kept.at,
            status: kept.status.map(|status| status.as_u16()),
            outcome: kept.outcome.label().to_owned(),
            error: kept.error.map(str::to_owned),
            route: kept.route.to_string(),
            is_cut: client.as_ref().is_some_and(|(_, is_cut)| *is_cut),
            client: client.map(|(name, _)| name),
            limit: kept.limit.as_deref().map(str::to_owned),
            retry_after: kept.retry_after,
            denied_by: kept.denied_by.as_deref().map(str::to_owned),
        })
    }
}

fn kept(
    refused: RefusedAnswer<'_>,
    route: &Arc<str>,
    limit: impl Fn(usize) -> Option<Arc<str>>,
    decided: Option<&Decided>,
) -> Kept {
    let longest = decided.and_then(longest_refusal);
    let oversized = decided.and_then(|decided| Some(decided.oversized?.index));
    let at = longest.map(|(at, _)| at).or(oversized);
    Kept {
        id: refused.id.start(MAX_ID),
        at: epoch_ms(),
        status: refused.status,
        outcome: refused.outcome,
        error: refused.error,
        route: route.clone(),
        client: decided.map(|decided| ClientName::of(&decided.client)),
        limit: at.and_then(limit),
        retry_after: longest.map(|(_, seconds)| seconds),
        denied_by: decided
            .and_then(Decided::denied_by)
            .map(|entry| entry.text.clone()),
    }
}
