//! Envoy's `RateLimitService`: all descriptors of a call are one decision.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{Request, Response};
use tidegate_core::Verdict;
use tidegate_doors::{
    Call, CallDescriptor, CallError, Fact, Reply, RpcBody, Status, StatusLimit, Target,
    rate_limit_service, timeout,
};
use tidegate_identity::{Caller, Claims};
use tidegate_server::{ClientBody, ConnectionInfo};
use tidegate_store::{MAX_CHARGES, Outcome};
use tidegate_telemetry::{Door, RequestId};
use tidegate_tower::{Decided, Descriptor, Judged, LimitVerdict, Question, QuestionPart};

use super::Doors;
use super::judgement::{Asking, Subject};
use crate::stack::Stack;

/// The share of a caller's timeout that the store has to answer. The rest is for the way of the call and of its reply.
const STORE_SHARE: f64 = 0.5;

/// The key of a descriptor's entry with the address of the client.
const REMOTE_ADDRESS: &str = "remote_address";

/// Answers a call of the service.
pub(super) async fn answer<S>(
    doors: Arc<Doors>,
    snapshot: Arc<S>,
    request: Request<ClientBody>,
    connection: &ConnectionInfo,
) -> Response<RpcBody>
where
    S: AsRef<Stack> + Send + Sync + 'static,
{
    let within = timeout(request.headers()).map(|timeout| timeout.mul_f64(STORE_SHARE));
    let mut head = Request::new(());
    *head.method_mut() = request.method().clone();
    *head.uri_mut() = request.uri().clone();
    *head.version_mut() = request.version();
    let peer = connection.peer().address;
    let head = Arc::new(head);
    let decide = move |call: Call| {
        let (doors, snapshot, head) = (doors.clone(), snapshot.clone(), head.clone());
        async move {
            let asking = Asking {
                stack: (*snapshot).as_ref(),
                door: Door::RateLimitService,
                head: &head,
                peer,
            };
            decide(&doors, &asking, call, within).await
        }
    };
    rate_limit_service(request, decide).await
}

/// The descriptors of a call, with the limits that they are charged to.
struct Plan<'d> {
    /// For each descriptor: its limits. `None` if no limit is configured for the descriptor, or if another descriptor replaces it.
    targets: Vec<Option<&'d Target>>,
    /// The charges of descriptors that have a cost, each with the index of its descriptor.
    charges: Vec<(usize, QuestionPart)>,
    /// The questions of descriptors that ask without a charge.
    looks: Vec<(usize, QuestionPart)>,
    caller: Caller,
}

async fn decide(
    doors: &Doors,
    asking: &Asking<'_>,
    call: Call,
    within: Option<Duration>,
) -> Result<Reply, CallError> {
    let mut plan = Plan::of(doors, asking, &call)?;
    let mut statuses = vec![Status::default(); call.descriptors.len()];
    // A limit of 0 refuses without a charge.
    for (status, target) in statuses.iter_mut().zip(&plan.targets) {
        status.is_over = target.is_some_and(|target| target.refuses);
    }
    let mut is_over = statuses.iter().any(|status| status.is_over);
    let mut reply = Reply::default();
    if !plan.looks.is_empty() {
        let (indices, question) = question(&plan.caller, std::mem::take(&mut plan.looks));
        let judged = doors.limits.look(question).await;
        is_over |= is_refused(&judged.decided);
        note(&mut statuses, &indices, &judged);
        describe(doors, &judged.decided, None, &mut reply);
    }
    if !plan.charges.is_empty() {
        let (indices, question) = question(&plan.caller, plan.charges);
        if is_over {
            // Another descriptor refuses, so these descriptors are not charged.
            let judged = doors.limits.look(question).await;
            note(&mut statuses, &indices, &judged);
        } else {
            let subject = Subject {
                limits: &doors.limits,
                route: None,
                metrics: &doors.calls,
            };
            let judged = asking.judge(subject, question, within, |judged, id| {
                note(&mut statuses, &indices, judged);
                describe(doors, &judged.decided, Some(id), &mut reply);
                is_refused(&judged.decided)
            });
            is_over = judged.await;
        }
    }
    reply.is_over = is_over;
    reply.statuses = statuses;
    Ok(reply)
}

