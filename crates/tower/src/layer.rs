//! The tower layer: one route's limits in front of one service.

mod decide;
mod early;
mod judge;

use std::convert::Infallible;
use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Method, Request, Response};
use tidegate_store::{MemoryStore, Store};
use tower::{Layer, Service};

use self::early::early_rules;
use crate::answered::respond;
use crate::assessment::{Assessment, assess_admitted};
use crate::exchange::Exchange;
use crate::in_flight::Reservation;
use crate::question::{Judged, Question};
use crate::wait_queues::Sender;
use crate::waiting::Admission;
use crate::{
    AnswerBody, BudgetEvents, Decided, Hasher, Overrides, Policy, RequestContext, ReserveReader,
    Rule, WaitQueues,
};
use tidegate_identity::{Caller, Clients};

/// Makes [`RateLimit`] services for one route.
///
/// ```
/// use std::convert::Infallible;
/// use std::sync::Arc;
///
/// use bytes::Bytes;
/// use http::{Request, Response, StatusCode};
/// use tidegate_core::{FixedWindow, MAX_WINDOW};
/// use tidegate_identity::Clients;
/// use tidegate_store::{Limit, MemoryStore, OnFailure, Store};
/// use tidegate_tower::{
///     Hasher, Peer, Per, Policy, RateLimitLayer, RequestContext, Rule, WaitQueues,
/// };
/// use tower::{Layer as _, ServiceExt as _, service_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // One request per address and month.
/// let quota = FixedWindow::new(1, MAX_WINDOW)?;
/// let limit = Limit::new("once", quota, OnFailure::Local);
/// let policy = Policy {
///     route: "all".into(),
///     rules: [Rule::new(limit, &[Per::Ip][..])].into(),
///     ..Policy::default()
/// };
/// let store = Store::Memory(Arc::new(MemoryStore::default()));
/// let layer = RateLimitLayer::new(
///     policy,
///     Arc::new(Clients::default()),
///     Hasher::new("a secret"),
///     store,
///     WaitQueues::default(),
/// );
/// let inner = service_fn(|_: Request<()>| async {
///     Ok::<_, Infallible>(Response::new(Bytes::from_static(b"hello")))
/// });
/// let service = layer.layer(inner);
/// let mut statuses = Vec::new();
/// for _ in 0..2 {
///     let mut request = Request::new(());
///     let peer = Peer::connected("192.0.2.1:4711".parse()?);
///     request.extensions_mut().insert(RequestContext::new(peer));
///     statuses.push(service.clone().oneshot(request).await?.status());
/// }
/// assert_eq!(statuses, [StatusCode::OK, StatusCode::TOO_MANY_REQUESTS]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct RateLimitLayer(Arc<Enforced>);

#[derive(Debug)]
struct Enforced {
    policy: Policy,
    clients: Arc<Clients>,
    hasher: Hasher,
    store: Store,
    wait_queues: WaitQueues,
    overrides: Overrides,
    events: BudgetEvents,
    /// The indices of the rules that may refuse a request before its token is verified.
    early: Box<[usize]>,
    /// Whether a request that a limit refuses may wait and be admitted later.
    may_wait: bool,
    /// Whether an admitted request may have to wait for its turn in a `queue`.
    queues: bool,
    /// Whether a request may have holds.
    holds: bool,
    /// Whether the layer writes the client into the [`RequestContext`], because the inner service needs the client.
    tells_client: bool,
}

impl RateLimitLayer {
    /// Makes a layer that enforces `policy` on the callers that `clients` names, with budgets in `store`. Layers with clones of the same
    /// `wait_queues` share these queues.
    pub fn new(
        policy: Policy,
        clients: Arc<Clients>,
        hasher: Hasher,
        store: Store,
        wait_queues: WaitQueues,
    ) -> Self {
        Self::with_overrides(
            policy,
            clients,
            hasher,
            store,
            wait_queues,
            (Overrides::default(), BudgetEvents::default()),
            false,
        )
    }

