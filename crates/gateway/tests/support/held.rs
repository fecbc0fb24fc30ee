//! Upstreams that answer when the test lets them, or as the request asks for.

use std::sync::Arc;

use http::{Request, Response, StatusCode};
use tidegate_testkit::{Speaks, Upstream, body};
use tokio::sync::{Semaphore, watch};

/// An upstream whose answers begin when `true` is sent.
pub(crate) fn held() -> (Upstream, watch::Sender<bool>) {
    held_with(|_| Response::new(body::full("late")))
}

/// As [`held`], with the answer to each request.
pub(crate) fn held_with(
    answer: impl Fn(&Request<hyper::body::Incoming>) -> Response<body::BoxBody> + Send + Sync + 'static,
) -> (Upstream, watch::Sender<bool>) {
    let (release, released) = watch::channel(false);
    let upstream = Upstream::start(move |request| {
        let (answer, mut released) = (answer(&request), released.clone());
        async move {
            let _ = released.wait_for(|released| *released).await;
            answer
        }
    });
    (upstream, release)
}

/// An upstream each of whose answers takes a permit. The answer is the request's path.
pub(crate) fn held_one_by_one(speaks: Speaks) -> (Upstream, Arc<Semaphore>) {
    let free = Arc::new(Semaphore::new(0));
    let door = free.clone();
    let upstream = Upstream::speaking(speaks, move |request| {
        let door = door.clone();
        async move {
            door.acquire().await.unwrap().forget();
            Response::new(body::full(request.uri().path().to_owned()))
        }
    });
    (upstream, free)
}

/// Returns the answer that a request asks for: its path names the status, its query a cost.
pub(crate) fn as_asked<B>(request: &Request<B>) -> Response<body::BoxBody> {
    let mut answer = Response::new(body::full("answered"));
    let status = request.uri().path().trim_start_matches('/');
    *answer.status_mut() = StatusCode::from_bytes(status.as_bytes()).unwrap_or_default();
    if let Some(cost) = request.uri().query() {
        answer.headers_mut().insert("x-cost", cost.parse().unwrap());
    }
    answer
}
