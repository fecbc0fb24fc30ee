//! A gateway with a listener for decisions, and the calls of programs and proxies.

use bytes::{BufMut as _, BytesMut};
use envoy_types::pb::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use envoy_types::pb::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::Entry;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::Code;
use envoy_types::pb::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use http::{Method, Request};
use prost::Message as _;
use serde_json::{Value, json};
use tidegate_testkit::{Answer, Client, RedisServer, Upstream, body};

use crate::support::TestGateway;
pub(crate) use crate::support::asking::{
    LONG, json_of, sample, sample_if_any, send, send_body, until,
};

/// The path of Envoy's calls.
pub(crate) const SHOULD_RATE_LIMIT: &str =
    "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// Runs a case on the memory store and on a Redis of its own; the case gets the YAML of the store.
pub(crate) async fn on_both_stores(case: impl AsyncFn(&str)) {
    eprintln!("on the memory store:");
    case("store: memory\n").await;
    eprintln!("on Redis:");
    let redis = RedisServer::start().await;
    case(&store(&redis, "exact")).await;
}

/// A store in Redis, in this mode. However busy this machine is, Redis decides, or a 503 says that it did not.
pub(crate) fn store(redis: &RedisServer, mode: &str) -> String {
    let url = redis.url();
    format!(
        "store: {{ redis: {{ url: \"{url}\", timeout: 5s, on_failure: closed, mode: {mode} }} }}\n"
    )
}

/// A gateway with a listener for decisions.
pub(crate) struct Doors {
    pub(crate) gateway: TestGateway,
    /// A client of the routes.
    pub(crate) client: Client,
    /// A program that asks.
    pub(crate) program: Client,
    /// Envoy.
    pub(crate) envoy: Client,
}

impl Doors {
    /// Starts a gateway. In `yaml`, UPSTREAM stands for the URL of a server that answers everything. `decisions` has keys of that section
    /// beside `listen`.
    pub(crate) async fn start(decisions: &str, yaml: &str) -> Self {
        let upstream = Upstream::ok();
        let yaml = yaml.replace("UPSTREAM", &upstream.url());
        let yaml = format!("decisions: {{ listen: 127.0.0.1:0, {decisions} }}\n{yaml}");
        let gateway = TestGateway::start(&yaml).await;
        let door = gateway.decisions.unwrap();
        // The server of an upstream that answers everything lives as long as the test.
        std::mem::forget(upstream);
        Self {
            client: Client::new(gateway.address),
            program: Client::new(door)
                .knows("x-refused-status")
                .knows("www-authenticate"),
            envoy: Client::h2(door)
                .knows("grpc-status")
                .knows("grpc-message")
                .knows("www-authenticate"),
            gateway,
        }
    }

    pub(crate) async fn stop(self) {
        self.gateway.stop().await;
    }

    /// Calls a JSON path, and returns the status and the JSON of the answer.
    pub(crate) async fn call(&self, path: &str, call: &Value) -> (u16, Value) {
        let headers = [("content-type", "application/json")];
        let text = body::full(call.to_string());
        let answer = send_body(&self.program, Method::POST, path, &headers, text).await;
        (answer.status.as_u16(), json_of(&answer))
    }

    /// Asks one check, and returns its result.
    pub(crate) async fn check(&self, check: Value) -> Value {
        let (status, answer) = self.call("/v1/check", &json!({ "checks": [check] })).await;
        assert_eq!(status, 200, "{answer}");
        answer["results"][0].clone()
    }

    /// Asks a wrong check. Returns the `error` and the detail of the refusal.
    pub(crate) async fn wrong(&self, check: Value) -> (String, String) {
        let (status, answer) = self.call("/v1/check", &json!({ "checks": [check] })).await;
        assert_eq!(status, 400, "{answer}");
        let text = |name: &str| answer[name].as_str().unwrap().to_owned();
        (text("error"), text("detail"))
    }

    /// Looks, without a charge.
    pub(crate) async fn look(&self, query: &str) -> Value {
        let answer = self.program.get(&format!("/v1/check?{query}")).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        json_of(&answer)
    }

    /// Settles a receipt.
    pub(crate) async fn settle(&self, receipt: &str, cost: Option<u64>) -> Value {
        let mut settlement = json!({ "receipt": receipt });
        if let Some(cost) = cost {
            settlement["cost"] = cost.into();
        }
        let call = json!({ "settlements": [settlement] });
        let (status, answer) = self.call("/v1/settle", &call).await;
        assert_eq!(status, 200, "{answer}");
        answer["results"][0].clone()
    }

    /// Asks by these headers.
    pub(crate) async fn ask(&self, headers: &[(&str, &str)]) -> Answer {
        send(&self.program, Method::GET, "/v1/ask", headers).await
    }

    /// Calls Envoy's service.
    pub(crate) async fn rate_limit(&self, call: RateLimitRequest) -> RateLimitResponse {
        let answer = self.raw_rate_limit(call, &[]).await;
        let trailers = answer.trailers.as_ref();
        let status = trailers.and_then(|trailers| trailers.get("grpc-status"));
        assert_eq!(status.unwrap(), "0");
        RateLimitResponse::decode(&answer.body[5..]).unwrap()
    }

    /// Calls Envoy's service, and returns the answer as it came.
    pub(crate) async fn raw_rate_limit(
        &self,
        call: RateLimitRequest,
        headers: &[(&str, &str)],
    ) -> Answer {
        let mut request = Request::post(SHOULD_RATE_LIMIT)
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(body::full(framed(&call.encode_to_vec())));
        self.envoy.request(request.unwrap()).await
    }
}

/// A message as gRPC frames it: not compressed, with its length.
pub(crate) fn framed(message: &[u8]) -> bytes::Bytes {
    let mut frame = BytesMut::new();
    frame.put_u8(0);
    frame.put_u32(message.len().try_into().unwrap());
    frame.put_slice(message);
    frame.freeze()
}

/// A call with these descriptors.
pub(crate) fn rate_limit_call(
    domain: &str,
    descriptors: Vec<RateLimitDescriptor>,
) -> RateLimitRequest {
    RateLimitRequest {
        domain: domain.to_owned(),
        descriptors,
        hits_addend: 0,
    }
}

/// A descriptor with these entries.
pub(crate) fn descriptor(entries: &[(&str, &str)]) -> RateLimitDescriptor {
    let entries = entries.iter().map(|(key, value)| Entry {
        key: (*key).to_owned(),
        value: (*value).to_owned(),
    });
    RateLimitDescriptor {
        entries: entries.collect(),
        ..RateLimitDescriptor::default()
    }
}

/// Whether a reply refuses.
pub(crate) fn is_over(reply: &RateLimitResponse) -> bool {
    reply.overall_code == i32::from(Code::OverLimit)
}
