use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use tidegate_core::{Concurrency, FixedWindow, MAX_WINDOW};
use tidegate_store::{Charge, Limit, MemoryStore, OnFailure, Store};
use tokio::sync::watch;
use tower::{Layer as _, Service as _};

use super::*;
use crate::{
    Cost, Hasher, JsonPath, MAX_ABANDONED, Missing, Peer, Policy, RateLimitLayer, RequestContext,
    Reserve, Rule, WeightedPath,
};
use tidegate_identity::Clients;

const HOUR: u64 = 3_600_000_000;

/// A service behind two limits under which a request holds units: one limit has `count`, the other is `concurrency`.
struct Bench {
    rules: [Rule; 2],
    store: Store,
    wait_queues: WaitQueues,
    /// The status of the answer. The service waits until the test sets a status.
    answer: watch::Sender<Option<StatusCode>>,
    /// Whether the service records that it sends the request.
    sends: bool,
}

impl Bench {
    fn new(sends: bool) -> Self {
        let guesses = FixedWindow::new(5, MAX_WINDOW).unwrap();
        let guesses = Limit::new("guesses", guesses, OnFailure::Local).reserving(HOUR);
        let places = Concurrency::new(5, HOUR).unwrap();
        let places = Limit::new("places", places, OnFailure::Local);
        Self {
            rules: [
                Rule {
                    count: Some([(401, 401)].into()),
                    ..Rule::new(guesses, [])
                },
                Rule::new(places, []),
            ],
            store: Store::Memory(Arc::new(MemoryStore::default())),
            wait_queues: WaitQueues::default(),
            answer: watch::Sender::new(None),
            sends,
        }
    }

    fn policy(&self) -> Policy {
        Policy {
            route: "route".into(),
            rules: self.rules.to_vec().into(),
            ..Policy::default()
        }
    }

    /// Begins a request, and waits until it can make no more progress.
    async fn begin(
        &self,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, Infallible>> + Send>> {
        let (store, wait_queues) = (self.store.clone(), self.wait_queues.clone());
        let (policy, clients) = (self.policy(), Clients::default().into());
        let layer = RateLimitLayer::new(policy, clients, Hasher::new(""), store, wait_queues);
        let (answer, sends) = (self.answer.subscribe(), self.sends);
        let service = tower::service_fn(move |mut request: Request<()>| {
            let transmission = RequestContext::of_mut(&mut request).transmission.take();
            let mut answer = answer.clone();
            async move {
                if sends {
                    transmission.unwrap().sent(Duration::from_secs(3_600));
                }
                let status = answer.wait_for(Option::is_some).await.unwrap().unwrap();
                let mut answer = Response::new(Bytes::new());
                *answer.status_mut() = status;
                Ok(answer)
            }
        });
        let mut request = layer.layer(service).call(Request::new(()));
        let mut context = Context::from_waker(Waker::noop());
        assert!(request.as_mut().poll(&mut context).is_pending());
        request
    }

    /// Returns the remaining units of both limits.
    async fn left(&self) -> [u64; 2] {
        let request = Request::new(());
        let peer = Peer::connected((Ipv4Addr::UNSPECIFIED, 0).into());
        let caller = Clients::default().identify(peer, request.headers());
        let keys = Hasher::new("").keys(&self.policy(), &caller, &request);
        let charges = [0, 1].map(|nth: usize| Charge {
            limit: &self.rules[nth].limit,
            key: keys[nth],
            cost: 1,
            origin: None,
        });
        let outlooks = self.store.peek(&charges).await.unwrap();
        [0, 1].map(|nth: usize| outlooks[nth].verdict.remaining)
    }

    async fn answers(&self, status: StatusCode) {
        self.answer.send_replace(Some(status));
        while self.wait_queues.abandoned() > 0 {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn the_exchange_goes_on_without_its_client() {
    for (status, left) in [(StatusCode::UNAUTHORIZED, [4, 5]), (StatusCode::OK, [5, 5])] {
        let bench = Bench::new(true);
        let request = bench.begin().await;
        assert_eq!(bench.left().await, [4, 4]);
        drop(request);
        assert_eq!(
            (bench.left().await, bench.wait_queues.abandoned()),
            ([4, 4], 1)
        );
        bench.answers(status).await;
        assert_eq!(bench.left().await, left);
    }
}

#[tokio::test]
async fn what_was_not_sent_is_given_back_and_goes_no_further() {
    let bench = Bench::new(false);
    let request = bench.begin().await;
    drop(request);
    assert_eq!(
        (bench.left().await, bench.wait_queues.abandoned()),
        ([5, 5], 0)
    );
    assert_eq!(
        bench.answer.receiver_count(),
        0,
        "the inner service is gone"
    );
}

#[tokio::test]
async fn too_many_exchanges_end_with_their_clients_and_hold_what_they_hold() {
    let bench = Bench::new(true);
    let address = |nth: u32| IpAddr::from(nth.to_be_bytes());
    let permits: Vec<_> = (1..=MAX_ABANDONED as u32)
        .map(|nth| bench.wait_queues.abandon(address(nth)).unwrap())
        .collect();
    let request = bench.begin().await;
    drop(request);
    assert_eq!(
        bench.answer.receiver_count(),
        0,
        "the inner service is gone"
    );
    bench.store.renew().await;
    assert_eq!(
        bench.left().await,
        [4, 4],
        "for as long as an answer may take"
    );
    drop(permits);
    let request = bench.begin().await;
    drop(request);
    bench.answers(StatusCode::OK).await;
    assert_eq!(bench.left().await, [4, 4]);
}

/// A client cannot avoid costs by leaving very often.
#[tokio::test]
async fn an_exchange_that_goes_no_further_may_cost_all() {
    for (missing, left) in [(Missing::Reserve, 4), (Missing::All, 0)] {
        let mut bench = Bench::new(true);
        bench.rules[0].count = None;
        bench.rules[0].cost = Cost::Body {
            numbers: [WeightedPath::from("cost".parse::<JsonPath>().unwrap())].into(),
            reserve: Reserve::Fixed(1),
            missing,
        };
        let address = |nth: u32| IpAddr::from(nth.to_be_bytes());
        let _permits: Vec<_> = (1..=MAX_ABANDONED as u32)
            .map(|nth| bench.wait_queues.abandon(address(nth)).unwrap())
            .collect();
        drop(bench.begin().await);
        assert_eq!(bench.left().await, [left, 4]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_exchange_without_an_answer_ends_in_time() {
    let bench = Bench::new(true);
    drop(bench.begin().await);
    tokio::time::sleep(Duration::from_secs(3_599)).await;
    assert_eq!(
        (bench.left().await, bench.wait_queues.abandoned()),
        ([4, 4], 1)
    );
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(
        (bench.left().await, bench.wait_queues.abandoned()),
        ([4, 5], 0)
    );
}
