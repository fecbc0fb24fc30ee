use super::*;

const PROXY: &str = "10.0.0.1";

/// Returns the origin of a request that `peer` forwarded with these headers. 10.0.0.0/8 and fd00::/8 are trusted.
fn origin_by(from: AddressFrom, peer: &str, headers: &[(HeaderName, &str)]) -> String {
    let trusted = ["10.0.0.0/8", "fd00::/8"].map(|network| network.parse().unwrap());
    let mut map = HeaderMap::new();
    for (name, line) in headers {
        map.append(name, line.parse().unwrap());
    }
    TrustedProxies::new(trusted.into())
        .origin(peer.parse().unwrap(), &map, from)
        .to_string()
}

fn origin(peer: &str, lines: &[&str]) -> String {
    let headers: Vec<_> = lines.iter().map(|line| (X_FORWARDED_FOR, *line)).collect();
    origin_by(AddressFrom::XForwardedFor, peer, &headers)
}

/// Like [`origin`], but with `Forwarded` from a trusted proxy.
fn forwarded(lines: &[&str]) -> String {
    let headers: Vec<_> = lines.iter().map(|line| (FORWARDED, *line)).collect();
    origin_by(AddressFrom::Forwarded, PROXY, &headers)
}

fn masked(address: &str, ipv6_prefix: u8) -> String {
    network(address.parse().unwrap(), ipv6_prefix).to_string()
}

#[test]
fn a_stranger_is_their_peer_address_whatever_they_say() {
    assert_eq!(origin("192.0.2.1", &["198.51.100.9"]), "192.0.2.1");
}

#[test]
fn a_trusted_peer_is_believed_up_to_the_right_most_stranger() {
    assert_eq!(origin("10.0.0.1", &[]), "10.0.0.1");
    assert_eq!(
        origin("10.0.0.1", &["6.6.6.6, 192.0.2.1, 10.0.0.2"]),
        "192.0.2.1"
    );
    assert_eq!(origin("10.0.0.1", &["6.6.6.6", "192.0.2.1"]), "192.0.2.1");
    assert_eq!(origin("::ffff:10.0.0.1", &["192.0.2.1"]), "192.0.2.1");
}

#[test]
fn a_bad_entry_falls_back_to_the_last_good_hop() {
    assert_eq!(
        origin("10.0.0.1", &["192.0.2.1, unknown, 10.0.0.2"]),
        "10.0.0.2"
    );
    assert_eq!(origin("10.0.0.1", &["192.0.2.1,"]), "10.0.0.1");
}

#[test]
fn entries_may_carry_brackets_and_ports() {
    assert_eq!(origin("10.0.0.1", &["192.0.2.1:4711"]), "192.0.2.1");
    assert_eq!(origin("10.0.0.1", &["[2001:db8::1]:4711"]), "2001:db8::1");
    assert_eq!(origin("10.0.0.1", &["[2001:db8::1]"]), "2001:db8::1");
}

#[test]
fn an_entry_that_is_almost_an_address_is_none() {
    for entry in [
        "[2001:db8::1",
        "2001:db8::1]",
        "[2001:db8::1]4711",
        "[2001:db8::1]:",
        "[2001:db8::1]:65536",
        "[192.0.2.1]",
        "192.0.2.1:",
        "192.0.2.1:x",
        "192.0.2.256",
        "192.0.2",
        "192.0.2.1%eth0",
        "_hidden",
        "\"192.0.2.1\"",
    ] {
        assert_eq!(origin(PROXY, &[entry]), PROXY, "{entry}");
    }
    let trusted = TrustedProxies::new(vec!["10.0.0.0/8".parse().unwrap()]);
    let mut headers = HeaderMap::new();
    let bytes = http::HeaderValue::from_bytes(b"192.0.2.1\xff").unwrap();
    headers.append(X_FORWARDED_FOR, bytes);
    let peer = PROXY.parse().unwrap();
    assert_eq!(
        trusted.origin(peer, &headers, AddressFrom::XForwardedFor),
        peer
    );
}

