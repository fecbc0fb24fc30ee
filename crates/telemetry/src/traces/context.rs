//! The trace of a request, from its header `traceparent` (W3C Trace Context).

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::random;

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// The length of `00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01`, in bytes.
const LENGTH: usize = 55;
const SAMPLED: u8 = 1;
const RANDOM: u8 = 2;

/// The trace and the span of the peer, from its `traceparent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parent {
    trace_id: u128,
    span: u64,
    flags: u8,
}

impl Parent {
    /// Reads `traceparent`. Returns `None` if the header is missing, repeated or invalid.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        let mut values = headers.get_all(TRACEPARENT).iter();
        let value = values.next()?;
        if values.next().is_some() {
            return None;
        }
        Self::parse(value.as_bytes())
    }

    fn parse(text: &[u8]) -> Option<Self> {
        let (head, more) = text.split_at_checked(LENGTH)?;
        let [version @ .., _] = head.first_chunk::<3>()?;
        // Versions after 00 may append fields after another `-`.
        let is_whole = match (version, more) {
            (b"ff", _) => false,
            (_, []) => true,
            (version, [b'-', ..]) => version != b"00",
            _ => false,
        };
        let has_dashes = [2, 35, 52].iter().all(|at| head[*at] == b'-');
        hex(version)?;
        let trace_id = hex(&head[3..35])?;
        let span = hex(&head[36..52])? as u64;
        let flags = hex(&head[53..])? as u8;
        let is_good = is_whole && has_dashes && trace_id != 0 && span != 0;
        is_good.then_some(Self {
            trace_id,
            span,
            flags,
        })
    }

    pub(super) const fn is_sampled(self) -> bool {
        self.flags & SAMPLED != 0
    }
}

/// The trace of a request, and the IDs of the gateway's spans in it.
#[derive(Clone, Copy, Debug)]
pub struct TraceContext {
    /// The ID of the trace.
    pub trace_id: u128,
    /// The ID of the peer's span.
    pub(super) parent: Option<u64>,
    /// The ID of the gateway's span for the request.
    pub(super) span: u64,
    /// The ID of the span for the request to a server. The `traceparent` for the server contains it.
    pub(super) outgoing: u64,
    /// Whether the trace is recorded.
    pub is_sampled: bool,
    /// Whether the trace ID is random. For a peer's trace ID, this is the flag that the peer sent.
    is_random: bool,
}

impl TraceContext {
    /// Continues the peer's trace. Without a peer's trace, begins a new trace.
    pub(super) fn of(parent: Option<Parent>, is_sampled: bool) -> Self {
        let begun = || u128::from(new_id()) << 64 | u128::from(new_id());
        Self {
            trace_id: parent.map_or_else(begun, |parent| parent.trace_id),
            parent: parent.map(|parent| parent.span),
            span: new_id(),
            outgoing: new_id(),
            is_sampled,
            is_random: parent.is_none_or(|parent| parent.flags & RANDOM != 0),
        }
    }

    /// Sets `traceparent` for the next server.
    pub fn write(self, headers: &mut HeaderMap) {
        let flag = |is_set, flag: u8| if is_set { flag } else { 0 };
        let flags = flag(self.is_sampled, SAMPLED) | flag(self.is_random, RANDOM);
        let mut text = *b"00-00000000000000000000000000000000-0000000000000000-00";
        write_hex(&mut text[3..35], self.trace_id);
        write_hex(&mut text[36..52], self.outgoing.into());
        write_hex(&mut text[53..], flags.into());
        if let Ok(value) = HeaderValue::from_bytes(&text) {
            headers.insert(TRACEPARENT, value);
        }
        if self.parent.is_none() {
            // The trace begins at this gateway, so the client's `tracestate` belongs to another trace.
            headers.remove(TRACESTATE);
        }
    }
}

/// Returns a random ID. IDs are never 0.
pub(super) fn new_id() -> u64 {
    random::next().max(1)
}

/// Reads lower-case hexadecimal digits.
fn hex(digits: &[u8]) -> Option<u128> {
    digits.iter().try_fold(0, |number, digit| {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(number << 4 | u128::from(digit))
    })
}

fn write_hex(digits: &mut [u8], number: u128) {
    let mut rest = number;
    for digit in digits.iter_mut().rev() {
        *digit = b"0123456789abcdef"[(rest & 15) as usize];
        rest >>= 4;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn what_is_well_formed_is_read() {
        let parent = Parent::parse(TRACE.as_bytes()).unwrap();
        assert_eq!(parent.trace_id, 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c);
        assert_eq!(parent.span, 0xb7ad_6b71_6920_3331);
        assert!(parent.is_sampled());
        let later = format!("cc{}-what-the-future-brings", &TRACE[2..]);
        assert_eq!(Parent::parse(later.as_bytes()), Some(parent));
    }

    #[test]
    fn what_is_not_is_ignored() {
        for wrong in [
            "",
            "00",
            &TRACE[..54],
            &format!("{TRACE}-x"),
            &format!("{TRACE}x"),
            &format!("cc{}x", &TRACE[2..]),
            &TRACE.replacen("00", "ff", 1),
            &TRACE.replacen("00", "0g", 1),
            &TRACE.replace("0af7", "0AF7"),
            &TRACE.replace("-01", "_01"),
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        ] {
            assert_eq!(Parent::parse(wrong.as_bytes()), None, "{wrong}");
        }
        let mut twice = HeaderMap::new();
        twice.append(TRACEPARENT, HeaderValue::from_static(TRACE));
        assert!(Parent::of(&twice).is_some());
        twice.append(TRACEPARENT, HeaderValue::from_static(TRACE));
        assert_eq!(Parent::of(&twice), None);
    }

    #[test]
    fn what_is_written_can_be_read() {
        for (parent, is_sampled) in [(Some(TRACE), false), (None, true)] {
            let parent = parent.and_then(|text| Parent::parse(text.as_bytes()));
            let context = TraceContext::of(parent, is_sampled);
            let mut headers = HeaderMap::new();
            headers.insert(TRACESTATE, HeaderValue::from_static("a=b"));
            context.write(&mut headers);
            let written = Parent::of(&headers).unwrap();
            assert_eq!(written.trace_id, context.trace_id);
            assert_eq!(written.span, context.outgoing);
            assert_eq!(written.is_sampled(), is_sampled);
            assert_eq!(headers.contains_key(TRACESTATE), parent.is_some());
        }
    }
}
