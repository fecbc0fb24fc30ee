//! What right configurations become.

use std::net::SocketAddr;

use super::*;

fn listens(settings: &Settings) -> Vec<SocketAddr> {
    settings
        .listen
        .iter()
        .map(|listener| listener.address)
        .collect()
}

#[test]
fn the_reference_is_right_and_raises_no_doubt() {
    let path = Path::new("../../gateway.yaml");
    let (settings, warnings) =
        config::load(path, |_| None).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(warnings, []);
    assert_eq!(listens(&settings), ["127.0.0.1:8080".parse().unwrap()]);
    let names: Vec<_> = settings.limits.iter().map(|limit| limit.name()).collect();
    let expected = [
        "ride-burst",
        "driver-location",
        "trip-history",
        "zone-stats",
        "otp-per-ip",
        "ip-guard",
    ];
    assert_eq!(names, expected);
    let ride = &settings.routes[0];
    let charged: Vec<_> = ride
        .policy
        .rules
        .iter()
        .map(|rule| rule.limit.name())
        .collect();
    assert_eq!(charged, ["ip-guard", "ride-burst"]);
    assert_eq!(ride.forward.max_body, Some(64 << 10));
    let server = &settings
        .routes
        .last()
        .unwrap()
        .upstream
        .as_ref()
        .unwrap()
        .servers[0];
    assert_eq!(server.to_string(), "http://127.0.0.1:9000");
}

#[test]
fn the_commented_redis_store_of_the_reference_is_right_too() {
    let reference = fs::read_to_string("../../gateway.yaml").unwrap();
    let block: String = reference
        .lines()
        .skip_while(|line| *line != "# store:")
        .take_while(|line| line.starts_with('#'))
        .map(|line| format!("{}\n", line.strip_prefix("# ").unwrap_or_default()))
        .collect();
    let settings = config::parse("gateway.yaml", &with(&block), |_| None)
        .unwrap()
        .0;
    let StoreSettings::Redis(redis) = settings.store else {
        panic!("not Redis: {block}");
    };
    assert_eq!(redis.url, "redis://127.0.0.1:6379");
    assert_eq!(
        (redis.timeout, redis.key_prefix.as_str()),
        (Duration::from_millis(25), "tidegate")
    );
}

/// What the reference shows in comments is read, up to files that are not there.
#[test]
fn the_commented_tls_of_the_reference_is_right_too() {
    let reference = fs::read_to_string("../../gateway.yaml").unwrap();
    let block = |first: &str, indent: &str| -> String {
        let lines = reference.lines().skip_while(|line| *line != first);
        let lines = lines.take_while(|line| line.starts_with(&format!("{indent}#")));
        let lines = lines.map(|line| line.replacen("# ", "", 1) + "\n");
        lines.collect()
    };
    let listen = block("# listen:", "");
    let upstream = format!(
        "upstreams:\n  api:\n    servers: [https://h]\n{}routes: [{{ path: /, upstream: api }}]\n",
        block("    # tls:", "    ")
    );
    for (text, files) in [(with(&listen), 1), (upstream, 1)] {
        let error = parse(&text).unwrap_err().to_string();
        let unread = error
            .matches("cannot be read: there is no such file")
            .count();
        assert_eq!(unread, files, "{error}");
        assert_eq!(error.matches("error: ").count(), files, "{error}");
    }
}

#[test]
fn a_listener_may_have_settings_and_routes_may_allow_switches() {
    let settings = settings(
        "listen: [127.0.0.1:1, { address: 127.0.0.1:2 }]\ntimeouts: { tunnel_idle: 1h }\n\
         routes: [{ path: /, upstream: http://h, upgrade: [WebSocket, spdy/3.1] }]\n",
    );
    let expected = [
        "127.0.0.1:1".parse().unwrap(),
        "127.0.0.1:2".parse().unwrap(),
    ];
    assert_eq!(listens(&settings), expected);
    let upgrades: Vec<_> = settings.routes[0]
        .forward
        .upgrades
        .iter()
        .map(|name| &**name)
        .collect();
    assert_eq!(upgrades, ["websocket", "spdy/3.1"]);
    assert_eq!(settings.timeouts.tunnel_idle, Duration::from_secs(3_600));
}

