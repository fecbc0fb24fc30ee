use super::*;

fn header(source: &str, length: usize) -> Start {
    Start::Header {
        source: (source != "-").then(|| source.parse().unwrap()),
        length,
    }
}

/// Returns a header of version 2.
fn v2(command: u8, family: u8, block: &[u8]) -> Vec<u8> {
    let length = u16::try_from(block.len()).unwrap().to_be_bytes();
    [V2_START, &[command, family], &length, block].concat()
}

#[test]
fn version_1_names_the_source() {
    for (line, source) in [
        (
            "PROXY TCP4 192.0.2.1 198.51.100.1 4711 443\r\n",
            "192.0.2.1:4711",
        ),
        (
            "PROXY TCP6 2001:db8::1 ::1 65535 0\r\n",
            "[2001:db8::1]:65535",
        ),
        ("PROXY UNKNOWN\r\n", "-"),
        ("PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n", "-"),
    ] {
        assert_eq!(parse(line.as_bytes()), header(source, line.len()), "{line}");
        let followed = format!("{line}GET / HTTP/1.1\r\n");
        assert_eq!(parse(followed.as_bytes()), header(source, line.len()));
        for cut in 0..line.len() {
            assert_eq!(
                parse(&line.as_bytes()[..cut]),
                Start::Incomplete,
                "{line} at {cut}"
            );
        }
    }
}

#[test]
fn version_1_is_taken_to_the_letter() {
    let long = format!("PROXY UNKNOWN {}", "x".repeat(V1_LONGEST));
    for line in [
        "PROXY TCP4 192.0.2.1 198.51.100.1 4711\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.1 4711 443 5\r\n",
        "PROXY TCP4  192.0.2.1 198.51.100.1 4711 443\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.1 +1 443\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.1 65536 443\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.1 04711 443\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.1 4711 00\r\n",
        "PROXY TCP4 2001:db8::1 ::1 4711 443\r\n",
        "PROXY TCP6 192.0.2.1 198.51.100.1 4711 443\r\n",
        "PROXY TCP4 192.0.2.256 198.51.100.1 4711 443\r\n",
        "PROXY UDP4 192.0.2.1 198.51.100.1 4711 443\r\n",
        "PROXY \r\n",
        "PROXY /path HTTP/1.1\r\n",
        &long,
    ] {
        assert_eq!(parse(line.as_bytes()), Start::Malformed, "{line:?}");
    }
}

#[test]
fn version_2_names_the_source() {
    let v4 = [192, 0, 2, 1, 198, 51, 100, 1, 0x12, 0x67, 1, 0xbb];
    let mut v6 = [0; 36];
    v6[..16].copy_from_slice(&"2001:db8::1".parse::<Ipv6Addr>().unwrap().octets());
    v6[33] = 80;
    let with_extras = [&v4[..], &[0x04, 0, 1, 0]].concat();
    for (bytes, source) in [
        (v2(0x21, 0x11, &v4), "192.0.2.1:4711"),
        (v2(0x21, 0x21, &v6), "[2001:db8::1]:80"),
        (v2(0x21, 0x11, &with_extras), "192.0.2.1:4711"),
        // Headers without a source: the proxy's own connections, unspecified families, Unix sockets, datagrams.
        (v2(0x20, 0x00, &[]), "-"),
        (v2(0x20, 0x11, &v4), "-"),
        (v2(0x21, 0x00, &[7; 9]), "-"),
        (v2(0x21, 0x31, &[0; 216]), "-"),
        (v2(0x21, 0x12, &v4), "-"),
    ] {
        assert_eq!(parse(&bytes), header(source, bytes.len()), "{bytes:?}");
        for cut in 0..bytes.len() {
            assert_eq!(
                parse(&bytes[..cut]),
                Start::Incomplete,
                "{bytes:?} at {cut}"
            );
        }
    }
}

#[test]
fn version_2_is_taken_to_the_letter() {
    for bytes in [
        v2(0x11, 0x11, &[0; 12]),
        v2(0x22, 0x11, &[0; 12]),
        v2(0x21, 0x11, &[0; 11]),
        v2(0x21, 0x21, &[0; 35]),
        v2(0x21, 0x41, &[0; 36]),
        v2(0x21, 0x13, &[0; 12]),
        v2(0x21, 0x00, &[0; V2_LONGEST + 1]),
    ] {
        assert_eq!(parse(&bytes), Start::Malformed, "{:?}", &bytes[..16]);
    }
}

#[test]
fn whatever_else_comes_speaks_for_itself() {
    for text in [
        "GET / HTTP/1.1\r\n",
        "PRI * HTTP/2.0\r\n",
        "PROXI",
        "PUT",
        "\r\nG",
        "\x16\x03",
    ] {
        assert_eq!(parse(text.as_bytes()), Start::Absent, "{text:?}");
    }
    assert_eq!(parse(b""), Start::Incomplete);
    assert_eq!(parse(b"P"), Start::Incomplete);
    assert_eq!(parse(b"\r\n"), Start::Incomplete);
}