    /// Makes a layer with overrides, whose events are queued in `events`. With `tells_client`, the layer writes the client into the [`RequestContext`] of each request.
    pub fn with_overrides(
        policy: Policy,
        clients: Arc<Clients>,
        hasher: Hasher,
        store: Store,
        wait_queues: WaitQueues,
        (overrides, events): (Overrides, BudgetEvents),
        tells_client: bool,
    ) -> Self {
        let any = |is: fn(&Rule) -> bool| policy.rules.iter().any(is);
        let (may_wait, queues) = (any(Rule::may_wait), any(Rule::queues));
        let notifies = any(|rule| rule.notify.is_some());
        Self(Arc::new(Enforced {
            early: early_rules(&policy, &clients, &store),
            may_wait,
            queues,
            holds: any(|rule| rule.limit.lease().is_some()),
            tells_client: tells_client || clients.forward_client.is_some(),
            policy,
            clients,
            hasher,
            store,
            wait_queues,
            overrides,
            events: Some(events).filter(|_| notifies).unwrap_or_default(),
        }))
    }

    /// Returns the policy that the layer enforces.
    pub fn policy(&self) -> &Policy {
        &self.0.policy
    }

    /// Decides a question of another program: charges all its parts, or none. Does not wait. The store has the time `within` to answer, and
    /// never more than its own timeout.
    pub async fn judge(&self, question: Question, within: Option<Duration>) -> Judged {
        self.0.judge(question, within).await
    }

    /// Returns the decision that a question would get now. Charges no unit. The store has the time `within` to answer.
    pub async fn look(&self, question: Question, within: Option<Duration>) -> Judged {
        self.0.look(question, within).await
    }

    /// Returns a reader for the beginning of a request's body, which determines the units that the request reserves. `None` if the body does
    /// not determine them, or if the layer refuses the request whatever its body is.
    pub fn reserve_reader<B>(&self, request: &Request<B>) -> Option<ReserveReader> {
        let Enforced {
            policy,
            clients,
            wait_queues,
            ..
        } = &*self.0;
        if self.0.early(request).is_some() {
            return None;
        }
        let peer = RequestContext::of(request).peer;
        ReserveReader::of(policy, request, || {
            wait_queues.keep_body(clients.address(peer, request.headers()))
        })
    }

    /// Returns the answer to a request with this decision if the request may not pass.
    pub fn refusal<R: AnswerBody>(&self, decided: &Decided) -> Option<Response<R>> {
        self.0.refusal(decided)
    }
}

impl<S> Layer<S> for RateLimitLayer {
    type Service = RateLimit<S>;

    fn layer(&self, inner: S) -> RateLimit<S> {
        RateLimit {
            inner,
            enforced: self.0.clone(),
        }
    }
}

/// Charges each request to its limits before the inner service gets it.
///
/// A request must have a [`RequestContext`] in its extensions. If the request has holds, the layer adds a
/// [`Transmission`](crate::Transmission) to this context. An answer has [`Answered`](AnswerBody::answered). The HTTP server that sends the
/// answer passes each part of the body to [`Answered::in_flight`](crate::Answered::in_flight), and keeps the `in_flight` value until the
/// body has ended. If [`Decided::action`] is [`Action::Drop`](crate::Action::Drop), the server closes the connection without an answer.
///
/// If a client leaves while the store decides, its request may be charged: a script that was sent to Redis cannot be stopped. The holds of
/// the request end without a charge. If a client leaves after a request with holds was forwarded, the inner service continues until the
/// head of the answer.
#[derive(Clone, Debug)]
pub struct RateLimit<S> {
    inner: S,
    enforced: Arc<Enforced>,
}

