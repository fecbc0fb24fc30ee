//! `/v1/check` and `/v1/settle`: programs ask in JSON.

use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesOrdered;
use http::{Request, Response, StatusCode};
use serde::Serialize;
use tidegate_core::Verdict;
use tidegate_doors::{
    Check, CheckCall, CheckReply, CheckResult, LimitState, SettleCall, SettleReply, SettleResult,
};
use tidegate_server::ConnectionInfo;
use tidegate_store::{Outcome, Via};
use tidegate_telemetry::{Door, RequestId};
use tidegate_tower::{Judged, LimitVerdict, RateLimitLayer};

use super::judgement::Asking;
use super::places::Place;
use super::question::Ready;
use super::receipts::{NoReceipt, Receipts};
use super::refusal::Refusal;
use super::{Doors, json};
use crate::body::Body;
use crate::request::problem::Problem;
use crate::request::values::query::{BadQuery, add_value, bad, once};
use crate::stack::Stack;

/// The number of checks of one call that are decided at a time.
const AT_ONCE: usize = 64;

/// Answers a call of `POST /v1/check`. If a check is wrong, no check of the call is charged.
pub(super) async fn check(
    doors: &Doors,
    stack: &Stack,
    head: &Request<()>,
    body: &[u8],
    connection: &ConnectionInfo,
) -> Result<Response<Body>, Refusal> {
    let checks = match CheckCall::read(body) {
        Ok(checks) => checks,
        Err(why) => return Err(wrong("bad_check", &why)),
    };
    let mut questions = Vec::with_capacity(checks.len());
    for (index, check) in checks.iter().enumerate() {
        match doors.question(stack, check, connection.peer().address.ip()) {
            Ok(ready) => questions.push((ready, check.hold.map(Duration::from_secs))),
            Err(why) => {
                return Err(wrong(why.error(), &format!("checks[{index}]: {why}")));
            }
        }
    }
    let caller = connection.peer().address.ip();
    let questions = questions.into_iter().map(|(ready, hold)| {
        let Some(hold) = hold else {
            return Ok((ready, None));
        };
        let place = doors.receipts.place(caller).ok_or(TOO_MANY_HOLDS)?;
        Ok((ready, Some((hold, place))))
    });
    // A decision whose receipt has no place is not made.
    let mut questions = questions.collect::<Result<Vec<_>, Problem>>()?;
    let asking = Asking {
        stack,
        door: Door::Check,
        head,
        peer: connection.peer().address,
    };
    let mut results = Vec::with_capacity(questions.len());
    let mut running = FuturesOrdered::new();
    // One check needs no queue of futures.
    if questions.len() == 1
        && let Some((ready, hold)) = questions.pop()
    {
        results.push(decide(asking, &doors.receipts, ready, hold).await);
    }
    for (ready, hold) in questions {
        if running.len() == AT_ONCE {
            results.extend(running.next().await);
        }
        running.push_back(decide(asking, &doors.receipts, ready, hold));
    }
    while let Some(result) = running.next().await {
        results.push(result);
    }
    Ok(written(&CheckReply { results }))
}

/// Decides one check. Keeps the admitted units for the time `hold`, if the check holds units.
async fn decide(
    asking: Asking<'_>,
    receipts: &Receipts,
    ready: Ready<'_>,
    hold: Option<(Duration, Place)>,
) -> CheckResult {
    let Ready { subject, question } = ready;
    let judged = asking.judge(subject, question, None, |judged, id| {
        let mut result = result(subject.limits, judged, Some(id));
        let held = judged.held.take().zip(hold);
        result.receipt = held.and_then(|(held, (hold, place))| receipts.keep(held, hold, place));
        result
    });
    judged.await
}

/// Answers a call of `GET /v1/check`, which makes no charge.
pub(super) async fn look(
    doors: &Doors,
    stack: &Stack,
    head: &Request<()>,
    connection: &ConnectionInfo,
) -> Result<Response<Body>, Refusal> {
    let query = head.uri().query().unwrap_or_default();
    let ready = by_query(query).and_then(|check| {
        let asker = connection.peer().address.ip();
        let ready = doors.looking(stack, &check, asker);
        ready.map_err(|why| (why.error(), why.to_string()))
    });
    match ready {
        Ok(Ready { subject, question }) => {
            let judged = subject.limits.look(question, None).await;
            Ok(written(&result(subject.limits, &judged, None)))
        }
        Err((error, why)) => Err(wrong(error, &why)),
    }
}

