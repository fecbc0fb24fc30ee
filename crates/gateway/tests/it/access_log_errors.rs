//! Why a request did not go on, as the access log tells it.

use serde_json::{Value, json};
use tidegate_testkit::{Client, Port, Upstream};

use crate::access_log_file::{lines, log, objects};
use crate::kit::send;
use crate::support::TestGateway;

/// Whoever reads the log learns as much as the client does of why a request did not go on.
#[tokio::test]
async fn the_error_of_an_answer_is_in_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("access.log");
    let (upstream, gone) = (Upstream::ok(), Port::reserve());
    let gateway = TestGateway::start(&format!(
        "
log: {{ {} }}
trusted_proxies: [127.0.0.1]
clients: [{{ api_key: {{ unknown: reject, keys: [{{ name: a, hash: \"sha256:{hash}\" }}] }} }}, {{ ip: {{}} }}]
limits:
  costly: {{ fixed_window: {{ limit: 2, window: 31d }}, cost: {{ header: x-cost, max: 9 }} }}
routes:
  - {{ path: /api, upstream: \"{upstream}\", limits: [costly], methods: [GET] }}
  - {{ path: /teapot, upstream: \"{upstream}\" }}
  - {{ path: /gone, upstream: \"http://{gone}\" }}
",
        log(&file, "format: json, fields: [status, outcome, error]"),
        upstream = upstream.url(),
        gone = gone.addr(),
        hash = "0".repeat(64),
    ))
    .await;
    let client = Client::new(gateway.address)
        .knows("www-authenticate")
        .knows("allow");
    let mut expected = Vec::new();
    for row in [
        "GET /api x-cost 2 200 -",
        "GET /api x-cost 2 429 -",
        "GET /api x-cost 3 400 cost_exceeds_limit",
        "GET /api x-api-key made-up 401 invalid_api_key",
        "POST /api x-cost 1 405 method_not_allowed",
        "GET /api/%2F x-cost 1 400 bad_path",
        "GET /unknown x-cost 1 404 no_route",
        "GET /gone x-cost 1 502 upstream_unreachable",
    ] {
        let words: Vec<_> = row.split(' ').collect();
        let [method, target, name, value, status, error] = words[..] else {
            panic!("{row}");
        };
        let status: u16 = status.parse().unwrap();
        let error = Some(error).filter(|error| *error != "-");
        let method = method.parse().unwrap();
        let answer = send(&client, method, target, &[(name, value)]).await;
        let told = serde_json::from_str::<Value>(answer.text()).unwrap_or_default();
        assert_eq!(answer.status, status, "{row}");
        if status != 429 {
            assert_eq!(told["error"], json!(error), "{row}");
        }
        expected.push((json!(status), json!(error)));
    }
    gateway.stop().await;
    let found = objects(&lines(&file));
    let found = found
        .iter()
        .map(|line| (line["status"].clone(), line["error"].clone()));
    assert_eq!(found.collect::<Vec<_>>(), expected);
}
