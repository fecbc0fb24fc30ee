//! Checks that `proxy_protocol::parse` follows its rules for any first bytes of a connection.
//!
//! An input is parsed alone, and again with enough bytes after it that the parser must decide. The last 18 bytes are also read as an
//! address and a port. The target writes headers with this address and port, and parses the headers.

#![no_main]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use libfuzzer_sys::fuzz_target;
use tidegate_net::proxy_protocol::{Start, parse};

const V1_START: &[u8] = b"PROXY ";
const V1_LONGEST: usize = 107;
const V2_START: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
const V2_FIXED: usize = 16;
const V2_LONGEST: usize = 4_096;

/// Possible bytes after a header: no bytes, a request, another header, and bytes that could continue the header.
const TAILS: [&[u8]; 6] = [
    b"",
    b"GET / HTTP/1.1\r\n\r\n",
    b"PROXY UNKNOWN\r\n",
    b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0",
    b"\r\n",
    b"\0",
];

fuzz_target!(|data: &[u8]| {
    check(data);
    for filler in [&b"\0"[..], b"\r\n", b"7"] {
        let all = data.iter().chain(filler.iter().cycle()).copied();
        let enough = data.len().max(V2_FIXED + V2_LONGEST);
        check(&all.take(enough).collect::<Vec<_>>());
    }
    if let Some(bytes) = data.last_chunk::<18>() {
        let [address @ .., high, low] = *bytes;
        let port = u16::from_be_bytes([high, low]);
        let v6 = Ipv6Addr::from(address);
        let v4 = Ipv4Addr::from_bits(v6.to_bits() as u32);
        for address in [IpAddr::V6(v6), IpAddr::V4(v4)] {
            can_be_written(SocketAddr::new(address, port));
        }
    }
});

fn check(bytes: &[u8]) {
    let begins = |start: &[u8]| bytes.starts_with(start);
    let may_begin = |start: &[u8]| start.starts_with(bytes) || begins(start);
    let may_be_header = may_begin(V1_START) || may_begin(V2_START);
    let is_begun = begins(V1_START) || begins(V2_START);
    let start = parse(bytes);
    match start {
        Start::Incomplete => {
            assert!(may_be_header, "nothing more is needed");
            let most = match begins(V1_START) {
                true => V1_LONGEST,
                false => V2_FIXED + V2_LONGEST,
            };
            assert!(bytes.len() < most, "waits for ever");
            return;
        }
        Start::Absent => assert!(!may_be_header, "a header may become of it"),
        Start::Malformed => assert!(is_begun, "only what begins like a header is a bad one"),
        Start::Header { source, length } => {
            assert!(is_begun && length <= bytes.len());
            is_accepted_rightly(&bytes[..length], source);
            if let Some(source) = source {
                can_be_written(source);
            }
        }
    }
    is_decided(bytes, start);
}

/// Requires that the result stays the same if more bytes follow.
fn is_decided(bytes: &[u8], start: Start) {
    for tail in TAILS {
        assert_eq!(parse(&[bytes, tail].concat()), start, "before {tail:?}");
    }
}

/// Requires that every shorter prefix of `header` is incomplete, and that `header` names `source` according to the specification.
fn is_accepted_rightly(header: &[u8], source: Option<SocketAddr>) {
    let length = header.len();
    let start = Start::Header { source, length };
    is_decided(header, start);
    for cut in 0..length {
        assert_eq!(parse(&header[..cut]), Start::Incomplete, "cut at {cut}");
    }
    let named = match header.starts_with(V1_START) {
        true => named_by_version_1(header),
        false => named_by_version_2(header),
    };
    assert_eq!(named, Some(source), "by the definition");
}

