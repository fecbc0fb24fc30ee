//! Why a request was refused, by the ID that its answer carried.

use http::Method;
use serde_json::Value;
use tidegate_status::document::Refused;
use tidegate_testkit::Client;

use crate::callers::listed;
use crate::kit::{Bench, page, send};
use crate::support::TestGateway;
use crate::support::commands::{ended_beside, tidegate};

fn yaml() -> String {
    format!(
        "
deny: [127.0.0.9]
clients:
  - api_key: {{ keys: [{}], unknown: reject }}
  - ip: {{}}
limits:
  few: {{ fixed_window: {{ limit: 1, window: 31d }} }}
  fewer: {{ fixed_window: {{ limit: 1, window: 1h }} }}
routes:
  - {{ name: api, path: /api, upstream: UPSTREAM, limits: [few, fewer] }}
",
        listed("alpha")
    )
}

/// Sends a request; returns the status and the ID of the answer.
async fn ask(client: &Client, path: &str, headers: &[(&str, &str)]) -> (u16, String) {
    let answer = send(client, Method::GET, path, headers).await;
    let id = answer.header("x-request-id").unwrap().to_owned();
    (answer.status.as_u16(), id)
}

async fn why(bench: &Bench, id: &str) -> Refused {
    let (status, text) = page(bench.gateway.admin, &format!("/why/{id}")).await;
    assert_eq!(status, 200, "{text}");
    serde_json::from_str(&text).unwrap()
}

#[tokio::test]
async fn the_id_of_a_refusal_finds_it() {
    let bench = Bench::start(&yaml()).await;
    let client = Client::new(bench.gateway.address).knows("www-authenticate");
    let key = [("x-api-key", "alpha-key")];
    let (status, admitted) = ask(&client, "/api", &key).await;
    assert_eq!(status, 200);
    let (status, limited) = ask(&client, "/api", &key).await;
    assert_eq!(status, 429);
    let (status, unknown) = ask(&client, "/api", &[("x-api-key", "another-key")]).await;
    assert_eq!(status, 401);
    let (status, nowhere) = ask(&client, "/nowhere", &[]).await;
    assert_eq!(status, 404);
    let stranger = Client::new(bench.gateway.address).from_ip([127, 0, 0, 9]);
    let (status, denied) = ask(&stranger, "/api", &[]).await;
    assert_eq!(status, 403);

    let found = why(&bench, &limited).await;
    let client = found.client.as_deref();
    assert_eq!((&*found.id, found.status), (&*limited, Some(429)));
    assert_eq!((client, &*found.route), (Some("api_key:alpha"), "api"));
    // The limit that keeps the client waiting for longest.
    assert_eq!(
        (&*found.outcome, found.limit.as_deref()),
        ("limited", Some("few"))
    );
    let days = found.retry_after.unwrap() / 86_400;
    assert!(days <= 31, "{days}");
    let found = why(&bench, &unknown).await;
    let error = found.error.as_deref();
    assert_eq!(
        (&*found.outcome, error),
        ("rejected", Some("invalid_api_key"))
    );
    let found = why(&bench, &nowhere).await;
    assert_eq!(
        (&*found.route, found.status, found.limit),
        ("none", Some(404), None)
    );
    let found = why(&bench, &denied).await;
    let by = found.denied_by.as_deref();
    assert_eq!((&*found.outcome, by), ("denied", Some("127.0.0.9")));

    // What was served is no refusal, and a key that was sent is nowhere.
    for id in [&*admitted, "0", "%2F"] {
        let (status, text) = page(bench.gateway.admin, &format!("/why/{id}")).await;
        assert_eq!(status, 404, "{text}");
        let problem: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(problem["error"], "unknown_request_id", "{text}");
    }
    let (_, text) = page(bench.gateway.admin, &format!("/why/{unknown}")).await;
    assert!(!text.contains("another-key"), "{text}");
    bench.stop().await;
}

#[tokio::test]
async fn the_command_prints_the_refusal() {
    let bench = Bench::start(&yaml()).await;
    let client = Client::new(bench.gateway.address);
    let key = [("x-api-key", "alpha-key")];
    ask(&client, "/api", &key).await;
    let (_, id) = ask(&client, "/api", &key).await;
    let admin = format!("http://{}", bench.gateway.admin);
    let run = async |id: &str| {
        let command = tidegate(&["why", id, "--admin", &admin]);
        let (status, out, err) = ended_beside(command).await;
        (status, out + &err)
    };
    let (status, text) = run(&id).await;
    assert_eq!(status, Some(0), "{text}");
    for line in [
        "status:      429\n",
        "client:      api_key:alpha\n",
        "limit:       few\n",
    ] {
        assert!(text.contains(line), "{text}");
    }
    let (status, text) = run("unknown").await;
    assert_eq!(status, Some(1), "{text}");
    assert!(
        text.contains("keeps no refusal with this request ID")
            && text.contains("An answer of 502 to 504 from a failed upstream is no refusal"),
        "{text}"
    );
    bench.stop().await;
}

/// Who may read the status page may ask why, and nobody else.
#[tokio::test]
async fn it_needs_the_token_of_the_port() {
    let admin = "{ address: 127.0.0.1:0, token: a-token-of-the-test }";
    let gateway =
        TestGateway::start_with_admin(admin, &yaml().replace("UPSTREAM", "http://127.0.0.1:9"))
            .await;
    let client = Client::new(gateway.admin).knows("www-authenticate");
    let token = [("authorization", "Bearer a-token-of-the-test")];
    for (headers, expected) in [(&[][..], 401), (&token, 404)] {
        let answer = send(&client, Method::GET, "/why/1", headers).await;
        assert_eq!(answer.status, expected, "{}", answer.text());
    }
    gateway.stop().await;
}