impl<S, B, R> Service<Request<B>> for RateLimit<S>
where
    S: Service<Request<B>, Response = Response<R>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
    B: Send + 'static,
    R: AnswerBody,
{
    type Response = Response<R>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<R>, Infallible>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        // `poll_ready` was called on `self.inner`, so this very service must handle the request. A clone stays in its place.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let enforced = self.enforced.clone();
        if let Some(decided) = enforced.early(&request)
            && let Some(refusal) = enforced.refusal(&decided)
        {
            return Box::pin(ready(Ok(enforced.tell(refusal, decided, None))));
        }
        let (caller, assessment) = enforced.assess(&request);
        if enforced.tells_client {
            RequestContext::of_mut(&mut request).client = Some(caller.client.clone());
        }
        if let Some(memory) = enforced.at_once() {
            // The futures in this block cannot call Redis. They have an eighth of the size of the future below, so they are cheaper to
            // move.
            let (decided, reservation) = enforced.decide_at_once(memory, caller, assessment);
            if let Some(refusal) = enforced.refusal(&decided) {
                return Box::pin(ready(Ok(enforced.tell(refusal, decided, reservation))));
            }
            let Some(reservation) = reservation else {
                let answer = inner.call(request);
                return Box::pin(async move { Ok(enforced.tell(answer.await?, decided, None)) });
            };
            let exchange = enforced.exchange(&mut inner, request, reservation);
            return Box::pin(async move {
                let (answer, reservation) = exchange.await;
                Ok(enforced.tell(answer, decided, Some(reservation)))
            });
        }
        let address = caller.address();
        let sender = match enforced.may_wait || enforced.queues {
            true => Sender::of(address, &request),
            false => address.into(),
        };
        Box::pin(async move {
            let (decided, reservation) = enforced.decide(caller, assessment, sender).await;
            if let Some(refusal) = enforced.refusal(&decided) {
                return Ok(enforced.tell(refusal, decided, reservation));
            }
            let Some(reservation) = reservation else {
                return Ok(enforced.tell(inner.call(request).await?, decided, None));
            };
            let exchange = enforced.exchange(&mut inner, request, reservation);
            let (answer, reservation) = exchange.await;
            Ok(enforced.tell(answer, decided, Some(reservation)))
        })
    }
}

/// The decision about a request, and its holds.
type Given = (Box<Decided>, Option<Reservation>);

impl Enforced {
    /// Returns the memory store, which decides at once, if no rule can make a request wait.
    fn at_once(&self) -> Option<&MemoryStore> {
        match &self.store {
            Store::Memory(memory) if !self.may_wait && !self.queues => Some(memory),
            Store::Memory(_) | Store::Redis(_) => None,
        }
    }

    fn refusal<R: AnswerBody>(&self, decided: &Decided) -> Option<Response<R>> {
        decided.refusal(&self.policy.answers).map(respond)
    }

    /// Forwards a request that has holds.
    fn exchange<S, B, R>(
        &self,
        inner: &mut S,
        mut request: Request<B>,
        mut reservation: Reservation,
    ) -> Exchange<R>
    where
        S: Service<Request<B>, Response = Response<R>, Error = Infallible> + 'static,
        S::Future: Send,
        B: 'static,
        R: AnswerBody,
    {
        reservation.is_head = *request.method() == Method::HEAD;
        let transmission = reservation.transmission.clone();
        let context = RequestContext::of_mut(&mut request);
        context.transmission = Some(transmission);
        reservation.texts = std::mem::take(&mut context.texts);
        let answering = inner.call(request);
        Exchange::new(answering, reservation, &self.wait_queues)
    }

    /// Ends the holds whose cost is in the answer's head, and writes the rate-limit headers.
    fn tell<R: AnswerBody>(
        &self,
        mut response: Response<R>,
        mut decided: Box<Decided>,
        reservation: Option<Reservation>,
    ) -> Response<R> {
        let in_flight =
            reservation.and_then(|it| decided.settle_head(it, &response, &self.wait_queues));
        decided.write_headers(&mut response, &self.policy.answers);
        let answered = R::answered(&mut response);
        answered.decided = Some(decided);
        // If this layer made no holds, the answer keeps the holds of a layer that is nested inside this one.
        answered.in_flight = in_flight.or(answered.in_flight.take());
        response
    }

    /// Names the caller, and computes what each rule charges.
    fn assess<B>(&self, request: &Request<B>) -> (Caller, Assessment) {
        let table = self.overrides.table.load();
        let overrides = table.as_deref().map(|table| (&self.overrides, &**table));
        let (policy, clients) = (&self.policy, &self.clients);
        assess_admitted(policy, clients, &self.hasher, overrides, request)
    }

    const fn admission(&self, sender: Sender) -> Admission<'_> {
        Admission {
            sender,
            store: &self.store,
            wait_queues: &self.wait_queues,
            rules: &self.policy.rules,
            holds: self.holds,
            within: None,
        }
    }
}

#[cfg(test)]
mod tests;