#[test]
fn a_zone_is_no_part_of_an_address() {
    assert_eq!(origin(PROXY, &["fe80::1%eth0"]), "fe80::1");
    assert_eq!(origin(PROXY, &["[fe80::1%25eth0]:4711"]), "fe80::1");
    assert_eq!(
        origin(PROXY, &["2001:db8::9, fd00::1%eth0"]),
        "2001:db8::9",
        "nor of a trusted one"
    );
    assert_eq!(forwarded(&["for=\"[fe80::1%eth0]:4711\""]), "fe80::1");
}

#[test]
fn whoever_is_written_as_mapped_ipv4_is_trusted_as_ipv4() {
    assert_eq!(origin(PROXY, &["192.0.2.1, ::ffff:10.0.0.2"]), "192.0.2.1");
    assert_eq!(
        origin(PROXY, &["6.6.6.6, ::ffff:192.0.2.1"]),
        "::ffff:192.0.2.1"
    );
}

#[test]
fn if_all_hops_are_trusted_the_first_of_them_is_the_origin() {
    assert_eq!(
        origin(PROXY, &["10.0.0.4, 10.0.0.3", "fd00::1, 10.0.0.2"]),
        "10.0.0.4"
    );
    assert_eq!(forwarded(&["for=10.0.0.3, for=10.0.0.2"]), "10.0.0.3");
}

#[test]
fn forwarded_is_read_as_rfc_7239_writes_it() {
    assert_eq!(forwarded(&["for=192.0.2.43"]), "192.0.2.43");
    assert_eq!(
        forwarded(&["For=\"[2001:db8:cafe::17]:4711\""]),
        "2001:db8:cafe::17"
    );
    assert_eq!(
        forwarded(&["FOR=\"[2001:db8:cafe::17]\""]),
        "2001:db8:cafe::17"
    );
    assert_eq!(forwarded(&["for=\"192.0.2.43:47011\""]), "192.0.2.43");
    assert_eq!(
        forwarded(&["for=192.0.2.60;proto=http;by=203.0.113.43"]),
        "192.0.2.60"
    );
    assert_eq!(
        forwarded(&["by=203.0.113.43;proto=https;for=192.0.2.60"]),
        "192.0.2.60"
    );
    assert_eq!(
        forwarded(&["for=192.0.2.60;host=\"a;for=6.6.6.6,b\""]),
        "192.0.2.60"
    );
    assert_eq!(forwarded(&[]), PROXY);
}

/// RFC 7239, 6 allows ports without a number, and RFC 9110, 5.6.1 allows empty elements.
#[test]
fn forwarded_may_hide_ports_and_have_empty_elements() {
    for (line, address) in [
        ("for=\"203.0.113.7:_p\"", "203.0.113.7"),
        ("for=\"203.0.113.7:_Gate-1.b_2\"", "203.0.113.7"),
        ("for=\"[2001:db8::1]:_p\"", "2001:db8::1"),
        ("for=203.0.113.7,", "203.0.113.7"),
        (",for=203.0.113.7 , ,, for=10.0.0.2", "203.0.113.7"),
    ] {
        assert_eq!(forwarded(&[line]), address, "{line}");
    }
    assert_eq!(forwarded(&["for=203.0.113.7", "", " "]), "203.0.113.7");
    for line in [
        "for=\"203.0.113.7:_\"",
        "for=\"203.0.113.7:_p q\"",
        "for=\"203.0.113.7 :_p\"",
        "for=\"203.0.113.7:_p:80\"",
        "for=\"203.0.113.7:p\"",
        "for=\"2001:db8::1:_p\"",
        "for=\"[2001:db8::1]_p\"",
        "for=203.0.113.7, ;",
    ] {
        assert_eq!(forwarded(&[line]), PROXY, "{line}");
    }
    let hops = ["for=6.6.6.6", &", for=10.0.0.2".repeat(99), ","];
    assert_eq!(forwarded(&hops), "6.6.6.6");
}