impl<'d> Plan<'d> {
    fn of(doors: &'d Doors, asking: &Asking<'_>, call: &Call) -> Result<Self, CallError> {
        let clients = &asking.stack.clients;
        let domain = doors.domains.of(&call.domain);
        let targets = call.descriptors.iter().map(|descriptor| {
            let entries = descriptor.entries.iter();
            let entries: Vec<_> = entries.map(|(key, value)| (&**key, &**value)).collect();
            domain.and_then(|domain| domain.target(&entries))
        });
        let mut targets: Vec<Option<&Target>> = targets.collect();
        let replaced: HashSet<&str> = targets
            .iter()
            .flatten()
            .flat_map(|target| target.replaces.iter().map(|name| &**name))
            .collect();
        for target in &mut targets {
            let name = target.and_then(|target| target.name.as_deref());
            if name.is_some_and(|name| replaced.contains(name)) {
                *target = None;
            }
        }
        let caller = |address: Option<IpAddr>| {
            let address = address.unwrap_or(asking.peer.ip());
            let caller = Caller::introduced(clients, None, [], Some(address), Claims::default());
            caller.map_err(|_| CallError::Unavailable("the caller has no address"))
        };
        let mut first = None;
        let (mut charges, mut looks) = (Vec::new(), Vec::new());
        for (index, (descriptor, target)) in call.descriptors.iter().zip(&targets).enumerate() {
            let Some(target) = target.filter(|target| !target.rules.is_empty()) else {
                continue;
            };
            let own = caller(remote_address(descriptor))?;
            let mut request = Request::new(());
            let entries = Descriptor(descriptor.entries.clone());
            request.extensions_mut().insert(entries);
            let request = Arc::new(request);
            for rule in &target.rules {
                let part = QuestionPart {
                    rule: *rule,
                    caller: Some(own.clone()),
                    request: request.clone(),
                    cost: Some(descriptor.hits.max(1)),
                };
                match descriptor.hits {
                    0 => looks.push((index, part)),
                    _ => charges.push((index, part)),
                }
            }
            first.get_or_insert(own);
        }
        if charges.len() + looks.len() > MAX_CHARGES {
            let text =
                format!("the descriptors of a call are charged to at most {MAX_CHARGES} limits");
            return Err(CallError::Invalid(text));
        }
        Ok(Self {
            targets,
            charges,
            looks,
            caller: match first {
                Some(caller) => caller,
                None => caller(None)?,
            },
        })
    }
}

/// Returns the address in the entry `remote_address` of a descriptor.
fn remote_address(descriptor: &CallDescriptor) -> Option<IpAddr> {
    let mut entries = descriptor.entries.iter();
    let (_, value) = entries.find(|(key, _)| **key == *REMOTE_ADDRESS)?;
    value.parse().ok()
}

/// Makes a question of these charges. Returns the index of each charge's descriptor, too.
fn question(caller: &Caller, parts: Vec<(usize, QuestionPart)>) -> (Vec<usize>, Question) {
    let (indices, parts) = parts.into_iter().unzip();
    let question = Question {
        caller: caller.clone(),
        parts,
        holds: false,
    };
    (indices, question)
}

/// Whether the request may not pass. A gateway that cannot decide on a `closed` limit refuses the request, too.
fn is_refused(decided: &Decided) -> bool {
    let outcome = decided.decision.as_ref().map(|decision| decision.outcome);
    decided.denied_by().is_some()
        || decided.oversized.is_some()
        || matches!(outcome, Some(Outcome::Refused | Outcome::Unavailable))
}

/// Adds the verdicts of a decision to the statuses of its descriptors.
fn note(statuses: &mut [Status], indices: &[usize], judged: &Judged) {
    let decided = &judged.decided;
    let refuses_all = is_refused(decided)
        && decided
            .decision
            .as_ref()
            .is_none_or(|it| it.outcome == Outcome::Unavailable);
    let verdicts: Vec<LimitVerdict<'_>> = decided.verdicts().collect();
    for (descriptor, verdict) in indices.iter().zip(&judged.verdicts) {
        let status = &mut statuses[*descriptor];
        status.is_over |= refuses_all;
        let Some(entry) = verdict.and_then(|at| verdicts.get(at)) else {
            continue;
        };
        let Some(verdict) = entry.verdict.filter(|_| !entry.limit.is_observed()) else {
            continue;
        };
        let is_tighter = status.limit.as_ref().is_none_or(|other| {
            let refuses = !verdict.allowed && !status.is_over;
            refuses || verdict.allowed == !status.is_over && verdict.remaining < other.remaining
        });
        if is_tighter {
            status.limit = Some(status_limit(entry, verdict));
        }
        status.is_over |= !verdict.allowed;
    }
}

fn status_limit(entry: &LimitVerdict<'_>, verdict: &Verdict) -> StatusLimit {
    let quota = entry.limit.quota();
    StatusLimit {
        name: entry.limit.name().to_owned(),
        capacity: quota.capacity(),
        period: quota.period(),
        remaining: verdict.remaining,
        reset: match verdict.allowed {
            true => verdict.reset,
            false => verdict.retry_after,
        },
    }
}

/// Adds headers and metadata of a decision to a reply.
fn describe(doors: &Doors, decided: &Decided, id: Option<&RequestId>, reply: &mut Reply) {
    let mut response = Response::new(());
    doors.limits.write_headers(decided, &mut response);
    let is_over = is_refused(decided);
    let tightest = decided
        .verdicts()
        .find(|entry| Some(entry.index) == decided.tightest);
    let mut facts = Vec::new();
    if let Some(entry) = tightest
        && let Some(verdict) = entry.verdict
    {
        facts.push(("limit", Fact::Text(entry.limit.name().to_owned())));
        facts.push(("remaining", Fact::Number(verdict.remaining)));
    }
    if is_over {
        let refusing = decided.verdicts().filter_map(|entry| entry.verdict);
        let waits = refusing.filter(|verdict| !verdict.allowed);
        let wait = waits.map(|verdict| verdict.retry_after).max();
        let seconds = wait.unwrap_or_default().div_ceil(1_000_000).max(1);
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
        facts.push(("retry_after", Fact::Number(seconds)));
    }
    if let Some(id) = id.and_then(|id| Some(id.clone().into_header().to_str().ok()?.to_owned())) {
        facts.push(("request_id", Fact::Text(id)));
    }
    if let Some((_, Some(error))) = decided.refused_with(&doors.limits.policy().answers) {
        facts.push(("error", Fact::Text(error.to_owned())));
    }
    reply.headers = std::mem::take(response.headers_mut());
    reply.facts = facts;
}
