//! Readers of calls, and their bounds.

use super::*;

#[test]
fn a_timeout_has_a_number_and_a_unit() {
    let read = |text: &'static str| {
        let value = http::HeaderValue::from_static(text);
        timeout(&HeaderMap::from_iter([(
            http::HeaderName::from_static("grpc-timeout"),
            value,
        )]))
    };
    for (text, micros) in [
        ("20m", 20_000),
        ("20000u", 20_000),
        ("1S", 1_000_000),
        ("2M", 120_000_000),
        ("1H", 3_600_000_000),
        ("20000000n", 20_000),
    ] {
        assert_eq!(read(text), Some(Duration::from_micros(micros)), "{text}");
    }
    for text in ["", "m", "20", "-1S", "1.5S", "123456789S", "20 m"] {
        assert_eq!(read(text), None, "{text}");
    }
    assert_eq!(timeout(&HeaderMap::new()), None);
}

#[test]
fn hits_of_a_descriptor_replace_those_of_the_call() {
    let descriptor = |own: Option<u64>| RateLimitDescriptor {
        hits_addend: own.map(|value| protobuf::UInt64Value { value }),
        ..RateLimitDescriptor::default()
    };
    let hits = |call: u32, own| {
        let call = Call::read(RateLimitRequest {
            hits_addend: call,
            descriptors: vec![descriptor(own)],
            ..RateLimitRequest::default()
        });
        call.unwrap().descriptors[0].hits
    };
    assert_eq!(hits(0, None), 1);
    assert_eq!(hits(3, None), 3);
    assert_eq!(hits(3, Some(0)), 0);
    assert_eq!(hits(u32::MAX, Some(u64::MAX)), u64::MAX);
}

#[test]
fn calls_are_bounded() {
    let call = |descriptors: usize, entries: usize| {
        let descriptor = RateLimitDescriptor {
            entries: vec![Default::default(); entries],
            ..RateLimitDescriptor::default()
        };
        Call::read(RateLimitRequest {
            descriptors: vec![descriptor; descriptors],
            ..RateLimitRequest::default()
        })
    };
    assert!(call(MAX_DESCRIPTORS, MAX_ENTRIES).is_ok());
    assert!(call(MAX_DESCRIPTORS + 1, 1).is_err());
    assert!(call(1, MAX_ENTRIES + 1).is_err());
}

#[test]
fn units_are_those_of_the_protocol() {
    assert_eq!(unit(1_000_000), Unit::Second);
    assert_eq!(unit(86_400_000_000), Unit::Day);
    assert_eq!(unit(7 * 86_400_000_000), Unit::Week);
    assert_eq!(unit(90_000_000), Unit::Unknown);
}
