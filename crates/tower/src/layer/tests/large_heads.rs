//! Requests with large heads that wait.

use std::task::Waker;
use std::time::Duration;

use super::*;

/// Sends 1,000 requests with a header of this length. Returns the number of requests that may wait.
async fn waiting(length: usize) -> usize {
    let rule = Rule {
        action: Action::Delay {
            max: Duration::from_secs(100_000),
        },
        ..rule("paced", 1, &[Per::Ip])
    };
    let quota = TokenBucket::new(
        1,
        Rate {
            count: 1,
            per: 1_000_000,
        },
    )
    .unwrap();
    let rules = (0..10).map(|nth| Rule {
        limit: Limit::new(format!("paced-{nth}"), quota, OnFailure::Local).into(),
        ..rule.clone()
    });
    let mut waiting = Vec::new();
    let queues = WaitQueues::default();
    let store = Store::Memory(Arc::new(MemoryStore::default()));
    for rule in rules {
        let policy = Policy {
            route: "route".into(),
            rules: [rule].into(),
            ..Policy::default()
        };
        let hasher = Hasher::new("");
        let layer = RateLimitLayer::new(
            policy,
            Arc::new(Clients::default()),
            hasher,
            store.clone(),
            queues.clone(),
        );
        let mut service = layer.layer(tower::service_fn(async |_: Request<()>| {
            Ok::<_, Infallible>(Response::new(Bytes::new()))
        }));
        for _ in 0..1_000 {
            let mut request = Request::new(());
            let peer = Peer::connected((HOME.unwrap().parse::<IpAddr>().unwrap(), 4711).into());
            request.extensions_mut().insert(RequestContext::new(peer));
            let filler = "x".repeat(length).parse().unwrap();
            request.headers_mut().insert("x-filler", filler);
            let mut answer = service.call(request);
            let mut context = Context::from_waker(Waker::noop());
            if answer.as_mut().poll(&mut context).is_pending() {
                waiting.push(answer);
            }
        }
    }
    assert_eq!(queues.waiting(), waiting.len());
    waiting.len()
}

#[tokio::test]
async fn heads_of_requests_that_wait_are_bounded_in_bytes() {
    // A quarter of all permits is the most that one address gets.
    assert_eq!(waiting(1_000).await, MAX_WAITING / 4);
    assert_eq!(waiting(11_000).await, MAX_WAITING / 4 / 6);
}
