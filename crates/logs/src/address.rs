//! Reads addresses, as logs have them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Reads an address, perhaps with a port: `192.0.2.7`, `192.0.2.7:80`, `2001:db8::7`, `[2001:db8::7]:80`.
pub(crate) fn address(text: &[u8]) -> Option<IpAddr> {
    if let Some(inner) = text.strip_prefix(b"[") {
        let end = inner.iter().position(|byte| *byte == b']')?;
        return match &inner[end + 1..] {
            [] => v6(&inner[..end]),
            [b':', port @ ..] if is_port(port) => v6(&inner[..end]),
            _ => None,
        };
    }
    match v4(text)? {
        Ok((address, [])) => Some(address),
        Ok((address, [b':', port @ ..])) if is_port(port) => Some(address),
        Ok(_) => None,
        Err(NotV4) => v6(text),
    }
}

/// Reads an address with a port after the last colon. An IPv6 address needs no brackets.
pub(crate) fn address_with_port(text: &[u8]) -> Option<IpAddr> {
    let colon = memchr::memrchr(b':', text)?;
    let (host, port) = (&text[..colon], &text[colon + 1..]);
    is_port(port).then(|| address(host)).flatten()
}

fn is_port(text: &[u8]) -> bool {
    (1..=5).contains(&text.len()) && text.iter().all(u8::is_ascii_digit)
}

struct NotV4;

/// Returns the IPv4 address at the beginning of a text, and the rest. `NotV4` if the text may be IPv6. `None` if the text is neither.
fn v4(text: &[u8]) -> Option<Result<(IpAddr, &[u8]), NotV4>> {
    let mut rest = text;
    let mut octets = [0_u8; 4];
    for (nth, octet) in octets.iter_mut().enumerate() {
        if nth > 0 {
            match rest {
                [b'.', behind @ ..] => rest = behind,
                _ if nth == 1 => return Some(Err(NotV4)),
                _ => return None,
            }
        }
        let mut value = 0_u32;
        let mut digits = 0;
        while let [digit @ b'0'..=b'9', behind @ ..] = rest
            && digits < 4
        {
            value = value * 10 + u32::from(digit - b'0');
            digits += 1;
            rest = behind;
        }
        match u8::try_from(value) {
            Ok(value) if digits > 0 => *octet = value,
            _ if nth == 0 => return Some(Err(NotV4)),
            _ => return None,
        }
    }
    Some(Ok((Ipv4Addr::from(octets).into(), rest)))
}

fn v6(text: &[u8]) -> Option<IpAddr> {
    // Leaves out a zone, such as `%eth0`.
    let end = text.iter().position(|byte| *byte == b'%');
    let text = std::str::from_utf8(&text[..end.unwrap_or(text.len())]).ok()?;
    text.parse::<Ipv6Addr>().ok().map(IpAddr::V6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_forms_of_an_address() {
        for (text, expected) in [
            ("192.0.2.7", Some("192.0.2.7")),
            ("255.255.255.255:65535", Some("255.255.255.255")),
            ("2001:db8::7", Some("2001:db8::7")),
            ("::1", Some("::1")),
            ("1::", Some("1::")),
            ("::ffff:192.0.2.7", Some("::ffff:192.0.2.7")),
            ("fe80::1%eth0", Some("fe80::1")),
            ("[2001:db8::7]", Some("2001:db8::7")),
            ("[2001:db8::7]:80", Some("2001:db8::7")),
            ("", None),
            ("-", None),
            ("192.0.2", None),
            ("192.0.2.256", None),
            ("192.0.2.7.", None),
            ("192.0.2.7:", None),
            ("192.0.2.7x", None),
            ("99999.0.2.7", None),
            ("[::1", None),
            ("[::1]x", None),
            ("host", None),
        ] {
            let expected = expected.map(|it| it.parse().unwrap());
            assert_eq!(address(text.as_bytes()), expected, "{text}");
        }
        assert_eq!(
            address_with_port(b"::1:56558"),
            Some("::1".parse().unwrap())
        );
        assert_eq!(
            address_with_port(b"127.0.0.1:80"),
            Some("127.0.0.1".parse().unwrap())
        );
        assert_eq!(address_with_port(b"127.0.0.1"), None);
    }
}
