use serde_json::{Value, json};
use tidegate_core::FixedWindow;
use tidegate_store::OnFailure;

use super::*;

fn refused(name: &str, retry_after: Micros) -> (Rule, Verdict) {
    let quota = FixedWindow::new(1, 1_000_000).unwrap();
    let rule = Rule::new(Limit::new(name, quota, OnFailure::Local), []);
    let verdict = Verdict {
        allowed: false,
        remaining: 0,
        reset: retry_after,
        retry_after,
        delay: 0,
        settling: false,
    };
    (rule, verdict)
}

fn by(refused: &[(Rule, Verdict)]) -> impl Iterator<Item = (&Rule, &Verdict)> + Clone {
    refused.iter().map(|(rule, verdict)| (rule, verdict))
}

fn members(response: &Response<Bytes>) -> Value {
    assert_eq!(response.headers()[CONTENT_TYPE], "application/problem+json");
    assert_eq!(response.headers()[CACHE_CONTROL], "no-store");
    serde_json::from_slice(response.body()).unwrap()
}

#[test]
fn a_429_names_all_that_refused_and_the_longest_wait() {
    let refused = [refused("burst", 10), refused("daily", 61_000_001)];
    let response = too_many(by(&refused), &Reject::default()).response;
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(response.headers()[RETRY_AFTER], "62");
    assert_eq!(
        members(&response),
        json!({
            "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
            "title": "Too Many Requests",
            "status": 429,
            "detail": "Too many requests; the next one is admitted in 62 s.",
            "error": "rate_limit_exceeded",
            "retry_after": 62,
            "violated-policies": ["burst", "daily"],
        })
    );
}

#[test]
fn a_wait_is_whole_seconds_rounded_up_and_never_none() {
    let seconds = |micros| {
        let refused = [refused("limit", micros)];
        let response = too_many(by(&refused), &Reject::default()).response;
        let header = response.headers()[RETRY_AFTER].to_str().unwrap().to_owned();
        assert_eq!(members(&response)["retry_after"].to_string(), header);
        header
    };
    assert_eq!(seconds(0), "1");
    assert_eq!(seconds(1), "1");
    assert_eq!(seconds(1_000_000), "1");
    assert_eq!(seconds(1_000_001), "2");
    assert_eq!(seconds(86_400_000_000), "86400");
}

#[test]
fn a_503_says_that_the_store_is_away() {
    let response = no_store().response;
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(response.headers()[RETRY_AFTER], "1");
    let body = members(&response);
    assert_eq!(body["error"], "limits_unavailable");
    assert!(body["detail"].as_str().unwrap().contains("store"), "{body}");
}

#[test]
fn any_other_problem_has_the_same_form() {
    let response = problem(StatusCode::NOT_FOUND, "no_route", "Nothing is served here.").response;
    assert_eq!(response.status(), StatusCode::NOT_FOUND);
    assert!(!response.headers().contains_key(RETRY_AFTER));
    assert_eq!(
        members(&response),
        json!({
            "type": "about:blank",
            "title": "Not Found",
            "status": 404,
            "detail": "Nothing is served here.",
            "error": "no_route",
        })
    );
}

/// Returns the challenge and the body of a 401.
fn unauthorized_by(credentials: Credentials) -> (String, Value) {
    let response = unauthorized(credentials).response;
    assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
    assert!(!response.headers().contains_key(RETRY_AFTER));
    assert_eq!(
        response.headers().get_all(WWW_AUTHENTICATE).iter().count(),
        1
    );
    let challenge = response.headers()[WWW_AUTHENTICATE].to_str().unwrap();
    (challenge.to_owned(), members(&response))
}

#[test]
fn a_401_for_an_api_key_says_what_was_wrong_and_what_is_wanted() {
    let (challenge, body) = unauthorized_by(Credentials::ApiKey);
    assert_eq!(challenge, "ApiKey realm=\"tidegate\"");
    assert_eq!(
        body,
        json!({
            "type": "about:blank",
            "title": "Unauthorized",
            "status": 401,
            "detail": "The API key is not known.",
            "error": "invalid_api_key",
        })
    );
}

#[test]
fn a_401_for_a_token_is_the_one_of_rfc_6750() {
    let (challenge, body) = unauthorized_by(Credentials::Token);
    assert_eq!(
        challenge,
        "Bearer realm=\"tidegate\", error=\"invalid_token\""
    );
    assert_eq!(
        body,
        json!({
            "type": "about:blank",
            "title": "Unauthorized",
            "status": 401,
            "detail": "The token is not valid.",
            "error": "invalid_token",
        })
    );
}

#[test]
fn a_cost_that_never_fits_is_a_400_without_a_time_to_come_back() {
    let quota = FixedWindow::new(20, 1_000_000).unwrap();
    let response = too_costly(&Limit::new("reports", quota, OnFailure::Local), 21).response;
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    assert!(!response.headers().contains_key(RETRY_AFTER));
    assert_eq!(
        members(&response),
        json!({
            "type": "about:blank",
            "title": "Bad Request",
            "status": 400,
            "detail": "This request costs 21, and the limit reports never admits more than 20.",
            "error": "cost_exceeds_limit",
            "violated-policies": ["reports"],
        })
    );
}

#[test]
fn a_refusal_may_look_otherwise_and_still_says_when_to_come_back() {
    let refused = [refused("burst", 4_000_000)];
    let own = Reject {
        status: StatusCode::SERVICE_UNAVAILABLE,
        body: Some((HeaderValue::from_static("text/html"), "<p>busy".into())),
    };
    let response = too_many(by(&refused), &own).response;
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(response.headers()[CONTENT_TYPE], "text/html");
    assert_eq!(response.headers()[CACHE_CONTROL], "no-store");
    assert_eq!(response.headers()[RETRY_AFTER], "4");
    assert_eq!(response.body(), "<p>busy");

    // If only the status is configured, the answer is still a problem, and its `status` and `title` agree with the status.
    for (status, title) in [(420, "Refused"), (503, "Service Unavailable")] {
        let own = Reject {
            status: StatusCode::from_u16(status).unwrap(),
            body: None,
        };
        let response = too_many(by(&refused), &own).response;
        assert_eq!(response.status(), status);
        let members = members(&response);
        assert_eq!(
            (&members["status"], &members["title"]),
            (&json!(status), &json!(title))
        );
        assert_eq!(members["violated-policies"], json!(["burst"]));
    }
}
