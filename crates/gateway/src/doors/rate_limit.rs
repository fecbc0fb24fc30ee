//! Envoy's `RateLimitService`: all descriptors of a call are one decision.
//!
//! - [`charges`]: the limits of a call's descriptors
//! - [`reply`]: the reply to a decision
//! - [`refunds`]: units of calls that later calls give back

mod charges;
pub(crate) mod refunds;
mod reply;

use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use tidegate_doors::{Call, CallError, Reply, RpcBody, rate_limit_service, timeout};
use tidegate_identity::Caller;
use tidegate_server::{ClientBody, ConnectionInfo};
use tidegate_telemetry::Door;
use tidegate_tower::{Question, QuestionPart};

use super::Doors;
use super::judgement::{Asking, Subject};
use crate::stack::Stack;
use charges::Charges;
use refunds::RefundKey;
use reply::{Answer, is_refused};

/// The share of a caller's timeout that the store has to answer. The rest is for the ways of the call and of its reply.
const STORE_SHARE: f64 = 0.5;

/// Answers a call of the service. `head` is the head of the call, for the log.
pub(super) async fn answer<S>(
    doors: Arc<Doors>,
    snapshot: Arc<S>,
    request: Request<ClientBody>,
    head: Arc<Request<()>>,
    connection: &ConnectionInfo,
) -> Response<RpcBody>
where
    S: AsRef<Stack> + Send + Sync + 'static,
{
    let within = timeout(request.headers()).map(|timeout| timeout.mul_f64(STORE_SHARE));
    let peer = connection.peer().address;
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

/// Decides a call: charges all its descriptors, or none.
async fn decide(
    doors: &Doors,
    asking: &Asking<'_>,
    call: Call,
    within: Option<Duration>,
) -> Result<Reply, CallError> {
    let Charges {
        targets,
        charged,
        looked_at,
        caller,
        holding,
        refunding,
        given_back,
    } = Charges::of(doors, asking, &call)?;
    if !refunding.is_empty() {
        let key = RefundKey::of(&call, &refunding);
        doors.refunds.give_back(&key, &given_back);
    }
    let headers = &doors.limits.policy().answers.headers;
    let mut answer = Answer::of(&call, &targets, headers);
    if !looked_at.is_empty() {
        let (indices, question) = question(&caller, looked_at, false);
        let judged = doors.limits.look(question, within).await;
        answer.add(&doors.limits, &indices, &judged, None);
    }
    if charged.is_empty() {
        return Ok(answer.reply());
    }
    let (indices, question) = question(&caller, charged, !holding.is_empty());
    if answer.is_over() {
        // Another descriptor refuses, so these descriptors are not charged.
        let judged = doors.limits.look(question, within).await;
        answer.add(&doors.limits, &indices, &judged, None);
        return Ok(answer.reply());
    }
    let subject = Subject {
        limits: &doors.limits,
        route: None,
        metrics: &doors.calls,
    };
    let judged = asking.judge(subject, question, within, |judged, id| {
        answer.add(&doors.limits, &indices, judged, Some(id));
        if let Some(held) = judged.held.take().filter(|_| !is_refused(&judged.decided)) {
            let key = RefundKey::of(&call, &holding);
            doors.refunds.keep(key, held, asking.peer.ip());
        }
    });
    judged.await;
    Ok(answer.reply())
}

/// A charge of a call, with the index of its descriptor.
type DescriptorCharge = (usize, QuestionPart);

/// Makes a question of these charges. Returns the index of each charge's descriptor, too.
fn question(
    caller: &Caller,
    charges: Vec<DescriptorCharge>,
    holds: bool,
) -> (Vec<usize>, Question) {
    let (indices, parts) = charges.into_iter().unzip();
    let question = Question {
        caller: caller.clone(),
        parts,
        holds,
    };
    (indices, question)
}
