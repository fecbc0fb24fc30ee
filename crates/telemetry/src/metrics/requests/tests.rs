//! Totals over reloads.

use tidegate_tower::WaitQueues;

use super::*;
use crate::metrics::{GatewayMetrics, RouteMetrics};

#[test]
fn no_total_shrinks_when_routes_are_made_anew_or_go() {
    let metrics = GatewayMetrics::new(WaitQueues::default());
    let route =
        |name| RouteMetrics::new(&metrics, &Arc::from(name), Door::Proxy, std::iter::empty());
    let ended = |route: &RouteMetrics, status: u16| {
        let status = http::StatusCode::from_u16(status).ok();
        let outcome = RequestOutcome::Forwarded;
        route.ended(outcome, status, Duration::from_millis(2));
    };
    let all = |totals: RequestTotals| (totals.outcomes.iter().sum::<u64>(), totals.took);
    let (first, second) = (route("first"), route("second"));
    // Status 101 is unusual, so its counter is created with the first request.
    for status in [101, 200] {
        ended(&first, status);
    }
    ended(&second, 200);
    drop(second);
    drop(route("first"));
    let of_first = || metrics.requests.totals_of(&Arc::from("first"));
    assert_eq!(all(of_first()), (2, 4_000));
    assert_eq!(all(metrics.requests.totals()), (3, 6_000));
    // A request that began before a reload ends.
    ended(&first, 101);
    ended(&route("second"), 200);
    assert_eq!(all(of_first()), (3, 6_000));
    assert_eq!(all(metrics.requests.totals()), (5, 10_000));
}

#[test]
fn a_route_has_the_requests_of_all_its_doors_and_each_duration_once() {
    let metrics = GatewayMetrics::new(WaitQueues::default());
    let name = Arc::<str>::from("first");
    let ended = |name: &Arc<str>, door, outcome| {
        let route = RouteMetrics::new(&metrics, name, door, std::iter::empty());
        let status = Some(http::StatusCode::OK);
        route.ended(outcome, status, Duration::from_millis(2));
    };
    ended(&name, Door::Proxy, RequestOutcome::Forwarded);
    for door in [Door::Ask, Door::Check, Door::RateLimitService] {
        ended(&name, door, RequestOutcome::Admitted);
    }
    // The names before and behind that of the route are other routes.
    for other in ["firs", "first-2"] {
        ended(&Arc::from(other), Door::Ask, RequestOutcome::Limited);
    }
    let totals = metrics.requests.totals_of(&name);
    let of = |outcome| totals.outcomes[outcome as usize];
    let outcomes = [
        RequestOutcome::Forwarded,
        RequestOutcome::Admitted,
        RequestOutcome::Limited,
    ];
    assert_eq!(outcomes.map(of), [1, 3, 0]);
    assert_eq!(totals.took, 8_000);
    let totals = metrics.requests.totals();
    assert_eq!(totals.outcomes.iter().sum::<u64>(), 6);
    assert_eq!(totals.took, 12_000);
}
