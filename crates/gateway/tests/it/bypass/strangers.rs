use serde_json::json;

use crate::callers::{
    FAR, JWT, TOKEN_KEY, at, base64url, bearer, claims_of, last_client, left, listed, sha256,
    token, told_upstream,
};
use crate::kit::{Bench, get, on_both_stores};

/// A victim: how it is known, where it connects from, and what it sends.
struct Victim {
    client: &'static str,
    last: u8,
    headers: Vec<(&'static str, String)>,
}

impl Victim {
    fn all() -> Vec<Self> {
        let victim = |client, last, header: Option<(&'static str, &str)>| Self {
            client,
            last,
            headers: header.map(|(n, v)| (n, v.to_owned())).into_iter().collect(),
        };
        vec![
            victim("api_key:alpha", 3, Some(("x-api-key", "alpha-key"))),
            victim("user_id:rider-7", 1, Some(("x-user-id", "rider-7"))),
            victim(
                "user_id:rider-9",
                3,
                Some(("authorization", &bearer("rider-9"))),
            ),
            victim("ip:127.0.0.3", 3, None),
            victim("ip:192.0.2.66", 1, Some(("x-forwarded-for", "192.0.2.66"))),
            victim(
                "ip:2001:db8:1:2::",
                1,
                Some(("x-forwarded-for", "2001:db8:1:2::66")),
            ),
        ]
    }

    async fn left(&self, bench: &Bench) -> u64 {
        let headers: Vec<_> = self.headers.iter().map(|(n, v)| (*n, v.as_str())).collect();
        let left = left(&at(bench, self.last), "/", &headers).await;
        assert_eq!(last_client(bench), self.client);
        left
    }
}

/// All that a stranger may send to be taken for somebody else, short of what that somebody keeps secret.
fn attempts() -> Vec<Vec<(&'static str, String)>> {
    let mut attempts = Vec::new();
    for address in ["127.0.0.3", "192.0.2.66", "2001:db8:1:2::66"] {
        let mut claims = claims_of(address);
        claims.push(("x-forwarded-for", address.to_owned()));
        claims.push(("x-forwarded-for", format!("{address}, 127.0.0.1")));
        claims.push(("via", format!("1.1 {address}")));
        claims.push(("x-original-forwarded-for", address.to_owned()));
        claims.push(("x-user-id", address.to_owned()));
        claims.push(("x-user-id", format!("ip:{address}")));
        attempts.extend(claims.into_iter().map(|claim| vec![claim]));
    }
    for name in "alpha api_key:alpha alpha-ke alpha-keys ALPHA-KEY".split(' ') {
        attempts.push(vec![("x-api-key", name.to_owned())]);
    }
    attempts.push(vec![("x-api-key", sha256("alpha-key"))]);
    let hash = format!("sha256:{}", sha256("alpha-key"));
    attempts.push(vec![("x-api-key", hash)]);
    attempts.push(vec![("x_api_key", "alpha-key".to_owned())]);
    for user in ["rider-7", "rider-9"] {
        for header in [
            "x-user-id",
            "x_user_id",
            "x-user_id",
            "x-user",
            "x-remote-user",
        ] {
            attempts.push(vec![(header, user.to_owned())]);
        }
        attempts.push(vec![("x-user-id", format!("user_id:{user}"))]);
        attempts.push(vec![
            ("x-user-id", user.to_owned()),
            ("x-forwarded-for", "127.0.0.1".to_owned()),
            ("connection", "x-forwarded-for".to_owned()),
        ]);
        attempts.push(vec![("cookie", format!("X-User-Id={user}"))]);
        let claims = json!({ "sub": user, "exp": FAR });
        let payload = base64url(claims.to_string().as_bytes());
        let none = base64url(br#"{"alg":"none","typ":"JWT"}"#);
        let forged = token("another secret", &claims);
        let expired = token(TOKEN_KEY, &json!({ "sub": user, "exp": 1 }));
        let endless = token(TOKEN_KEY, &json!({ "sub": user }));
        let signed = forged.rsplit_once('.').unwrap().0;
        for token in [
            format!("{none}.{payload}."),
            forged.clone(),
            format!("{signed}."),
            expired,
            endless,
            token("", &claims),
        ] {
            attempts.push(vec![("authorization", format!("Bearer {token}"))]);
        }
    }
    for client in ["api_key:alpha", "user_id:rider-7", "ip:127.0.0.3"] {
        for header in ["x-client-id", "x_client_id", "X-Client_Id"] {
            attempts.push(vec![(header, client.to_owned())]);
        }
    }
    attempts
}

async fn strangers(store: &str) {
    let head = format!(
        "
trusted_proxies: [127.0.0.1]
clients:
  - api_key: {{ keys: [{}] }}
  - jwt: {{ {JWT} }}
  - user_id: {{}}
  - ip: {{}}
",
        listed("alpha")
    );
    let bench = told_upstream(store, &head, "[client]").await;
    let victims = Victim::all();
    let mut known = Vec::new();
    for victim in &victims {
        known.push(victim.left(&bench).await);
    }
    assert_eq!(known, [999; 6], "six clients, and none of them is another");
    let stranger = at(&bench, 2);
    for attempt in attempts() {
        let headers: Vec<_> = attempt.iter().map(|(n, v)| (*n, v.as_str())).collect();
        let status = get(&stranger, "/", &headers).await;
        assert!([200, 429].contains(&status), "{status} for {headers:?}");
        assert_eq!(last_client(&bench), "ip:127.0.0.2", "{headers:?}");
        for (victim, known) in victims.iter().zip(&mut known) {
            *known -= 1;
            let left = victim.left(&bench).await;
            assert_eq!(left, *known, "{} paid for {headers:?}", victim.client);
        }
    }
    bench.stop().await;
}

#[tokio::test]
async fn nobody_spends_somebody_elses_budget_by_a_header() {
    on_both_stores(strangers).await;
}