#[test]
fn what_is_left_out_has_its_default() {
    let settings = settings(&with(""));
    assert_eq!(settings.admin.address, "127.0.0.1:9901".parse().unwrap());
    assert!(settings.admin.token.is_none());
    assert!(matches!(settings.store, StoreSettings::Memory));
    assert_eq!(settings.max_connections, None);
    assert_eq!(
        (settings.max_connections_per_ip, settings.max_memory),
        (None, None)
    );
    assert_eq!(settings.timeouts, config::Timeouts::default());
    assert_eq!(
        (settings.log.format, settings.log.level.as_str()),
        (LogFormat::Text, "info")
    );
    let access = settings.log.access.unwrap();
    let fields = AccessField::default_fields();
    assert_eq!(access.format, AccessFormat::Text(fields));
    assert_eq!((access.file, access.filter), (None, None));
    assert_eq!(access.sample, AccessLogSettings::ALL);
    assert!(settings.secret.is_none() && settings.unmatched.rules.is_empty());
    let route = &settings.routes[0];
    assert_eq!(
        (
            route.name.as_str(),
            route.forward.max_body,
            &route.shape.methods
        ),
        ("/**", None, &None)
    );
    assert_eq!(settings.clients.ipv6_prefix, 64);
}

#[test]
fn the_admin_port_is_an_address_or_has_settings() {
    let admin = |written: &str| settings(&with(&format!("admin: {written}\n"))).admin;
    for (written, address) in [
        ("127.0.0.1:7", "127.0.0.1:7"),
        ("{ address: \"[::1]:7\" }", "[::1]:7"),
        ("{ token: \"\" }", "127.0.0.1:9901"),
        ("{}", "127.0.0.1:9901"),
    ] {
        let admin = admin(written);
        assert_eq!(admin.address, address.parse().unwrap(), "{written}");
        assert!(admin.token.is_none(), "{written}");
    }
    let admin = admin("{ token: \"${PASSWORD}\" }");
    assert_eq!(admin.token.as_ref().unwrap().expose(), SECRET);
    assert!(!format!("{admin:?}").contains(SECRET));
}

#[test]
fn variables_are_filled_in_wherever_values_stand_and_quoted_or_not() {
    let text = "listen: [\"127.0.0.1:${NUMBER}\"]\nsecret: '${PASSWORD}'\n\
        max_connections: ${NUMBER}\n";
    let settings = settings(&with(text));
    assert_eq!(
        (settings.listen[0].address.port(), settings.max_connections),
        (5, Some(5))
    );
    assert_eq!(settings.secret.as_ref().unwrap().expose(), SECRET);
    assert!(!format!("{settings:?}").contains(SECRET));
}

#[test]
fn a_limit_of_always_that_a_route_lists_as_well_is_charged_once() {
    let settings = settings(
        "limits:\n  a: { fixed_window: { limit: 1, window: 1s } }\n  \
         b: { fixed_window: { limit: 1, window: 1s } }\n\
         always: [b]\nroutes: [{ path: /**, upstream: http://h, limits: [a, b] }]\n",
    );
    let rules = &settings.routes[0].policy.rules;
    let names: Vec<_> = rules.iter().map(|rule| rule.limit.name()).collect();
    assert_eq!(names, ["b", "a"]);
}

#[test]
fn routes_are_called_after_what_they_match_and_get_is_head_too() {
    let settings = settings(
        "routes:\n  - { path: /a, methods: [GET, POST], upstream: http://h }\n  \
         - { host: x.com, path: /a, methods: [PUT], upstream: http://h }\n",
    );
    let names: Vec<_> = settings
        .routes
        .iter()
        .map(|route| route.name.as_str())
        .collect();
    assert_eq!(names, ["GET,POST /a", "PUT x.com/a"]);
    assert_eq!(
        format!("{:?}", settings.routes[0].shape.methods),
        "Some([GET, POST, HEAD])"
    );
    let methods = "routes: [{ path: /, methods: [HEAD, GET], upstream: http://h }]";
    let methods = &self::settings(methods).routes[0].shape.methods;
    assert_eq!(format!("{methods:?}"), "Some([HEAD, GET])");
}