#[test]
fn elements_of_forwarded_are_walked_from_the_right_over_all_lines() {
    assert_eq!(
        forwarded(&["for=192.0.2.43, for=198.51.100.17"]),
        "198.51.100.17"
    );
    assert_eq!(
        forwarded(&["for=6.6.6.6,for=192.0.2.43;by=10.0.0.3 , for=10.0.0.2"]),
        "192.0.2.43"
    );
    assert_eq!(
        forwarded(&["for=6.6.6.6", "for=192.0.2.43", "for=10.0.0.2"]),
        "192.0.2.43"
    );
    let v6 = "for=6.6.6.6, for=\"[2001:db8::1]:80\"";
    assert_eq!(
        forwarded(&[v6, "for=\"[fd00::1]:80\", for=10.0.0.2"]),
        "2001:db8::1"
    );
}

#[test]
fn an_element_of_forwarded_without_one_good_address_ends_the_walk() {
    for element in [
        "for=unknown",
        "for=_hidden",
        "for=\"_SEVKISEK\"",
        "for=",
        "for=\"\"",
        "for",
        "proto=http",
        "by=192.0.2.1",
        "xfor=192.0.2.1",
        "for=192.0.2.1;for=192.0.2.2",
        "for=192.0.2.1;For=192.0.2.1",
        "for=\"192.0.2.1",
        "for=192.0.2.1\"",
        "for=\"\\\"192.0.2.1\\\"\"",
        "host=\"for=192.0.2.1\"",
        "host=\"a;for=192.0.2.1\"",
    ] {
        let line = format!("for=6.6.6.6, {element}, for=10.0.0.2");
        assert_eq!(forwarded(&[&line]), "10.0.0.2", "{element}");
        assert_eq!(forwarded(&["for=6.6.6.6", element]), PROXY, "{element}");
    }
}

#[test]
fn quotes_hide_what_separates_elements_and_escapes_hide_quotes() {
    let odd = r#"for=192.0.2.1;host="a\", for=6.6.6.6;x=\"\b""#;
    assert_eq!(
        forwarded(&[odd]),
        "192.0.2.1",
        "one element with an escaped quote"
    );
    let even = r#"for=6.6.6.6;host="a\\", for=192.0.2.1;host="b\\""#;
    assert_eq!(
        forwarded(&[even]),
        "192.0.2.1",
        "an escaped backslash before the quote"
    );
}

#[test]
fn a_quote_that_a_client_opened_swallows_nothing_of_a_proxys() {
    for start in [
        "for=\"6.6.6.6",
        "\"",
        "for=6.6.6.6;host=\"a",
        "\"\\",
        "for=\"6.6.6.6\\\"",
        "\"\"\"",
        "\\\"",
        "\"a;b=\"c\"",
    ] {
        let line = format!("{start}, for=192.0.2.1");
        assert_eq!(forwarded(&[&line]), "192.0.2.1", "{start}");
        let line = format!("{start}, for=\"[2001:db8::1]:80\";by=\"_a\"");
        assert_eq!(forwarded(&[&line]), "2001:db8::1", "{start}");
        let line = format!("{start}, for=192.0.2.1, for=\"[fd00::1]:80\"");
        assert_eq!(forwarded(&[&line, "for=10.0.0.2"]), "192.0.2.1", "{start}");
    }
}

