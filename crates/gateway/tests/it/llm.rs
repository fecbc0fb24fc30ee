//! examples/llm, as it is shipped: its API and its configuration.

use std::path::Path;
use std::process::Command;

use http::Request;
use tidegate_testkit::{Answer, Client, Process, body};

use crate::kit::{LONG, page_json, until};
use crate::support::TestGateway;

/// A program of the example, on a port of its own.
async fn program(folder: &Path, name: &str) -> (Process, String) {
    let mut command = Command::new("python3");
    command.arg("-u").arg(folder.join(name)).arg("0");
    let process = Process::spawn(command);
    let line = process.wait_for_line("listens on port", LONG).await;
    let (_, port) = line.rsplit_once(' ').unwrap();
    let address = format!("127.0.0.1:{port}");
    (process, address)
}

async fn ask(client: &Client, key: &str, request: &str) -> Answer {
    let request = Request::post("/v1/chat/completions")
        .header("x-api-key", key)
        .header("content-type", "application/json")
        .body(body::full(request.to_owned()));
    client.request(request.unwrap()).await
}

/// The tokens that a client has left.
async fn left(gateway: &TestGateway, client: &str) -> u64 {
    let report = page_json(gateway.admin, &format!("/clients/{client}")).await;
    let mut limits = report["limits"].as_array().unwrap().iter();
    let tokens = limits.find(|limit| limit["name"] == "tokens").unwrap();
    tokens["remaining"].as_u64().unwrap()
}

#[tokio::test]
async fn tokens_are_charged_as_the_answers_tell_them() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/llm");
    let (_api, address) = program(&folder, "api.py").await;
    let (receiver, events) = program(&folder, "receiver.py").await;
    let shipped = std::fs::read_to_string(folder.join("gateway.yaml")).unwrap();
    let own = |line: &&str| !line.starts_with("listen:") && !line.starts_with("admin:");
    let yaml: Vec<_> = shipped.lines().filter(own).collect();
    let yaml = yaml.join("\n");
    assert!(yaml.contains("${LLM_API:-127.0.0.1:9000}"));
    // What refills meanwhile is left out.
    let yaml = yaml
        .replace("${LLM_API:-127.0.0.1:9000}", &address)
        .replace("${LLM_EVENTS:-127.0.0.1:9100}", &events)
        .replace("600/h", "1000/31d")
        .replace("60000/h", "1000/31d");
    let gateway = TestGateway::start(&yaml).await;
    let client = Client::new(gateway.address)
        .knows("server")
        .knows("www-authenticate");
    let has_left = async |client: &str, expected: u64| {
        until(&format!("{client} has {expected} left"), async || {
            left(&gateway, client).await == expected
        })
        .await;
    };

    let prompt = r#""model":"small-1","messages":[{"role":"user","content":"what does it cost"}]"#;
    let answer = ask(
        &client,
        "free-key",
        &format!("{{{prompt},\"max_tokens\":16}}"),
    )
    .await;
    assert_eq!(answer.status, 200);
    has_left("api_key:free", 480).await;

    let stream = format!("{{{prompt},\"max_tokens\":26,\"stream\":true}}");
    let answer = ask(&client, "free-key", &stream).await;
    assert!(answer.text().ends_with("data: [DONE]\n\n"));
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    has_left("api_key:free", 450).await;

    // More than is left: the request asks for 500 at least, so it is refused before it costs anything.
    let long = format!("{{{prompt},\"max_tokens\":996}}");
    let refused = ask(&client, "free-key", &long).await;
    assert_eq!(refused.status, 429);
    assert!(refused.header("retry-after").is_some());
    let fits = format!("{{{prompt},\"max_tokens\":296}}");
    assert_eq!(ask(&client, "free-key", &fits).await.status, 200);
    has_left("api_key:free", 150).await;
    let limits = Request::get("/limits").header("x-api-key", "free-key");
    let limits = client.request(limits.body(body::empty()).unwrap()).await;
    let limits: serde_json::Value = serde_json::from_slice(&limits.body).unwrap();
    let mut all = limits["budgets"].as_array().unwrap().iter();
    let credits = all.find(|it| it["name"] == "credits").unwrap();
    // Three prompts of 4 words, and answers of 16, 26 and 296 words at four credits each.
    assert_eq!(credits["used"], 3 * 4 + 4 * (16 + 26 + 296));
    // A large model costs 15 times as much.
    let large = format!("{{{prompt},\"max_tokens\":100}}").replace("small-1", "large-1");
    assert_eq!(ask(&client, "free-key", &large).await.status, 200);
    let event = receiver.wait_for_line("api_key:free has used", LONG).await;
    assert!(
        event.ends_with("has used 7424 of 8000 credits: 80 %"),
        "{event}"
    );
    let limits = Request::get("/limits").header("x-api-key", "free-key");
    let limits = client.request(limits.body(body::empty()).unwrap()).await;
    let limits: serde_json::Value = serde_json::from_slice(&limits.body).unwrap();
    let mut all = limits["budgets"].as_array().unwrap().iter();
    let credits = all.find(|it| it["name"] == "credits").unwrap();
    assert_eq!(credits["used"], 1_364 + 15 * (4 + 400));

    assert_eq!(ask(&client, "gold-key", &long).await.status, 200);
    has_left("api_key:gold", 49_000).await;
    assert_eq!(ask(&client, "no-key", &long).await.status, 401);
    gateway.stop().await;
}
