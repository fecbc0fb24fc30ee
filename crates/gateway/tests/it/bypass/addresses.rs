use http::Request;
use tidegate_testkit::body;

use crate::callers::{TRUST, ask, at, claims_of, last_client, left, told_upstream};
use crate::kit::{Bench, get, on_both_stores};

const FROM_FORWARDED: &str = "clients: [{ ip: { from: forwarded } }]\n";

/// As many of `addresses` as a trusted proxy tells are admitted once each.
async fn budgets(store: &str, head: &str, header: &str, addresses: &[(&str, u16)]) {
    let bench = Bench::start(&format!(
        "
{store}
{head}
limits:
  once: {{ fixed_window: {{ limit: 1, window: 31d }}, per: [ip] }}
routes:
  - {{ path: /**, upstream: UPSTREAM, limits: [once] }}
"
    ))
    .await;
    let proxy = at(&bench, 1);
    for (address, status) in addresses {
        let found = get(&proxy, "/", &[(header, address)]).await;
        assert_eq!(found, *status, "{address}");
    }
    bench.stop().await;
}

async fn rotation(store: &str) {
    let bench = told_upstream(store, TRUST, "[client]").await;
    let stranger = at(&bench, 2);
    for round in 1..=50 {
        let address = format!("192.0.2.{round}");
        let headers = [("x-forwarded-for", address.as_str())];
        assert_eq!(left(&stranger, "/", &headers).await, 1000 - round);
        assert_eq!(last_client(&bench), "ip:127.0.0.2");
        let arrival = bench.upstream.requests().pop().unwrap();
        assert_eq!(arrival.header("x-forwarded-for"), Some("127.0.0.2"));
    }
    bench.stop().await;
}

#[tokio::test]
async fn b1_a_stranger_who_changes_x_forwarded_for_stays_who_they_are() {
    on_both_stores(rotation).await;
}

async fn leftmost(store: &str) {
    let bench = told_upstream(store, TRUST, "[client]").await;
    let proxy = at(&bench, 1);
    let client = async |lines: &[&str]| {
        let headers: Vec<_> = lines
            .iter()
            .map(|line| ("x-forwarded-for", *line))
            .collect();
        ask(&proxy, "/", &headers).await;
        last_client(&bench)
    };
    // Whatever the caller wrote stands on the left of what the proxy saw.
    assert_eq!(client(&["6.6.6.6, 192.0.2.1"]).await, "ip:192.0.2.1");
    assert_eq!(client(&["6.6.6.6", "192.0.2.1"]).await, "ip:192.0.2.1");
    assert_eq!(client(&["192.0.2.1", "127.0.0.1"]).await, "ip:192.0.2.1");
    assert_eq!(
        client(&["192.0.2.1,127.0.0.1, 127.0.0.1"]).await,
        "ip:192.0.2.1"
    );
    // What is no address ends the walk at the last good hop.
    for broken in [
        "",
        "unknown",
        "1.2.3",
        "6.6.6.6:x",
        "a, b",
        "[::1",
        "1.2.3.4.5",
        "%",
    ] {
        let lines = [format!("6.6.6.6, {broken}, 127.0.0.1")];
        assert_eq!(client(&[&lines[0]]).await, "ip:127.0.0.1", "{broken:?}");
    }
    assert_eq!(client(&["6.6.6.6, x, 192.0.2.1"]).await, "ip:192.0.2.1");
    assert_eq!(client(&["6.6.6.6\u{e9}"]).await, "ip:127.0.0.1");
    bench.stop().await;
}

#[tokio::test]
async fn b1_of_the_hops_only_the_one_that_the_proxy_saw_counts() {
    on_both_stores(leftmost).await;
}

/// Claims beside the one header that is configured, by the proxy that is believed, and by a stranger.
async fn claimed(store: &str, head: &str, real: (&'static str, &str)) {
    let bench = told_upstream(store, &format!("{TRUST}{head}"), "[client]").await;
    let victim = "192.0.2.66";
    let mut claims = claims_of(victim);
    claims.push(("x-forwarded-for", victim.to_owned()));
    claims.retain(|(name, _)| *name != real.0);
    let (mut by_proxy, mut by_stranger) = (1000, 1000);
    let mut all = vec![real];
    all.extend(claims.iter().map(|(name, value)| (*name, value.as_str())));
    let singles = claims
        .iter()
        .map(|(name, value)| vec![(*name, value.as_str())]);
    for attempt in singles.chain([all[1..].to_vec()]) {
        for (last, client) in [(1, "ip:192.0.2.1"), (2, "ip:127.0.0.2")] {
            let mut headers = attempt.clone();
            if last == 1 {
                headers.push(real);
            }
            let budget = if last == 1 {
                &mut by_proxy
            } else {
                &mut by_stranger
            };
            *budget -= 1;
            assert_eq!(
                left(&at(&bench, last), "/", &headers).await,
                *budget,
                "{headers:?}"
            );
            assert_eq!(last_client(&bench), client, "{headers:?}");
            let arrived = bench.upstream.requests().pop().unwrap().headers;
            for (name, value) in &arrived {
                let value = String::from_utf8_lossy(value.as_bytes());
                assert!(
                    !value.contains(victim),
                    "{name}: {value} arrived of {headers:?}"
                );
            }
        }
    }
    bench.stop().await;
}

#[tokio::test]
async fn b2_no_other_header_beside_x_forwarded_for_names_an_address() {
    on_both_stores(async |store| claimed(store, "", ("x-forwarded-for", "192.0.2.1")).await).await;
}

#[tokio::test]
async fn b2_no_other_header_beside_forwarded_names_an_address() {
    let real = ("forwarded", "for=192.0.2.1");
    on_both_stores(async |store| claimed(store, FROM_FORWARDED, real).await).await;
}

async fn nominated(store: &str) {
    let head = format!("{TRUST}clients: [{{ user_id: {{}} }}]\n");
    let bench = told_upstream(store, &head, "[client]").await;
    for named in [
        "x-forwarded-for",
        "x-user-id",
        "x-client-id",
        "X_User_Id",
        "host",
    ] {
        for (last, client) in [(1, "user_id:rider"), (2, "ip:127.0.0.2")] {
            let request = Request::get("/")
                .header("connection", format!("close, {named}"))
                .header("x-forwarded-for", "192.0.2.1")
                .header("x-client-id", "user_id:mallory")
                .header("x-user-id", "rider");
            let answer = at(&bench, last)
                .request(request.body(body::empty()).unwrap())
                .await;
            assert_eq!(answer.status, 200);
            assert_eq!(last_client(&bench), client, "{named}");
            let arrival = bench.upstream.requests().pop().unwrap();
            let hops = ["192.0.2.1, 127.0.0.1", "127.0.0.2"][usize::from(last) - 1];
            assert_eq!(arrival.header("x-forwarded-for"), Some(hops), "{named}");
            let user = (last == 1).then_some("rider");
            assert_eq!(arrival.header("x-user-id"), user, "{named}");
        }
    }
    bench.stop().await;
}

#[tokio::test]
async fn b2_what_connection_names_is_neither_lost_nor_gained() {
    on_both_stores(nominated).await;
}

async fn networks(store: &str) {
    let bench = Bench::start(&format!(
        "
{store}
{TRUST}
limits:
  own: {{ fixed_window: {{ limit: 3, window: 31d }}, per: [ip] }}
  wide: {{ fixed_window: {{ limit: 5, window: 31d }}, per: [ip/48] }}
routes:
  - {{ path: /**, upstream: UPSTREAM, limits: [own, wide] }}
"
    ))
    .await;
    let proxy = at(&bench, 1);
    let admitted = async |addresses: Vec<String>| {
        let mut admitted = 0;
        for address in &addresses {
            let status = get(&proxy, "/", &[("x-forwarded-for", address)]).await;
            admitted += usize::from(status == 200);
        }
        admitted
    };
    // One home has 2^64 addresses, and one budget.
    let hosts = (0..20).map(|host| format!("2001:db8:1:2:{host:x}::1"));
    assert_eq!(admitted(hosts.collect()).await, 3);
    // One site has 2^16 networks, and one budget besides: 2 of 5 are left of it.
    let homes = (0x10..0x30).map(|home| format!("2001:db8:1:{home:x}::1"));
    assert_eq!(admitted(homes.collect()).await, 2);
    let elsewhere = (0..4).map(|host| format!("2001:db8:2:2::{host}"));
    assert_eq!(admitted(elsewhere.collect()).await, 3);
    // IPv4 has no such networks: neighbours are strangers.
    for neighbour in ["192.0.2.1", "192.0.2.2"] {
        assert_eq!(admitted(vec![neighbour.to_owned(); 5]).await, 3);
    }
    bench.stop().await;
}

#[tokio::test]
async fn b3_an_ipv6_network_is_one_client_and_a_site_has_a_limit_of_its_own() {
    on_both_stores(networks).await;
}

/// One address after the other, and whether it is a new client.
const SPELLINGS: [(&str, u16); 17] = [
    ("192.0.2.1", 200),
    ("::ffff:192.0.2.1", 429),
    ("::FFFF:c000:201", 429),
    ("[::ffff:192.0.2.1]:4711", 429),
    ("192.0.2.1:80", 429),
    ("64:ff9b::192.0.2.1", 429),
    ("64:ff9b::c000:0201", 429),
    // Two addresses are two, however they are written.
    ("::ffff:192.0.2.2", 200),
    ("64:ff9b::192.0.2.3", 200),
    ("192.0.2.2", 429),
    ("192.0.2.3", 429),
    ("2001:db8::1", 200),
    ("2001:0DB8:0:0::1", 429),
    ("[2001:db8::1]:443", 429),
    ("[2001:db8::1]", 429),
    ("fe80::1%eth0", 200),
    ("fe80::1%eth1", 429),
];

#[tokio::test]
async fn b4_an_address_is_one_client_in_every_spelling() {
    on_both_stores(async |store| budgets(store, TRUST, "x-forwarded-for", &SPELLINGS).await).await;
}

#[tokio::test]
async fn b4_an_address_in_forwarded_is_one_client_in_every_spelling() {
    let quoted = SPELLINGS.map(|(address, status)| (format!("for=\"{address}\""), status));
    let quoted: Vec<_> = quoted
        .iter()
        .map(|(address, status)| (address.as_str(), *status))
        .collect();
    let head = format!("{TRUST}{FROM_FORWARDED}");
    on_both_stores(async |store| budgets(store, &head, "forwarded", &quoted).await).await;
}
