//! TLS: who is trusted, and that nothing is sent to anybody else.

use std::time::Duration;

use tidegate_store::redis::Tls;
use tidegate_store::{RedisStore, StoreError};
use tidegate_testkit::{Action, Authority, RawUpstream, RedisServer, TlsRedis, When};

use crate::support::{counts_exactly, decides, options, ready, wait_for};

const TIMEOUT: Duration = Duration::from_secs(2);

/// No command came in but those of this test's own eyes.
async fn was_not_asked(redis: &TlsRedis) {
    let stats = redis.server().command(&["INFO", "commandstats"]).await;
    let stats = stats.as_str();
    for command in ["auth", "hello", "evalsha", "eval", "client"] {
        assert!(!stats.contains(&format!("cmdstat_{command}:")), "{stats}");
    }
    // The server's guard sends one PING to see whether it is up.
    assert!(stats.contains("cmdstat_ping:calls=1,"), "{stats}");
}

#[tokio::test]
async fn the_right_authority_and_name() {
    let authority = Authority::new();
    let shown = authority.issue(&["127.0.0.1", "localhost"]);
    let redis = TlsRedis::start(&authority, &shown, false).await;
    let trusted = Tls::from(authority.client(&[]));
    for host in ["127.0.0.1", "localhost"] {
        let url = redis.url("", host);
        let store = connect(&url, &trusted).await;
        decides(&store, 0).await;
        assert_eq!(ready(&store).await, Ok(()));
    }
    let store = connect(&redis.url("", "127.0.0.1"), &trusted).await;
    counts_exactly(&store, 1..4).await;
}

#[tokio::test]
async fn whoever_is_not_trusted_is_sent_nothing() {
    let authority = Authority::new();
    let trusted = Tls::from(authority.client(&[]));
    let here = ["127.0.0.1"];
    for (shown, expected) in [
        (Authority::new().issue(&here), "no authority"),
        (authority.issue_expired(&here), "expired"),
        (authority.issue(&["redis.example.com"]), "another name"),
    ] {
        let redis = TlsRedis::start(&authority, &shown, false).await;
        let store = connect(&redis.url(":hunter2@", "127.0.0.1"), &trusted).await;
        refuses(&store, expected).await;
        was_not_asked(&redis).await;
    }
}

#[tokio::test]
async fn a_port_without_tls_is_not_sent_a_password() {
    let authority = Authority::new();
    let trusted = Tls::from(authority.client(&[]));
    let listener = RawUpstream::start(When::Accepted, |_| vec![Action::Hang]);
    let url = format!("rediss://gate:hunter2@{}", listener.addr());
    let store = connect(&url, &trusted).await;
    refuses(&store, "TLS").await;
    let sent = wait_for("a first try", async || {
        listener.seen().into_iter().find(|bytes| bytes.len() > 2)
    })
    .await;
    // A TLS record that holds a handshake, and nothing that could be read.
    assert_eq!(sent[..2], [0x16, 0x03], "{sent:?}");
    let readable = String::from_utf8_lossy(&sent).into_owned();
    assert!(!readable.contains("hunter2") && !readable.contains("AUTH"));

    let plain = RedisServer::start().await;
    let store = connect(&format!("rediss://{}", plain.addr()), &trusted).await;
    refuses(&store, "TLS").await;
}

#[tokio::test]
async fn a_client_shows_its_certificate_if_it_has_one() {
    let authority = Authority::new();
    let redis = TlsRedis::start(&authority, &authority.issue(&["127.0.0.1"]), true).await;
    let url = redis.url("", "127.0.0.1");
    let own = authority.issue(&["gateway"]);
    let with = Tls::from(authority.client_showing(&own, &[]));
    let store = connect(&url, &with).await;
    decides(&store, 0).await;

    let without = Tls::from(authority.client(&[]));
    let store = connect(&url, &without).await;
    refuses(&store, "certificate").await;
    let foreign = Authority::new().issue(&["gateway"]);
    let foreign = Tls::from(authority.client_showing(&foreign, &[]));
    refuses(&connect(&url, &foreign).await, "certificate").await;
}

/// An authority that is marked as one cannot be the server; the reason names the mark.
#[tokio::test]
async fn a_server_that_shows_an_authority_is_refused_with_the_remedy() {
    let authority = Authority::new();
    let shown = Authority::own(&["127.0.0.1"]);
    let redis = TlsRedis::start(&authority, &shown, false).await;
    let trusted = Tls::from(authority.client(&[]));
    let store = connect(&redis.url("", "127.0.0.1"), &trusted).await;
    refuses(&store, "CA:TRUE").await;
}

async fn connect(url: &str, tls: &Tls) -> RedisStore {
    let mut options = options(url, TIMEOUT);
    options.tls = Some(tls.clone());
    RedisStore::connect(options).await.unwrap()
}

/// Says that TLS fails and how, now or as soon as the first attempt is over.
async fn refuses(store: &RedisStore, expected: &str) {
    let error = wait_for("a failed handshake", async || match ready(store).await {
        Err(StoreError::Disconnected | StoreError::Unreachable(_)) => None,
        Err(error) => Some(error),
        Ok(()) => panic!("this must not connect"),
    })
    .await;
    let told = error.to_string();
    assert!(
        matches!(error, StoreError::Tls(_)) && told.contains(expected),
        "{told}"
    );
    assert!(!told.contains("hunter2"));
}
