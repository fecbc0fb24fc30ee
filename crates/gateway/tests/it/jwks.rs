//! Key sets of issuers: their tokens name users, and keys come and go without a restart. No trouble of an issuer is one of the
//! gateway's.

/// Issuers, their keys and what they sign.
pub(crate) mod issuer;

use std::time::{Duration, Instant};

use http::{Method, StatusCode};
use serde_json::json;
use tidegate_testkit::{Answer, Client, Upstream};
use tokio::time::timeout;

use crate::kit::{Bench, LONG, page, send, told, until};
use crate::support::GatewayProcess;
use crate::support::commands::{ended_beside, tidegate, written};
use issuer::{Authority, Issuer, Key, TlsIssuer, set};

/// Well below the ten seconds that lie between two early fetches.
const SOON: Duration = Duration::from_secs(6);

/// A gateway that believes the tokens of a set; `more` goes on in its `jwt`.
async fn believer(url: &str, more: &str) -> Bench {
    let mut bench = Bench::start(&yaml(url, more)).await;
    bench.client = Client::new(bench.gateway.address).knows("www-authenticate");
    bench
}

fn yaml(url: &str, more: &str) -> String {
    format!(
        "
clients:
  - jwt: {{ jwks_url: \"{url}\", algorithms: [ES256, EdDSA], {more} }}
  - ip: {{}}
limits:
  it: {{ fixed_window: {{ limit: 1000, window: 31d }} }}
routes:
  - {{ path: /**, upstream: UPSTREAM, limits: [it] }}
"
    )
}

async fn with(client: &Client, token: &str) -> Answer {
    let bearer = format!("Bearer {token}");
    send(client, Method::GET, "/", &[("authorization", &bearer)]).await
}

async fn status(bench: &Bench, token: &str) -> u16 {
    with(&bench.client, token).await.status.as_u16()
}

/// Waits until a token is valid where others are rejected.
async fn accepted(bench: &Bench, token: &str, within: Duration) {
    let accepted = until("it is accepted", async || status(bench, token).await == 200);
    assert!(
        timeout(within, accepted).await.is_ok(),
        "not accepted within {within:?}"
    );
}

/// A metric of key sets; 0 if there is none.
async fn metric(bench: &Bench, name: &str) -> u64 {
    let (_, text) = page(bench.gateway.admin, "/metrics").await;
    let mut lines = text.lines();
    let line = lines.find(|line| line.starts_with(&format!("tidegate_jwks_{name}")));
    let value = line.and_then(|line| line.rsplit_once(' '));
    value.map_or(0, |(_, value)| value.parse().unwrap())
}

async fn failures(bench: &Bench) -> u64 {
    metric(bench, "fetches_total{outcome=\"failed\"}").await
}

/// Waits until a fetch has failed that began after this was called.
async fn fails_anew(bench: &Bench) {
    // One may be under way.
    let enough = failures(bench).await + 2;
    until("a fetch fails", async || failures(bench).await >= enough).await;
}

#[tokio::test]
async fn tokens_of_a_fetched_set_name_their_users() {
    let (ed, es) = (Key::ed25519("ed"), Key::p256("es"));
    let odd = json!({ "kty": "new", "kid": "odd" });
    let keys = json!({ "keys": [odd, ed.jwk(), es.jwk()] });
    let issuer = Issuer::publishing(keys.to_string());
    let gateway = yaml(&issuer.url(), "invalid: fall_through");
    let bench = Bench::start(&gateway).await;
    until("both keys are known", async || {
        metric(&bench, "keys").await == 2
    })
    .await;
    let remaining = async |token: &str| told(&with(&bench.client, token).await).2.unwrap();
    // A user is one, whichever key has signed.
    assert_eq!(remaining(&ed.token("rider-1")).await, 999);
    assert_eq!(remaining(&es.token("rider-1")).await, 998);
    assert_eq!(remaining(&es.token("rider-2")).await, 999);
    // All others are the address: signed by a stranger, too late, or by what everybody can read.
    let address = [
        Key::ed25519("ed").token("rider-1"),
        ed.expired("rider-1"),
        es.signed_with_what_is_public("rider-1"),
        "no.token.atall".into(),
    ];
    for (token, left) in address.iter().zip([999, 998, 997, 996]) {
        assert_eq!(remaining(token).await, left);
    }
    assert_eq!(metric(&bench, "fetches_total{outcome=\"taken\"}").await, 1);
    let arrival = &issuer.server.requests()[0];
    assert_eq!(arrival.target, "/keys.json?tenant=planted");
    bench.stop().await;
}

#[tokio::test]
async fn until_an_issuer_comes_up_invalid_decides() {
    let key = Key::ed25519("a");
    let token = key.token("rider-1");
    let issuer = Issuer::publishing(set(&[&key]));
    issuer.server.stop().await;
    let falls = believer(&issuer.url(), "invalid: fall_through").await;
    let rejects = believer(&issuer.url(), "invalid: reject").await;
    assert_eq!(
        told(&with(&falls.client, &token).await),
        (200, Some(1000), Some(999))
    );
    assert_eq!(
        told(&falls.client.get("/").await),
        (200, Some(1000), Some(998)),
        "the token is the address"
    );
    let answer = with(&rejects.client, &token).await;
    assert_eq!(answer.status, 401);
    assert!(answer.header("www-authenticate").is_some());
    let (status, why) = page(rejects.gateway.admin, "/readyz").await;
    assert_eq!(status, 503, "who has no keys can tell nobody apart");
    assert!(why.contains("key set"), "{why}");

    issuer.server.restart();
    accepted(&rejects, &token, LONG).await;
    assert_eq!(page(rejects.gateway.admin, "/readyz").await.0, 200);
    until("the user has a budget", async || {
        told(&with(&falls.client, &token).await).2 == Some(999)
    })
    .await;
    falls.stop().await;
    rejects.stop().await;
}

#[tokio::test]
async fn an_issuer_that_goes_down_leaves_its_keys_in_force() {
    let key = Key::p256("a");
    let issuer = Issuer::publishing(set(&[&key]));
    let bench = believer(&issuer.url(), "invalid: reject, jwks_refresh: 1s").await;
    accepted(&bench, &key.token("rider-1"), LONG).await;
    issuer.server.stop().await;
    fails_anew(&bench).await;
    assert_eq!(status(&bench, &key.token("rider-2")).await, 200);
    bench.stop().await;
}

#[tokio::test]
async fn a_new_key_is_known_within_seconds_and_a_removed_one_no_more() {
    let (old, new) = (Key::ed25519("old"), Key::ed25519("new"));
    let issuer = Issuer::publishing(set(&[&old]));
    let bench = believer(&issuer.url(), "invalid: reject, jwks_refresh: 1d").await;
    accepted(&bench, &old.token("rider-1"), LONG).await;
    assert_eq!(issuer.server.count(), 1);
    issuer.publish(set(&[&new]));
    accepted(&bench, &new.token("rider-1"), SOON).await;
    assert_eq!(status(&bench, &old.token("rider-1")).await, 401);
    bench.stop().await;
}

#[tokio::test]
async fn a_removed_key_is_refused_after_the_next_refresh() {
    let (kept, gone) = (Key::ed25519("kept"), Key::ed25519("gone"));
    let issuer = Issuer::publishing(set(&[&kept, &gone]));
    let bench = believer(&issuer.url(), "invalid: reject, jwks_refresh: 1s").await;
    accepted(&bench, &gone.token("rider-1"), LONG).await;
    issuer.publish(set(&[&kept]));
    until("the key is gone", async || {
        status(&bench, &gone.token("rider-1")).await == 401
    })
    .await;
    assert_eq!(status(&bench, &kept.token("rider-1")).await, 200);
    bench.stop().await;
}

#[tokio::test]
async fn no_request_waits_for_an_issuer_that_hangs() {
    let key = Key::ed25519("a");
    let issuer = Issuer::hanging();
    let bench = believer(&issuer.url(), "invalid: reject").await;
    issuer.server.wait_for(1, LONG).await;
    let started = Instant::now();
    for _ in 0..100 {
        assert_eq!(status(&bench, &key.token("rider-1")).await, 401);
        assert_eq!(bench.client.get("/").await.status, 200);
    }
    let took = started.elapsed();
    assert!(took < Duration::from_secs(4), "{took:?}");
    assert_eq!(issuer.server.count(), 1, "the first fetch is not over");
    // Nor does the gateway wait forever.
    issuer.publish(set(&[&key]));
    accepted(&bench, &key.token("rider-1"), LONG).await;
    assert_eq!(failures(&bench).await, 1);
    bench.stop().await;
}

#[tokio::test]
async fn what_is_no_set_leaves_the_keys_that_were_known() {
    let (old, new) = (Key::ed25519("old"), Key::ed25519("new"));
    let issuer = Issuer::publishing(set(&[&old]));
    issuer.keep_elsewhere(set(&[&new]));
    let bench = believer(&issuer.url(), "invalid: reject, jwks_refresh: 1s").await;
    accepted(&bench, &old.token("rider-1"), LONG).await;
    let good = set(&[&new]);
    let long = json!({ "keys": [new.jwk()], "more": "x".repeat(256 << 10) });
    let secret = json!({ "keys": [{ "kty": "oct", "kid": "new", "k": "AAAA" }] });
    let encryption = json!({ "keys": [new.jwk_for("enc")] });
    for (status_code, body) in [
        (200, "<html>".to_owned()),
        (200, String::new()),
        (200, "[]".to_owned()),
        (200, r#"{"keys":[]}"#.to_owned()),
        (200, secret.to_string()),
        (200, encryption.to_string()),
        (200, long.to_string()),
        (500, good.clone()),
        (203, good.clone()),
        (302, good),
    ] {
        issuer.answer(StatusCode::from_u16(status_code).unwrap(), body.clone());
        fails_anew(&bench).await;
        let shown = body.get(..40).unwrap_or(&body);
        let statuses = [
            status(&bench, &old.token("rider-1")).await,
            status(&bench, &new.token("rider-1")).await,
        ];
        assert_eq!(statuses, [200, 401], "after {status_code} {shown}");
    }
    let mut arrivals = issuer.server.requests().into_iter();
    assert!(
        arrivals.all(|arrival| arrival.target.starts_with("/keys.json")),
        "a redirect was followed"
    );
    bench.stop().await;
}

/// Nothing is known before the first answer, and an answer of nothing is no set.
#[tokio::test]
async fn a_first_answer_without_a_set_is_a_failure() {
    let key = Key::ed25519("a");
    let issuer = Issuer::publishing(String::new());
    let bench = believer(&issuer.url(), "invalid: reject, jwks_refresh: 1h").await;
    fails_anew(&bench).await;
    issuer.publish(set(&[&key]));
    accepted(&bench, &key.token("rider-1"), LONG).await;
    bench.stop().await;
}

#[tokio::test]
async fn made_up_key_ids_cause_one_fetch_at_a_time_and_few_in_all() {
    let key = Key::ed25519("a");
    let issuer = Issuer::slow(set(&[&key]), Duration::from_millis(50));
    let bench = believer(&issuer.url(), "invalid: reject, jwks_refresh: 1d").await;
    accepted(&bench, &key.token("rider-1"), LONG).await;
    let started = Instant::now();
    let first = issuer.server.count();
    let hammer = async |client: Client| {
        for number in 0..200 {
            let token = Key::ed25519(&format!("made-up-{number}")).token("rider-1");
            let client = &client;
            assert_eq!(with(client, &token).await.status, 401);
        }
    };
    let client = || Client::new(bench.gateway.address).knows("www-authenticate");
    tokio::join!(hammer(client()), hammer(client()), hammer(client()));
    issuer.server.wait_for(first + 1, LONG).await;
    let spans = usize::try_from(started.elapsed().as_secs() / 10).unwrap();
    let early = issuer.server.count() - first;
    assert!(early <= 1 + spans, "{early} early fetches");
    assert_eq!(issuer.most_at_once(), 1);
    bench.stop().await;
}

#[tokio::test]
async fn only_a_token_that_could_be_accepted_may_ask_for_a_fetch() {
    let (old, new) = (Key::ed25519("old"), Key::ed25519("new"));
    let issuer = Issuer::publishing(set(&[&old]));
    let bench = believer(&issuer.url(), "invalid: reject, jwks_refresh: 1d").await;
    accepted(&bench, &old.token("rider-1"), LONG).await;
    let tokens = [
        "no.token.atall".to_owned(),
        new.unnamed("rider-1"),
        new.signed_with_what_is_public("rider-1"),
        Key::ed25519("old").token("rider-1"),
    ];
    // Often enough that a fetch which one of them asked for would arrive meanwhile.
    for token in tokens.iter().cycle().take(200) {
        assert_eq!(status(&bench, token).await, 401);
    }
    assert_eq!(issuer.server.count(), 1);
    issuer.publish(set(&[&new]));
    accepted(&bench, &new.token("rider-1"), SOON).await;
    assert_eq!(issuer.server.count(), 2);
    bench.stop().await;
}

#[tokio::test]
async fn a_server_with_a_certificate_is_believed_if_its_authority_is() {
    let (ours, strange) = (Authority::new(), Authority::new());
    let key = Key::ed25519("a");
    let issuer = TlsIssuer::start(&ours, set(&[&key])).await;
    let trusts = |authority: &Authority| {
        let file = authority.file.path().display();
        format!("invalid: reject, jwks_refresh: 1s, jwks_ca: \"{file}\"")
    };
    let bench = believer(&issuer.url(), &trusts(&ours)).await;
    accepted(&bench, &key.token("rider-1"), LONG).await;
    assert!(issuer.answered() > 0);
    bench.stop().await;
    // Another server: the first may still have a request of the gateway that ended.
    let issuer = TlsIssuer::start(&ours, set(&[&key])).await;
    let the_machine_s = "invalid: reject, jwks_refresh: 1s".to_owned();
    for believed in [trusts(&strange), the_machine_s] {
        let bench = believer(&issuer.url(), &believed).await;
        fails_anew(&bench).await;
        assert_eq!(status(&bench, &key.token("rider-1")).await, 401);
        bench.stop().await;
    }
    assert_eq!(issuer.answered(), 0, "nothing was asked of a stranger");
}

#[tokio::test]
async fn the_log_tells_of_fetches_but_not_what_is_secret() {
    let key = Key::ed25519("a");
    let issuer = Issuer::publishing(set(&[&key]));
    issuer.answer(StatusCode::FORBIDDEN, "planted".into());
    let upstream = Upstream::ok();
    let yaml = yaml(&issuer.url(), "jwks_refresh: 1s").replace("UPSTREAM", &upstream.url());
    let gateway = GatewayProcess::start(&yaml).await;
    let failed = gateway.process.wait_for_line("not fetched", LONG).await;
    assert!(failed.contains("403"), "{failed}");
    issuer.publish(set(&[&key]));
    let keys = "token keys fetched";
    let fetched = gateway.process.wait_for_line(keys, LONG).await;
    let name = format!("{}/keys.json", issuer.server.url());
    assert!(fetched.contains(&name), "{fetched}");
    let token = key.token("rider-1");
    with(&Client::new(gateway.address), &token).await;
    let (_, metrics) = page(gateway.admin, "/metrics").await;
    assert!(metrics.contains(&name), "{metrics}");
    let told = gateway.process.output().join("\n") + &metrics;
    for secret in ["planted", &token] {
        assert!(!told.contains(secret), "{secret} in {told}");
    }
}

#[tokio::test]
async fn a_request_is_explained_without_a_fetch() {
    let issuer = Issuer::publishing(String::new());
    let yaml = yaml(&issuer.url(), "").replace("UPSTREAM", &issuer.server.url());
    let (_folder, file) = written(&yaml);
    let token = Key::ed25519("a").token("rider-1");
    let header = format!("Authorization: Bearer {token}");
    let mut command = tidegate(&["explain", "GET", "http://localhost/", "-H", &header, "-c"]);
    command.arg(&file);
    let (status, told, err) = ended_beside(command).await;
    assert_eq!(status, Some(0), "{err}");
    assert!(told.contains("client:   not known here"), "{told}");
    assert_eq!(issuer.server.connections(), 0);
}
