//! One client chooses keys without end. Other clients must keep their places in the memory store.

use http::header::{COOKIE, HOST};

use super::*;

/// In a store of this size, one address gets places for about a quarter of all keys.
const KEYS: usize = 4 * 1_024;
const REQUESTS: usize = 3_000;

const SESSION: HeaderName = HeaderName::from_static("x-session");

/// Makes a request with this value, which its sender chooses.
fn request(per: &Per, value: &str) -> Request<()> {
    let mut request = Request::new(());
    let headers = request.headers_mut();
    let cookie = format!("sid={value}");
    match per {
        Per::Header(name) => _ = headers.insert(name, value.parse().unwrap()),
        Per::Client => _ = headers.insert(KEY, value.parse().unwrap()),
        Per::Cookie(_) => _ = headers.insert(COOKIE, cookie.parse().unwrap()),
        Per::Host => _ = headers.insert(HOST, value.parse().unwrap()),
        Per::Query(_) => *request.uri_mut() = format!("/?q={value}").parse().unwrap(),
        _ => {
            let values = vec![("id".into(), value.into())];
            RequestContext::of_mut(&mut request).path_values = values;
        }
    }
    request
}

fn bench(per: &Per) -> Bench {
    let policy = Policy {
        route: "route".into(),
        rules: [rule("chosen", 1, std::slice::from_ref(per))].into(),
        ..Policy::default()
    };
    let unlisted = ClientSource::ApiKey {
        header: KEY,
        keys: ApiKeys::new([]),
        unknown: UnknownKey::Accept,
    };
    let clients = Clients {
        sources: vec![unlisted, ClientSource::Ip],
        ..Clients::default()
    };
    Bench::with(policy, clients, MemoryStore::new(KEYS))
}

/// Returns the number of these values that are admitted from an address, each sent once.
async fn admitted(bench: &Bench, per: &Per, from: &str, values: std::ops::Range<usize>) -> usize {
    let mut admitted = 0;
    let inner = tower::service_fn(async |_: Request<()>| {
        Ok::<_, Infallible>(Response::new(Bytes::from_static(b"inner")))
    });
    let mut service = bench.layer.layer(inner);
    for value in values {
        let mut request = request(per, &format!("v{value}"));
        let peer = Peer::connected((from.parse::<IpAddr>().unwrap(), 4711).into());
        RequestContext::of_mut(&mut request).peer = peer;
        let Ok(response) = service.call(request).await;
        admitted += usize::from(response.status() == StatusCode::OK);
    }
    admitted
}

#[tokio::test]
async fn an_address_that_chooses_its_keys_has_a_part_of_the_store() {
    for per in [
        Per::Header(SESSION),
        Per::Cookie("sid".into()),
        Per::Query("q".into()),
        Per::Path("id".into()),
        Per::Host,
        // An API key that is not listed.
        Per::Client,
    ] {
        let bench = bench(&per);
        let flooded = admitted(&bench, &per, "192.0.2.1", 0..REQUESTS).await;
        assert!((900..1_500).contains(&flooded), "{per}: {flooded}");
        let other = admitted(&bench, &per, "198.51.100.1", REQUESTS..REQUESTS + 100).await;
        assert_eq!(other, 100, "{per}");
    }
}
