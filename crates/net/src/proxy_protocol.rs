//! The PROXY protocol, versions 1 and 2: a proxy that forwards a connection first sends a header with the client's address.
//!
//! The parser follows sections 2.1 and 2.2 of the HAProxy project's specification strictly. The code that serves connections decides which
//! proxies are trusted.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The first bytes of every header of version 1.
const V1_START: &[u8] = b"PROXY ";
/// The longest header of version 1 with its line end, in bytes.
const V1_LONGEST: usize = 107;

/// The first bytes of every header of version 2.
const V2_START: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// The size of the fixed part of version 2 in bytes: the start, version and command, family, and length.
const V2_FIXED: usize = 16;
/// The most bytes that are read after the fixed part. Addresses take 216 bytes at most. Extensions follow them, such as names in
/// certificates.
const V2_LONGEST: usize = 4_096;

/// The result of parsing a connection's first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// More bytes are needed to decide whether there is a header, or to complete the header.
    Incomplete,
    /// There is no header, so the client has the address of the connection.
    Absent,
    /// A complete header.
    Header {
        /// The client's address. `None` for a connection of the proxy itself, such as a health check. `None` also for a client without an
        /// IP address.
        source: Option<SocketAddr>,
        /// The length of the header in bytes. The client's bytes follow it.
        length: usize,
    },
    /// The header is broken, so the bytes after it cannot be trusted.
    Malformed,
}

/// Whether a connection begins with a header.
pub fn is_header(bytes: &[u8]) -> bool {
    bytes.starts_with(V1_START) || bytes.starts_with(V2_START)
}

/// Parses the start of a connection.
pub fn parse(bytes: &[u8]) -> Start {
    let begins = |start: &[u8]| {
        let length = bytes.len().min(start.len());
        bytes[..length] == start[..length]
    };
    if begins(V2_START) {
        version_2(bytes)
    } else if begins(V1_START) {
        version_1(bytes)
    } else {
        Start::Absent
    }
}

/// Parses `PROXY TCP4 192.0.2.1 198.51.100.1 4711 443\r\n`, or `PROXY UNKNOWN …\r\n`.
fn version_1(bytes: &[u8]) -> Start {
    let head = &bytes[..bytes.len().min(V1_LONGEST)];
    let Some(end) = head.windows(2).position(|pair| pair == b"\r\n") else {
        return match head.len() {
            V1_LONGEST => Start::Malformed,
            _ => Start::Incomplete,
        };
    };
    let line = std::str::from_utf8(&head[..end]);
    let source = line.ok().and_then(|line| {
        let mut words = line.split(' ').skip(1);
        match words.next()? {
            "UNKNOWN" => Some(None),
            "TCP4" => addresses::<Ipv4Addr>(words).map(Some),
            "TCP6" => addresses::<Ipv6Addr>(words).map(Some),
            _ => None,
        }
    });
    match source {
        Some(source) => Start::Header {
            source,
            length: end + 2,
        },
        None => Start::Malformed,
    }
}

/// Returns the source: the first address and the first port. Returns `None` unless the words are exactly two addresses and two ports.
fn addresses<'a, A>(mut words: impl Iterator<Item = &'a str>) -> Option<SocketAddr>
where
    A: std::str::FromStr + Into<IpAddr>,
{
    let mut address = || words.next()?.parse::<A>().ok();
    let (source, _) = (address()?, address()?);
    let mut port = || {
        let word = words.next()?;
        // Leading zeros are refused, because other programs may read such a port as octal.
        let plain = word == "0"
            || (word.bytes().all(|byte| byte.is_ascii_digit()) && !word.starts_with('0'));
        word.parse::<u16>().ok().filter(|_| plain)
    };
    let (port, _) = (port()?, port()?);
    words
        .next()
        .is_none()
        .then(|| SocketAddr::new(source.into(), port))
}

fn version_2(bytes: &[u8]) -> Start {
    let Some((fixed, rest)) = bytes.split_at_checked(V2_FIXED) else {
        return Start::Incomplete;
    };
    let length = usize::from(u16::from_be_bytes([fixed[14], fixed[15]]));
    if length > V2_LONGEST {
        return Start::Malformed;
    }
    let source = match fixed[12] {
        // The command LOCAL marks a connection of the proxy itself, which has no client.
        0x20 => Some(None),
        0x21 => of_family(fixed[13], length, rest),
        _ => None,
    };
    match source {
        None => Start::Malformed,
        Some(_) if rest.len() < length => Start::Incomplete,
        Some(source) => Start::Header {
            source,
            length: V2_FIXED + length,
        },
    }
}

/// Returns the source address for a family and protocol. The outer `None` means a malformed header. The inner `None` means a source without
/// an IP address, or bytes that have not arrived yet.
fn of_family(family: u8, length: usize, rest: &[u8]) -> Option<Option<SocketAddr>> {
    match family {
        // TCP over IPv4: two addresses, then two ports.
        0x11 if length >= 12 => Some(rest.first_chunk::<12>().map(|block| {
            let [a, b, c, d, _, _, _, _, high, low, ..] = *block;
            let port = u16::from_be_bytes([high, low]);
            SocketAddr::new(Ipv4Addr::new(a, b, c, d).into(), port)
        })),
        // TCP over IPv6: two addresses, then two ports.
        0x21 if length >= 36 => Some(rest.first_chunk::<36>().and_then(|block| {
            let source = block.first_chunk::<16>()?;
            let port = u16::from_be_bytes([block[32], block[33]]);
            Some(SocketAddr::new(Ipv6Addr::from(*source).into(), port))
        })),
        0x11 | 0x21 => None,
        // Unspecified families, datagrams and Unix sockets are valid, but have no TCP source.
        0x00..=0x02 | 0x12 | 0x22 | 0x31 | 0x32 => Some(None),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
