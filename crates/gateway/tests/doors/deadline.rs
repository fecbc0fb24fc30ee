//! The deadline of Envoy: an answer comes before it, also while Redis hangs.

use std::time::Duration;

use tidegate_testkit::RedisServer;
use tokio::time::timeout;

use crate::kit::*;

const DOMAINS: &str = "rate_limit_service: { domains: { edge: [
  { match: { user: \"*\", failure: local }, limits: [local] },
  { match: { user: \"*\", failure: open }, limits: [open] },
  { match: { user: \"*\", failure: closed }, limits: [closed] },
] } }";

const YAML: &str = "
limits:
  local: { fixed_window: { limit: 3, window: 31d }, per: [\"descriptor:user\"], on_failure: local }
  open: { fixed_window: { limit: 3, window: 31d }, per: [\"descriptor:user\"], on_failure: open }
  closed: { fixed_window: { limit: 3, window: 31d }, per: [\"descriptor:user\"], on_failure: closed }
routes: [{ path: /**, upstream: UPSTREAM, limits: [] }]
";

#[tokio::test]
async fn a_frozen_redis_is_waited_for_no_longer_than_the_caller_waits() {
    let redis = RedisServer::start().await;
    let url = redis.url();
    // Without the caller's deadline, a decision would take longer than this test waits.
    let store = format!("store: {{ redis: {{ url: \"{url}\", timeout: 60s, gateways: 1 }} }}\n");
    let doors = Doors::start(DOMAINS, &format!("{store}{YAML}")).await;
    let call = |user: &str, failure: &str| {
        let descriptor = descriptor(&[("user", user), ("failure", failure)]);
        rate_limit_call("edge", vec![descriptor])
    };
    let warm = doors
        .raw_rate_limit(call("a", "closed"), &[("grpc-timeout", "20S")])
        .await;
    assert_eq!(warm.trailers.unwrap()["grpc-status"], "0");
    redis.pause().await;
    for (failure, expected) in [
        ("local", [false, false, false, true]),
        ("open", [false, false, false, false]),
        ("closed", [true, true, true, true]),
    ] {
        for over in expected {
            let answer = doors.raw_rate_limit(call("b", failure), &[("grpc-timeout", "20m")]);
            let answer = timeout(Duration::from_secs(10), answer).await.unwrap();
            assert_eq!(answer.trailers.unwrap()["grpc-status"], "0");
            let reply = prost::Message::decode(&answer.body[5..]).unwrap();
            assert_eq!(is_over(&reply), over, "{failure}");
        }
    }
    redis.resume();
    doors.stop().await;
}
