//! The call `grpc.health.v1.Health/Check`. Its two messages have one field each, so they are encoded and decoded by hand.

use bytes::Bytes;
use http::Response;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;

pub(super) const PATH: &str = "/grpc.health.v1.Health/Check";

/// The longest answer that is read, in bytes.
const LONGEST: usize = 4_096;

/// The size of a message's prefix in bytes: a flag for compression, and the length of the message.
const PREFIX: usize = 5;

/// The status `SERVING` of a service.
const SERVING: u64 = 1;

/// Returns the body of the call: one message, with the name of the service in field 1 unless the name is empty.
pub(super) fn message(service: &str) -> Bytes {
    let mut body = vec![0; PREFIX];
    if !service.is_empty() {
        body.push(1 << 3 | 2);
        let mut length = service.len();
        while length > 0x7f {
            body.push((length & 0x7f | 0x80) as u8);
            length >>= 7;
        }
        body.push(length as u8);
        body.extend(service.as_bytes());
    }
    let length = (body.len() - PREFIX) as u32;
    body[1..PREFIX].copy_from_slice(&length.to_be_bytes());
    body.into()
}

/// Reads an answer, and returns an error with the reason if the answer fails the check.
pub(super) async fn judge(answer: Response<Incoming>) -> Result<(), Box<str>> {
    let (head, body) = answer.into_parts();
    let body = Limited::new(body, LONGEST).collect().await;
    let body = body.map_err(|error| format!("the answer is not whole: {error}"))?;
    // If an answer has no message, its `grpc-status` is in the head, not in trailers.
    let trailers = body.trailers().unwrap_or(&head.headers);
    let code = trailers.get("grpc-status").map(|code| code.as_bytes());
    match code.and_then(|code| std::str::from_utf8(code).ok()?.parse::<u32>().ok()) {
        Some(0) => {}
        Some(5) => return Err("grpc-status is 5: the server does not know this service".into()),
        Some(12) => return Err("grpc-status is 12: the server has no grpc.health.v1.Health".into()),
        Some(code) => return Err(format!("grpc-status is {code}").into()),
        None => return Err("the answer has no grpc-status".into()),
    }
    match status(&body.to_bytes()) {
        Some(SERVING) => Ok(()),
        Some(status) => Err(format!("the service is not SERVING: its status is {status}").into()),
        None => Err("the answer is no HealthCheckResponse".into()),
    }
}

/// Returns field 1, the status, of the only message in a body; 0 if the field is missing. Returns `None` if the message cannot be decoded.
fn status(body: &[u8]) -> Option<u64> {
    let (prefix, mut rest) = body.split_first_chunk::<PREFIX>()?;
    let [compressed, length @ ..] = prefix;
    if *compressed != 0 || u32::from_be_bytes(*length) as usize != rest.len() {
        return None;
    }
    let mut status = 0;
    while !rest.is_empty() {
        let tag = varint(&mut rest)?;
        let skipped = match tag & 7 {
            0 => {
                let value = varint(&mut rest)?;
                if tag >> 3 == 1 {
                    status = value;
                }
                0
            }
            1 => 8,
            2 => usize::try_from(varint(&mut rest)?).ok()?,
            5 => 4,
            _ => return None,
        };
        rest = rest.get(skipped..)?;
    }
    Some(status)
}

/// Takes a variable-length number: seven bits a byte, the lowest bits first.
fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        value |= u64::from(byte & 0x7f) << shift;
        if *byte < 0x80 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_names_its_service() {
        assert_eq!(message("")[..], [0; 5]);
        assert_eq!(message("a.B")[..], *b"\0\0\0\0\x05\x0a\x03a.B");
        let long = message(&"x".repeat(128));
        assert_eq!(
            (long.len(), &long[..8]),
            (136, &b"\0\0\0\0\x83\x0a\x80\x01"[..])
        );
    }

    #[test]
    fn the_status_is_field_1_of_one_whole_message() {
        for (body, expected) in [
            (&b"\0\0\0\0\x02\x08\x01"[..], Some(1)),
            (b"\0\0\0\0\x02\x08\x02", Some(2)),
            (b"\0\0\0\0\0", Some(0)),
            // Unknown fields of each wire type, as later versions may have them.
            (
                b"\0\0\0\0\x13\x11AAAAAAAA\x1a\x01x\x25AAAA\x08\x01",
                Some(1),
            ),
            (b"\0\0\0\0\x03\x08\x81\x01", Some(129)),
            // Invalid bodies: compressed, cut, two messages, a length beyond the end, no message.
            (b"\x01\0\0\0\x02\x08\x01", None),
            (b"\0\0\0\0\x02\x08", None),
            (b"\0\0\0\0\x02\x08\x01\0\0\0\0\0", None),
            (b"\0\0\0\0\x02\x12\x7f", None),
            (b"", None),
        ] {
            assert_eq!(status(body), expected, "{body:?}");
        }
    }
}