#[test]
fn only_the_header_that_is_configured_is_read() {
    let both = [
        (X_FORWARDED_FOR, "192.0.2.1"),
        (FORWARDED, "for=198.51.100.2"),
    ];
    assert_eq!(
        origin_by(AddressFrom::XForwardedFor, PROXY, &both),
        "192.0.2.1"
    );
    assert_eq!(
        origin_by(AddressFrom::Forwarded, PROXY, &both),
        "198.51.100.2"
    );
    assert_eq!(origin_by(AddressFrom::Connection, PROXY, &both), PROXY);
    for (header, from) in [(0, AddressFrom::Forwarded), (1, AddressFrom::XForwardedFor)] {
        assert_eq!(
            origin_by(from, PROXY, &both[header..=header]),
            PROXY,
            "nor instead of it"
        );
    }
    for name in [
        "x-real-ip",
        "true-client-ip",
        "cf-connecting-ip",
        "x_forwarded_for",
        "x-forwarded",
    ] {
        let headers = [(HeaderName::from_static(name), "192.0.2.1")];
        assert_eq!(
            origin_by(AddressFrom::default(), PROXY, &headers),
            PROXY,
            "{name}"
        );
    }
}

#[test]
fn a_stranger_is_believed_in_no_header() {
    let both = [
        (X_FORWARDED_FOR, "10.0.0.1, 6.6.6.6"),
        (FORWARDED, "for=10.0.0.1, for=6.6.6.6"),
    ];
    for from in [
        AddressFrom::XForwardedFor,
        AddressFrom::Forwarded,
        AddressFrom::Connection,
    ] {
        for stranger in ["192.0.2.1", "2001:db8::1", "11.0.0.1", "fe00::1"] {
            assert_eq!(origin_by(from, stranger, &both), stranger, "{from:?}");
        }
    }
    let nobody = TrustedProxies::default();
    assert!(!nobody.contains(PROXY.parse().unwrap()));
}

#[test]
fn ipv6_is_cut_to_its_prefix_and_ipv4_never() {
    let address = "2001:db8:1:2:3:4:5:6";
    assert_eq!(masked(address, 64), "2001:db8:1:2::");
    assert_eq!(masked(address, 48), "2001:db8:1::");
    assert_eq!(masked(address, 128), address);
    assert_eq!(masked(address, 127), address);
    assert_eq!(masked("2001:db8:1:2:3:4:5:7", 127), address);
    assert_eq!(masked(address, 1), "::");
    assert_eq!(masked("ffff::1", 1), "8000::");
    for prefix in [1, 32, 48, 64, 128] {
        assert_eq!(masked("203.0.113.7", prefix), "203.0.113.7");
    }
}

#[test]
fn no_more_than_a_hundred_hops_are_looked_at() {
    for (hops, expected) in [(99, "192.0.2.1"), (100, "10.0.0.2")] {
        let hops = vec!["10.0.0.2"; hops].join(",");
        assert_eq!(origin(PROXY, &[&format!("192.0.2.1,{hops}")]), expected);
    }
}

#[test]
fn ipv4_within_ipv6_is_unfolded_before_anything_is_cut() {
    for prefix in [1, 48, 64, 96, 128] {
        assert_eq!(
            masked("::ffff:203.0.113.7", prefix),
            "203.0.113.7",
            "mapped"
        );
        assert_eq!(
            masked("::ffff:203.0.113.8", prefix),
            "203.0.113.8",
            "mapped"
        );
        assert_eq!(
            masked("64:ff9b::203.0.113.7", prefix),
            "203.0.113.7",
            "NAT64"
        );
        assert_eq!(
            masked("64:ff9b::203.0.113.8", prefix),
            "203.0.113.8",
            "NAT64"
        );
    }
    for other in [
        "64:ff9b::1:203.0.113.7",
        "64:ff9b:1::203.0.113.7",
        "64:ff9c::cb00:7107",
        "::203.0.113.7",
    ] {
        let whole: IpAddr = other.parse().unwrap();
        assert_eq!(
            masked(other, 128),
            whole.to_string(),
            "{other} is no NAT64's"
        );
        assert!(masked(other, 64).contains("::"), "{other}");
    }
}
