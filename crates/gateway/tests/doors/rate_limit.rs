//! Envoy's `RateLimitService`.

use std::time::Duration;

use envoy_types::pb::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::RateLimitOverride;
use envoy_types::pb::envoy::service::ratelimit::v3::RateLimitResponse;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::rate_limit::Unit;
use envoy_types::pb::google::protobuf::UInt64Value;
use envoy_types::pb::google::protobuf::value::Kind;
use http::Request;
use prost::Message as _;
use tidegate_testkit::body;

use crate::kit::*;

const DOMAINS: &str = "rate_limit_service: { domains: { edge: [
  { match: { user: \"*\" }, limits: [per-user] },
  { match: { tenant: \"*\" }, limits: [per-tenant] },
  { match: { remote_address: \"*\" }, limits: [per-address] },
  { match: { call: running, user: \"*\" }, limits: [running] },
  { match: { call: tokens, user: \"*\" }, limits: [tokens] },
] } }";

const YAML: &str = "
trusted_proxies: [127.0.0.1]
deny: [203.0.113.0/24]
limits:
  per-user: { fixed_window: { limit: 3, window: 1d }, per: [\"descriptor:user\"] }
  per-tenant: { fixed_window: { limit: 5, window: 1d }, per: [\"descriptor:tenant\"] }
  per-address: { fixed_window: { limit: 2, window: 31d }, per: [ip] }
  running: { concurrency: { limit: 2 }, per: [\"descriptor:user\"] }
  tokens: { fixed_window: { limit: 100, window: 1d }, per: [\"descriptor:user\"], cost: { response_header: X-Cost, reserve: 40 } }
routes: [{ path: /**, upstream: UPSTREAM, limits: [per-address] }]
";

async fn start(store: &str) -> Doors {
    Doors::start(DOMAINS, &format!("{store}{YAML}")).await
}

/// The remaining units of each status.
fn left(reply: &RateLimitResponse) -> Vec<u32> {
    let statuses = reply.statuses.iter();
    statuses.map(|status| status.limit_remaining).collect()
}

#[tokio::test]
async fn all_descriptors_of_a_call_are_charged_or_none() {
    on_both_stores(async |store| {
        let doors = start(store).await;
        let call = |user, tenant| {
            let descriptors = [
                descriptor(&[("user", user)]),
                descriptor(&[("tenant", tenant)]),
            ];
            rate_limit_call("edge", descriptors.into())
        };
        for nth in 1..=3 {
            let reply = doors.rate_limit(call("a", "t")).await;
            assert!(!is_over(&reply));
            assert_eq!(left(&reply), [3 - nth, 5 - nth]);
        }
        for _ in 0..3 {
            let reply = doors.rate_limit(call("a", "t")).await;
            assert!(is_over(&reply));
            assert_eq!(left(&reply)[0], 0);
            let codes: Vec<i32> = reply.statuses.iter().map(|status| status.code).collect();
            assert_eq!(codes, [2, 1]);
        }
        // The other limit was not charged.
        assert_eq!(left(&doors.rate_limit(call("b", "t")).await), [2, 1]);
        doors.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_reply_names_the_limit_its_numbers_and_headers() {
    on_both_stores(async |store| {
        let doors = start(store).await;
        let call = rate_limit_call("edge", vec![descriptor(&[("user", "a")])]);
        let mut reply = doors.rate_limit(call.clone()).await;
        let limit = reply.statuses[0].current_limit.clone().unwrap();
        assert_eq!((&*limit.name, limit.requests_per_unit), ("per-user", 3));
        assert_eq!(limit.unit, i32::from(Unit::Day));
        let header = |reply: &RateLimitResponse, name: &str| {
            let headers = &reply.response_headers_to_add;
            let header = headers.iter().find(|header| header.key == name);
            header.map(|header| header.value.clone())
        };
        assert_eq!(header(&reply, "x-ratelimit-limit").as_deref(), Some("3"));
        assert_eq!(
            header(&reply, "x-ratelimit-remaining").as_deref(),
            Some("2")
        );
        assert_eq!(header(&reply, "retry-after"), None);
        for _ in 0..3 {
            reply = doors.rate_limit(call.clone()).await;
        }
        assert!(is_over(&reply));
        let wait: i64 = header(&reply, "retry-after").unwrap().parse().unwrap();
        assert!((1..=86_400).contains(&wait));
        let body: serde_json::Value = serde_json::from_slice(&reply.raw_body).unwrap();
        assert_eq!(body["error"], "rate_limit_exceeded");
        assert_eq!(
            header(&reply, "content-type").as_deref(),
            Some("application/problem+json")
        );
        let until_reset = reply.statuses[0].duration_until_reset.unwrap();
        assert!((until_reset.seconds - wait).abs() <= 1);
        let metadata = reply.dynamic_metadata.unwrap().fields;
        let text = |name: &str| match metadata[name].kind.clone().unwrap() {
            Kind::StringValue(text) => text,
            Kind::NumberValue(number) => number.to_string(),
            other => panic!("{other:?}"),
        };
        assert_eq!(text("limit"), "per-user");
        assert_eq!(text("remaining"), "0");
        assert_eq!(text("retry_after"), wait.to_string());
        assert_eq!(text("request_id").len(), 32);
        doors.stop().await;
    })
    .await;
}

#[tokio::test]
async fn hits_of_0_ask_and_others_are_the_cost() {
    on_both_stores(async |store| {
        let doors = start(store).await;
        let call = |hits: Option<u64>, of_call: u32| {
            let mut call = rate_limit_call("edge", vec![descriptor(&[("user", "a")])]);
            call.descriptors[0].hits_addend = hits.map(|value| UInt64Value { value });
            call.hits_addend = of_call;
            call
        };
        for _ in 0..5 {
            let reply = doors.rate_limit(call(Some(0), 0)).await;
            assert_eq!((is_over(&reply), left(&reply)), (false, vec![3]));
        }
        assert_eq!(left(&doors.rate_limit(call(None, 2)).await), [1]);
        let reply = doors.rate_limit(call(Some(2), 0)).await;
        assert_eq!((is_over(&reply), left(&reply)), (true, vec![1]));
        // More than the limit can ever admit.
        for huge in [4, u64::from(u32::MAX), u64::MAX] {
            assert!(
                is_over(&doors.rate_limit(call(Some(huge), 0)).await),
                "{huge}"
            );
        }
        assert!(is_over(&doors.rate_limit(call(None, u32::MAX)).await));
        assert_eq!(left(&doors.rate_limit(call(Some(1), 0)).await), [0]);
        assert!(is_over(&doors.rate_limit(call(Some(0), 0)).await));
        doors.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_descriptor_that_only_asks_keeps_others_from_being_charged() {
    on_both_stores(async |store| {
        let doors = start(store).await;
        let mut both = rate_limit_call(
            "edge",
            vec![descriptor(&[("user", "a")]), descriptor(&[("tenant", "t")])],
        );
        both.descriptors[0].hits_addend = Some(UInt64Value { value: 0 });
        assert_eq!(left(&doors.rate_limit(both.clone()).await), [3, 4]);
        let mut spend = rate_limit_call("edge", vec![descriptor(&[("user", "a")])]);
        spend.hits_addend = 3;
        doors.rate_limit(spend).await;
        for _ in 0..3 {
            let reply = doors.rate_limit(both.clone()).await;
            assert!(is_over(&reply));
            assert_eq!(left(&reply), [0, 4]);
        }
        doors.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_limit_of_the_caller_only_lowers() {
    on_both_stores(async |store| {
        let doors = start(store).await;
        let call = |units: u32, unit: Unit| {
            let mut call = rate_limit_call("edge", vec![descriptor(&[("user", "a")])]);
            call.descriptors[0].limit = Some(RateLimitOverride {
                requests_per_unit: units,
                unit: unit.into(),
            });
            call
        };
        let first = doors.rate_limit(call(1, Unit::Day)).await;
        assert!(!is_over(&first));
        let limit = first.statuses[0].current_limit.clone().unwrap();
        assert_eq!(limit.requests_per_unit, 1);
        assert!(is_over(&doors.rate_limit(call(1, Unit::Day)).await));
        // A larger number, and one of a shorter time, change nothing.
        let second = doors.rate_limit(call(1_000, Unit::Day)).await;
        assert_eq!((is_over(&second), left(&second)), (false, vec![1]));
        let third = doors.rate_limit(call(1, Unit::Second)).await;
        assert_eq!((is_over(&third), left(&third)), (false, vec![0]));
        assert!(is_over(&doors.rate_limit(call(1_000, Unit::Day)).await));
        doors.stop().await;
    })
    .await;
}

#[tokio::test]
async fn refunds_give_back_at_most_what_a_call_holds() {
    on_both_stores(async |store| {
        let doors = start(store).await;
        let call = |kind: &str, hits: u64, is_refund: bool| {
            let mut call =
                rate_limit_call("edge", vec![descriptor(&[("call", kind), ("user", "a")])]);
            call.descriptors[0].hits_addend = Some(UInt64Value { value: hits });
            call.descriptors[0].is_negative_hits = is_refund;
            call
        };
        let reserve = |kind: &str| call(kind, 1, false);
        for _ in 0..2 {
            assert!(!is_over(&doors.rate_limit(reserve("running")).await));
        }
        assert!(is_over(&doors.rate_limit(reserve("running")).await));
        doors.rate_limit(call("running", 1, true)).await;
        until("a place is free", async || {
            !is_over(&doors.rate_limit(reserve("running")).await)
        })
        .await;
        // Tokens: 60 are reserved, 45 come back, and a second refund finds nothing.
        assert_eq!(
            left(&doors.rate_limit(call("tokens", 60, false)).await),
            [40]
        );
        doors.rate_limit(call("tokens", 45, true)).await;
        let tokens_left = async || left(&doors.rate_limit(call("tokens", 0, false)).await)[0];
        until("85 are left", async || tokens_left().await == 85).await;
        for _ in 0..3 {
            doors.rate_limit(call("tokens", 1_000, true)).await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(tokens_left().await, 85);
        doors.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_call_may_give_back_and_charge_at_once() {
    on_both_stores(async |store| {
        let doors = start(store).await;
        let tokens = |hits: u64, is_refund: bool| {
            let mut tokens = descriptor(&[("call", "tokens"), ("user", "a")]);
            tokens.hits_addend = Some(UInt64Value { value: hits });
            tokens.is_negative_hits = is_refund;
            tokens
        };
        doors
            .rate_limit(rate_limit_call("edge", vec![tokens(60, false)]))
            .await;
        let both = vec![tokens(50, true), descriptor(&[("tenant", "t")])];
        let reply = doors.rate_limit(rate_limit_call("edge", both)).await;
        assert_eq!(left(&reply), [0, 4]);
        until("90 are left", async || {
            let look = rate_limit_call("edge", vec![tokens(0, false)]);
            left(&doors.rate_limit(look).await) == [90]
        })
        .await;
        doors.stop().await;
    })
    .await;
}

/// A descriptor that only asks holds nothing, so the refund does not have it.
#[tokio::test]
async fn a_refund_finds_a_call_that_also_asks() {
    on_both_stores(async |store| {
        let doors = start(store).await;
        let with_hits = |kind: &str, hits: u64| {
            let mut it = descriptor(&[("call", kind), ("user", "a")]);
            it.hits_addend = Some(UInt64Value { value: hits });
            it
        };
        let both = vec![with_hits("running", 0), with_hits("tokens", 60)];
        doors.rate_limit(rate_limit_call("edge", both)).await;
        let held = "tidegate_held_decisions{door=\"rate_limit_service\"}";
        assert_eq!(sample(doors.gateway.admin, held).await, 1);
        let mut refund = with_hits("tokens", 45);
        refund.is_negative_hits = true;
        doors
            .rate_limit(rate_limit_call("edge", vec![refund]))
            .await;
        until("85 are left", async || {
            let look = rate_limit_call("edge", vec![with_hits("tokens", 0)]);
            left(&doors.rate_limit(look).await) == [85]
        })
        .await;
        assert_eq!(sample(doors.gateway.admin, held).await, 0);
        doors.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_limit_of_0_of_the_caller_refuses() {
    let doors = start("store: memory\n").await;
    let mut call = rate_limit_call("edge", vec![descriptor(&[("user", "a")])]);
    call.descriptors[0].limit = Some(RateLimitOverride {
        requests_per_unit: 0,
        unit: Unit::Day.into(),
    });
    assert!(is_over(&doors.rate_limit(call.clone()).await));
    call.descriptors[0].limit = None;
    assert_eq!(left(&doors.rate_limit(call).await), [2]);
    doors.stop().await;
}

#[tokio::test]
async fn unknown_domains_and_descriptors_pass() {
    let doors = start("store: memory\n").await;
    for (domain, entries) in [
        ("nowhere", &[("user", "a")][..]),
        ("edge", &[("colour", "red")]),
        ("edge", &[("user", "a"), ("more", "b")]),
        ("edge", &[]),
    ] {
        let reply = doors
            .rate_limit(rate_limit_call(domain, vec![descriptor(entries)]))
            .await;
        assert!(!is_over(&reply), "{domain} {entries:?}");
        assert_eq!(reply.statuses.len(), 1);
        assert_eq!(reply.statuses[0].current_limit, None);
    }
    let reply = doors.rate_limit(rate_limit_call("edge", Vec::new())).await;
    assert!(!is_over(&reply));
    doors.stop().await;
}

#[tokio::test]
async fn an_address_in_a_descriptor_is_the_clients() {
    on_both_stores(async |store| {
        let doors = start(store).await;
        let call =
            |address| rate_limit_call("edge", vec![descriptor(&[("remote_address", address)])]);
        let by_proxy = async |address| {
            let headers = [("x-forwarded-for", address)];
            send(&doors.client, http::Method::GET, "/", &headers)
                .await
                .status
        };
        assert!(!is_over(&doors.rate_limit(call("192.0.2.1")).await));
        assert_eq!(by_proxy("192.0.2.1").await, 200);
        assert!(is_over(&doors.rate_limit(call("192.0.2.1")).await));
        assert_eq!(by_proxy("192.0.2.1").await, 429);
        assert!(
            is_over(&doors.rate_limit(call("203.0.113.7")).await),
            "denied"
        );
        // The address may be in any descriptor.
        let mut second = call("203.0.113.7");
        second.descriptors.insert(0, descriptor(&[("user", "z")]));
        assert!(is_over(&doors.rate_limit(second).await), "denied");
        doors.stop().await;
    })
    .await;
}

#[tokio::test]
async fn malformed_and_huge_calls_get_a_status() {
    let doors = start("store: memory\n").await;
    let status = async |bytes: bytes::Bytes| {
        let request = Request::post(SHOULD_RATE_LIMIT).header("content-type", "application/grpc");
        let request = request.header("te", "trailers").body(body::full(bytes));
        let answer = doors.envoy.request(request.unwrap()).await;
        let trailers = answer.trailers.as_ref();
        let trailer = trailers.and_then(|it| it.get("grpc-status")).cloned();
        let header = answer.headers.get("grpc-status").cloned();
        trailer.or(header).unwrap().to_str().unwrap().to_owned()
    };
    let call = |descriptors: usize, entries: usize| {
        let pairs = vec![("user", "a"); entries];
        let call = rate_limit_call("edge", vec![descriptor(&pairs); descriptors]);
        framed(&call.encode_to_vec())
    };
    assert_eq!(status(call(16, 1)).await, "0");
    let many: Vec<_> = (0..17).map(|nth| format!("u{nth}")).collect();
    let many = many.iter().map(|user| descriptor(&[("user", user)]));
    let many = rate_limit_call("edge", many.collect());
    assert_eq!(status(framed(&many.encode_to_vec())).await, "3");
    assert_eq!(status(call(101, 1)).await, "3");
    assert_eq!(status(call(1, 33)).await, "3");
    assert_ne!(status(call(1_000, 20)).await, "0");
    assert_ne!(status(framed(&[0xff; 64])).await, "0");
    assert_ne!(status(bytes::Bytes::new()).await, "0");
    assert_ne!(
        status(bytes::Bytes::from_static(&[0, 0xff, 0xff, 0xff, 0xff])).await,
        "0"
    );
    // The connection is still good.
    assert_eq!(status(call(1, 1)).await, "0");
    doors.stop().await;
}

#[tokio::test]
async fn the_health_service_answers() {
    let doors = start("store: memory\n").await;
    let request = Request::post("/grpc.health.v1.Health/Check")
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(body::full(framed(&[])));
    let answer = doors.envoy.request(request.unwrap()).await;
    assert_eq!(answer.trailers.unwrap()["grpc-status"], "0");
    // Field 1 is 1: serving.
    assert_eq!(answer.body[..], framed(&[0x08, 0x01])[..]);
    doors.stop().await;
}