#[test]
fn a_route_is_hidden_only_by_one_that_matches_all_of_it() {
    let upstream = "upstream: http://h";
    let pair = |first: &str, second: &str| {
        parse(&format!(
            "routes:\n  - {{ {first}, {upstream} }}\n  - {{ {second}, {upstream} }}\n"
        ))
    };
    for (first, second) in [
        ("path: /a", "path: /a/**"),
        ("path: /a, methods: [GET]", "path: /a, methods: [GET, POST]"),
        ("path: /a, host: a.com", "path: /a"),
        ("path: /a, host: a.com", "path: /a, host: b.com"),
        ("path: /a, host: a.b.com", "path: /a, host: \"*.b.com\""),
        ("path: /a, host: \"*.a.com\"", "path: /a, host: \"*.b.com\""),
        ("path: /a, host: \"*.a.com\"", "path: /a"),
        ("path: \"/{x}/b\"", "path: \"/a/{x}\""),
    ] {
        assert!(pair(first, second).is_ok(), "{first} / {second}");
    }
    for (first, second) in [
        ("path: /a", "path: /a/"),
        ("path: \"/{x}\"", "path: \"/{y}\""),
        ("path: /a, methods: [GET]", "path: /a, methods: [HEAD]"),
        ("path: /a, host: A.com", "path: /a, host: a.com."),
        (
            "path: /a",
            "path: /a, host: \"*.b.com\", encoded_slashes: keep",
        ),
    ] {
        let error = pair(first, second).unwrap_err().to_string();
        assert!(error.contains("is never reached"), "{error}");
    }
}

#[test]
fn the_largest_that_is_named_fits_and_one_more_does_not() {
    let limit = |numbers: &str| with(&format!("limits: {{ a: {{ {numbers} }} }}"));
    let mut tried = 0;
    for numbers in [
        "sliding_window_log: { limit: N, window: 1m }",
        "sliding_window_counter: { limit: N, window: 59m }",
        "sliding_window_counter: { limit: N, window: 31d }",
        "token_bucket: { capacity: N, refill: 7/31d }",
        "token_bucket: { capacity: N, refill: 10/s }",
        "token_bucket: { capacity: N, refill: 999999937/31d }",
        "leaky_bucket: { queue: N, drain: 1/31d }",
    ] {
        let with_number = |number: u64| limit(&numbers.replace('N', &number.to_string()));
        let error = parse(&with_number(u64::MAX)).unwrap_err().to_string();
        let largest = error
            .split("fits is ")
            .nth(1)
            .unwrap()
            .lines()
            .next()
            .unwrap();
        let largest: u64 = largest.parse().unwrap();
        settings(&with_number(largest));
        assert!(
            parse(&with_number(largest + 1)).is_err(),
            "{numbers}: {largest}"
        );
        tried += 1;
    }
    assert_eq!(tried, 7);
}

#[test]
fn a_key_set_is_fetched_every_five_minutes_if_nothing_is_said() {
    let jwks = |more: &str| {
        let jwt =
            "algorithms: [RS256, ES256, EdDSA], jwks_url: \"https://issuer.example/k?key=hunter2\"";
        settings(&with(&format!("clients: [{{ jwt: {{ {jwt}{more} }} }}]"))).jwks
    };
    assert_eq!(jwks("")[0].refresh, Duration::from_secs(300));
    assert_eq!(jwks(", jwks_refresh: 1d")[0].refresh.as_secs(), 86_400);
    assert_eq!(jwks("")[0].signatures.len(), 3);
    assert!(!format!("{:?}", jwks("")).contains(SECRET));
}

#[test]
fn the_access_log_is_on_or_off_or_has_settings() {
    let access = |written: &str| settings(&with(&format!("log: {written}\n"))).log.access;
    assert_eq!(access("{ access: false }"), None);
    let json = AccessFormat::Json(AccessField::default_fields());
    for written in [
        "{ format: json }",
        "{ format: json, access: true }",
        "{ format: json, access: {} }",
        "{ access: { format: json } }",
    ] {
        assert_eq!(access(written).unwrap().format, json, "{written}");
    }
    let access = access(
        "{ access: { file: access.log, format: \"$peer $${status}s\", sample: 0.1%,
                     max_refusals_per_second: 50, filter: { status: [404, 5xx], outcome: [limited], duration: 1s } } }",
    );
    let field = AccessPiece::Field;
    let text = |text: &str| AccessPiece::Text(text.to_owned());
    let pieces = vec![
        field(AccessField::Peer),
        text(" "),
        field(AccessField::Status),
        text("s"),
    ];
    let expected = AccessLogSettings {
        file: Some("access.log".into()),
        format: AccessFormat::Template(pieces),
        filter: Some(AccessFilter {
            statuses: vec![(404, 404), (500, 599)],
            outcomes: vec![RequestOutcome::Limited],
            duration: Some(Duration::from_secs(1)),
        }),
        sample: 1_000,
        max_refusals_per_second: Some(50),
    };
    assert_eq!(access, Some(expected));
}
