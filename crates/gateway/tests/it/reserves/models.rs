//! Prices and budgets by the model that a request names.

use super::*;

const PRICED: &str = "fixed_window: { limit: 5000000, window: 31d }, \
    cost: { response_json: { usage.in: 1, usage.out: 4 }, \
            per_model: { json: model, prices: { \"large-*\": 15, \"large-mini\": 0.5, small: 1 } }, \
            reserve: { request_json: max_tokens, default: 2000, max: 100000 } }";

/// An upstream that answers with what the request's header `x-answer` says.
fn told() -> Upstream {
    Upstream::start(|request| async move {
        let answer = request.headers().get("x-answer").cloned();
        let read = request.into_body().collect().await;
        let answer = answer.map_or_else(Bytes::new, |it| Bytes::copy_from_slice(it.as_bytes()));
        let mut response = Response::new(full(answer));
        let content_type = JSON.parse().unwrap();
        response.headers_mut().insert("content-type", content_type);
        if read.is_err() {
            *response.status_mut() = StatusCode::BAD_REQUEST;
        }
        response
    })
}

fn asking(body: &str, answer: &str) -> Request<BoxBody> {
    let mut request = post(JSON, body.to_owned());
    let answer = answer.parse().unwrap();
    request.headers_mut().insert("x-answer", answer);
    request
}

#[tokio::test]
async fn the_price_of_the_model_multiplies_the_reserve() {
    let far = format!(
        r#"{{"max_tokens":10,"x":"{}","model":"small"}}"#,
        " ".repeat(70_000)
    );
    let cases = [
        (r#"{"model":"small","max_tokens":10}"#, 10),
        (r#"{"max_tokens":10,"model":"small"}"#, 10),
        (r#"{"model":"large-2","max_tokens":10}"#, 150),
        (r#"{"model":"large-mini","max_tokens":11}"#, 6),
        (r#"{"model":"small"}"#, 2_000),
        (r#"{"model":"large-2"}"#, 30_000),
        // The price of a model that is not known is the highest one.
        (r#"{"model":"small-2","max_tokens":10}"#, 150),
        (r#"{"max_tokens":10}"#, 150),
        (r#"{"model":7,"max_tokens":10}"#, 150),
        (r#"{"model":"sm\u0061ll","max_tokens":10}"#, 150),
        (
            r#"{"model":"small","model":"large-2","max_tokens":10}"#,
            150,
        ),
        (r#"{"model":"large-2","max_tokens":10000}"#, 100_000),
        (&far, 100_000),
        ("", 30_000),
        ("no JSON", 100_000),
    ];
    on_both_stores(async |store| {
        let upstream = echo();
        let gateway = TestGateway::start(&one_limit(store, PRICED, &upstream)).await;
        let mut left = 5_000_000;
        for client in [Client::new(gateway.address), Client::h2(gateway.address)] {
            for (body, expected) in cases {
                let start = &body[..body.len().min(60)];
                let answer = client.request(post(JSON, body.to_owned())).await;
                assert_eq!(reserved(&mut left, &answer), expected, "{start}");
                assert_eq!(answer.body, body.as_bytes(), "{start}");
            }
        }
        gateway.stop().await;
    })
    .await;
}

#[tokio::test]
async fn the_price_of_the_model_in_the_answer_multiplies_the_cost() {
    let fixed = PRICED.replace(
        "{ request_json: max_tokens, default: 2000, max: 100000 }",
        "20",
    );
    let cases = [
        // The model in the answer counts before the model in the request.
        (
            r#"{"model":"small"}"#,
            r#"{"model":"small","usage":{"in":100,"out":25}}"#,
            200,
        ),
        (
            r#"{"model":"small"}"#,
            r#"{"model":"large-2","usage":{"in":100,"out":25}}"#,
            3_000,
        ),
        (
            r#"{"model":"large-2"}"#,
            r#"{"usage":{"in":1},"model":"large-mini"}"#,
            1,
        ),
        // The answer names no model, or one without a price.
        (r#"{"model":"large-2"}"#, r#"{"usage":{"in":1}}"#, 15),
        (
            r#"{"model":"small"}"#,
            r#"{"model":"small-2026","usage":{"in":7}}"#,
            105,
        ),
        (
            r#"{"model":"tiny"}"#,
            r#"{"model":"tiny","usage":{"in":7}}"#,
            105,
        ),
        ("", r#"{"usage":{"in":7}}"#, 105),
        // An answer without the numbers costs the reserve, which has the price of the request.
        (r#"{"model":"large-mini"}"#, "{}", 10),
        (r#"{"model":"large-2"}"#, "{}", 300),
    ];
    on_both_stores(async |store| {
        let upstream = told();
        let gateway = TestGateway::start(&one_limit(store, &fixed, &upstream)).await;
        let client = Client::new(gateway.address);
        let mut used = 0;
        for (body, answer, cost) in cases {
            client.request(asking(body, answer)).await;
            used += cost;
            let is_charged = async || crate::kit::left(gateway.admin).await == 5_000_000 - used;
            crate::kit::until(&format!("{body} with {answer} costs {cost}"), is_charged).await;
        }
        gateway.stop().await;
    })
    .await;
}

#[tokio::test]
async fn each_listed_model_has_a_budget_and_all_others_share_one() {
    let limit = "fixed_window: { limit: 100, window: 31d }, \
        per: [client, \"json:model\"], allow: [\"large-*\", small]";
    let cases = [
        (JSON, r#"{"model":"small"}"#, 99),
        (JSON, r#"{"model":"large-1"}"#, 99),
        (JSON, r#"{"model":"large-2"}"#, 98),
        (JSON, r#"{"model":"small"}"#, 98),
        (JSON, r#"{"model":"a"}"#, 99),
        (JSON, r#"{"model":"b"}"#, 98),
        (JSON, r#"{"model":""}"#, 97),
        (JSON, "{}", 96),
        (JSON, "", 95),
        ("text/plain", r#"{"model":"small"}"#, 94),
    ];
    on_both_stores(async |store| {
        let upstream = echo();
        let gateway = TestGateway::start(&one_limit(store, limit, &upstream)).await;
        let client = Client::new(gateway.address);
        for (content_type, body, left) in cases {
            let answer = client.request(post(content_type, body)).await;
            assert_eq!(answer.body, body.as_bytes());
            let remaining = number(&answer, "x-ratelimit-remaining");
            assert_eq!(remaining, Some(left), "{content_type} {body}");
        }
        gateway.stop().await;
    })
    .await;
}