/// Returns the source that a header of version 1 names, according to the specification. The outer option is `None` if the header is
/// invalid. The inner option is `None` if the header names no source.
fn named_by_version_1(header: &[u8]) -> Option<Option<SocketAddr>> {
    let line = std::str::from_utf8(header).ok()?.strip_suffix("\r\n")?;
    if header.len() > V1_LONGEST || line.contains("\r\n") {
        return None;
    }
    match line.split(' ').collect::<Vec<_>>()[..] {
        ["PROXY", "UNKNOWN", ..] => Some(None),
        ["PROXY", family, source, destination, port, other] => {
            let (source, destination): (IpAddr, IpAddr) =
                (source.parse().ok()?, destination.parse().ok()?);
            let is_v4 = match family {
                "TCP4" => true,
                "TCP6" => false,
                _ => return None,
            };
            let (number, other_number): (u16, u16) = (port.parse().ok()?, other.parse().ok()?);
            // Refuses signs and leading zeros.
            let is_plain = number.to_string() == port && other_number.to_string() == other;
            let fits = source.is_ipv4() == is_v4 && destination.is_ipv4() == is_v4;
            (is_plain && fits).then_some(Some(SocketAddr::new(source, number)))
        }
        _ => None,
    }
}

/// Returns the source that a header of version 2 names, like [`named_by_version_1`].
fn named_by_version_2(header: &[u8]) -> Option<Option<SocketAddr>> {
    let rest = header.strip_prefix(V2_START)?;
    let [command, family, high, low, block @ ..] = rest else {
        return None;
    };
    let declared = usize::from(u16::from_be_bytes([*high, *low]));
    if declared != block.len() || declared > V2_LONGEST {
        return None;
    }
    match (command, family) {
        // The command LOCAL names no source, so the rest of the header is ignored.
        (0x20, _) => Some(None),
        (0x21, 0x11) => {
            let (address, port) = (block.first_chunk::<4>()?, block.get(8..10)?);
            block.get(..12)?;
            Some(Some(
                (*address, u16::from_be_bytes([port[0], port[1]])).into(),
            ))
        }
        (0x21, 0x21) => {
            let (address, port) = (block.first_chunk::<16>()?, block.get(32..34)?);
            block.get(..36)?;
            Some(Some(
                (*address, u16::from_be_bytes([port[0], port[1]])).into(),
            ))
        }
        // Unspecified families, datagrams and Unix sockets are valid, but have no TCP source.
        (0x21, 0x00..=0x02 | 0x12 | 0x22 | 0x31 | 0x32) => Some(None),
        _ => None,
    }
}

/// Requires that headers of both versions with this source are accepted, and that version 1 accepts only one spelling of the header.
fn can_be_written(source: SocketAddr) {
    let line = version_1(source);
    let headers = [
        line.as_bytes(),
        &version_2(source, b""),
        &version_2(source, b"\x04\0\x01\0"),
    ];
    for header in headers {
        let length = header.len();
        let source = Some(source);
        let start = Start::Header { source, length };
        assert_eq!(parse(header), start, "{header:?}");
        is_accepted_rightly(header, source);
    }
    for (blank, _) in line.match_indices(' ') {
        for other in ["  ", "\t", ""] {
            let mut line = line.clone();
            line.replace_range(blank..=blank, other);
            let start = parse(line.as_bytes());
            assert!(!matches!(start, Start::Header { .. }), "{line:?}");
        }
    }
    // Only `\r\n` may end the header of version 1, without blanks before it.
    let bare = line.trim_end();
    for end in [" \r\n", "\n", "\n\r", "\r", " x\r\n", "\n\r\n"] {
        let start = parse(format!("{bare}{end}").as_bytes());
        assert!(!matches!(start, Start::Header { .. }), "{bare}{end:?}");
    }
}

fn version_1(source: SocketAddr) -> String {
    let (family, destination) = match source {
        SocketAddr::V4(_) => ("TCP4", "255.255.255.255"),
        SocketAddr::V6(_) => ("TCP6", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    };
    let (address, port) = (source.ip(), source.port());
    format!("PROXY {family} {address} {destination} {port} 65535\r\n")
}

fn version_2(source: SocketAddr, extras: &[u8]) -> Vec<u8> {
    let (family, mut block) = match source.ip() {
        IpAddr::V4(address) => (0x11, [address.octets(), [255; 4]].concat()),
        IpAddr::V6(address) => (0x21, [address.octets(), [255; 16]].concat()),
    };
    block.extend(source.port().to_be_bytes());
    block.extend([0xff; 2]);
    block.extend(extras);
    let declared = u16::try_from(block.len())
        .expect("a few bytes")
        .to_be_bytes();
    [V2_START, &[0x21, family], &declared, &block].concat()
}