/// Reads the check of a query. Only `limit` and `per` may be there more than once.
fn by_query(query: &str) -> Result<Check, BadQuery> {
    let mut check = Check::default();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        match &*name {
            "limit" => check.limits.push((&*value).into()),
            "cost" => {
                let cost = value.parse();
                let cost = cost.map_err(|_| bad("`cost` is no whole number"))?;
                once(check.cost.replace(cost).is_none())?;
            }
            _ => {
                if !add_value(&mut check, &name, &value)? {
                    return Err(bad("allowed here: limit, route, client, cost and per"));
                }
            }
        }
    }
    Ok(check)
}

/// Answers a call of `POST /v1/settle`.
pub(super) fn settle(receipts: &Receipts, body: &[u8]) -> Result<Response<Body>, Refusal> {
    let settlements = match SettleCall::read(body) {
        Ok(settlements) => settlements,
        Err(why) => return Err(wrong("bad_settlement", &why)),
    };
    let results = settlements.iter().map(|settlement| {
        let settled = receipts.settle(&settlement.receipt, settlement.cost);
        SettleResult {
            settled: settled.is_ok(),
            error: settled.err().map(|why| match why {
                NoReceipt::Unknown => "unknown_receipt",
                NoReceipt::OtherGateway => "other_gateway",
            }),
        }
    });
    Ok(written(&SettleReply {
        results: results.collect(),
    }))
}

/// Describes a decision.
fn result(limits: &RateLimitLayer, judged: &Judged, id: Option<&RequestId>) -> CheckResult {
    let decided = &judged.decided;
    let refusal = decided.refused_with(&limits.policy().answers);
    let decision = decided.decision.as_ref();
    let is_refused = decision.is_some_and(|it| it.outcome == Outcome::Refused);
    let now = decision.map_or(0, |decision| decision.now);
    let states = decided.verdicts().filter_map(|entry| {
        let verdict = entry.verdict?;
        let is_refusing = is_refused && !verdict.allowed && !entry.limit.is_observed();
        Some(state(&entry, verdict, now, is_refusing))
    });
    let states: Vec<LimitState> = states.collect();
    let refused_by = states.iter().filter(|state| state.refused);
    // A limit that can never admit the cost has no verdict.
    let oversized = decided.oversized.as_ref();
    let oversized = oversized.and_then(|it| decided.rules.get(it.index));
    let oversized = oversized.map(|rule| Box::<str>::from(rule.limit.name()));
    let delays = decided.verdicts().filter(|entry| entry.rule.queues());
    let delay = delays.filter_map(|entry| Some(entry.verdict?.delay)).max();
    let delay = delay.filter(|delay| *delay > 0 && refusal.is_none());
    CheckResult {
        admitted: refusal.is_none(),
        refused_by: refused_by
            .clone()
            .map(|state| state.name.clone())
            .chain(oversized)
            .collect(),
        retry_after: match refusal {
            Some((_, Some("limits_unavailable"))) => 1,
            Some(_) => refused_by.map(|state| state.retry_after).max().unwrap_or(0),
            None => 0,
        },
        delay_ms: delay.map(|micros| micros.div_ceil(1_000)),
        decided_by: decision.map(|decision| match decision.via {
            Via::Store => "store",
            Via::Remembered => "remembered",
            Via::Here => "gateway",
            Via::Fallback => "on_failure",
        }),
        receipt: None,
        error: refusal.and_then(|(_, error)| error),
        request_id: id.and_then(|id| Some(id.clone().into_header().to_str().ok()?.to_owned())),
        limits: states,
    }
}

fn state(entry: &LimitVerdict<'_>, verdict: &Verdict, now: u64, refused: bool) -> LimitState {
    let quota = entry.limit.quota();
    let retry_after = match refused {
        true => verdict.retry_after.div_ceil(1_000_000).max(1),
        false => 0,
    };
    LimitState {
        name: entry.limit.name().into(),
        limit: quota.capacity(),
        remaining: verdict.remaining,
        reset: quota
            .has_reset()
            .then(|| (now + verdict.reset).div_ceil(1_000_000)),
        retry_after,
        refused,
    }
}

/// Returns the refusal of a wrong call.
fn wrong(error: &'static str, why: &str) -> Refusal {
    Refusal::new(StatusCode::BAD_REQUEST, error, why)
}

fn written(reply: &impl Serialize) -> Response<Body> {
    // A reply has texts and numbers only, so it can always be written.
    let text = serde_json::to_vec(reply).unwrap_or_default();
    json(Bytes::from(text))
}

const TOO_MANY_HOLDS: Problem = Problem::new(
    StatusCode::SERVICE_UNAVAILABLE,
    "too_many_holds",
    "Too many receipts are open; settle some, or hold units for a shorter time.",
)
.retry_after(Duration::from_secs(1));
