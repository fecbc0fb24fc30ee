use miniz_oxide::deflate::compress_to_vec;

use super::*;
use crate::JsonPath;

fn reader(content_type: &str, encoding: &str) -> Result<BodyReader, Unreadable> {
    let paths = ["usage.total_tokens", "model"].map(|path| path.parse::<JsonPath>().unwrap());
    BodyReader::new(content_type, encoding, paths)
}

fn number(content_type: &str, encoding: &str, body: &[u8]) -> Option<u64> {
    let mut whole = reader(content_type, encoding).unwrap();
    whole.read(body);
    for size in [1, 7] {
        let mut parted = reader(content_type, encoding).unwrap();
        body.chunks(size).for_each(|part| parted.read(part));
        assert_eq!(parted.found(0), whole.found(0), "in parts of {size}");
    }
    assert_eq!((whole.found(1), whole.found(2)), (None, None));
    whole.found(0)
}

/// A member of gzip with these flags, and all that they announce.
fn gzip(flags: u8, text: &[u8]) -> Vec<u8> {
    let mut all = vec![0x1f, 0x8b, 8, flags, 0, 0, 0, 0, 0, 3];
    let extras: [(u8, &[u8]); 4] = [
        (4, b"\x03\0abc"),
        (8, b"name\0"),
        (16, b"a comment\0"),
        (2, b"\x12\x34"),
    ];
    for (flag, extra) in extras {
        if flags & flag != 0 {
            all.extend(extra);
        }
    }
    all.extend(compress_to_vec(text, 6));
    all.extend([0; 8]);
    all
}

const JSON: &str =
    r#"{"choices":[{"usage":{"total_tokens":1}}],"usage":{"total_tokens":42},"model":"m"}"#;

#[test]
fn json_is_told_by_its_type() {
    for content_type in [
        "application/json",
        "Application/JSON; charset=utf-8",
        " application/json ;a=b",
        "application/problem+json",
        "application/vnd.api+json;v=1",
        "application/x-ndjson",
        "application/jsonl",
    ] {
        assert_eq!(
            number(content_type, "", JSON.as_bytes()),
            Some(42),
            "{content_type}"
        );
    }
    for content_type in [
        "",
        "json",
        "text/plain",
        "text/json5",
        "text/html",
        "application/octet-stream",
        "application/jsonp",
        "application/json-seq",
        "application/grpc+proto",
        "text/event-streams",
    ] {
        let refused = reader(content_type, "").err();
        assert_eq!(refused, Some(Unreadable::ContentType), "{content_type}");
    }
}

#[test]
fn of_events_the_last_that_has_the_path_counts() {
    let events = |text: &str| number("text/event-stream; charset=utf-8", "", text.as_bytes());
    let chunks =
        "data: {\"usage\":null,\"choices\":[{\"delta\":{\"content\":\"{\\\"usage\\\"\"}}]}\n\n";
    for (text, expected) in [
        (
            format!("{chunks}{chunks}data: {JSON}\n\ndata: [DONE]\n\n"),
            Some(42),
        ),
        (
            format!("data: {JSON}\n\n{chunks}data: [DONE]\n\n"),
            Some(42),
        ),
        (
            format!("data: {{\"usage\":{{\"total_tokens\":1}}}}\n\ndata: {JSON}\n\n"),
            Some(42),
        ),
        // One text on several lines; an event without an end.
        (
            "data: {\"usage\":\ndata: {\"total_tokens\":\ndata: 42}\ndata: }\n\n".to_owned(),
            Some(42),
        ),
        (format!("event: done\r\ndata: {JSON}\r\n"), Some(42)),
        (format!("data: {JSON}"), Some(42)),
        // An event that is not JSON hides no other.
        (format!("data: oh, {{[\"\n\ndata: {JSON}\n\n"), Some(42)),
        (
            format!("data: {{\"usage\":\n\ndata: {{\"total_tokens\":7}}\n\n: {JSON}\n\n{JSON}\n\n"),
            None,
        ),
        (chunks.repeat(3), None),
    ] {
        assert_eq!(events(&text), expected, "{text}");
    }
}

#[test]
fn gzip_is_read_and_other_codings_are_not() {
    for encoding in ["gzip", "GZip", "x-gzip", " gzip "] {
        for flags in 0..32 {
            let body = gzip(flags, JSON.as_bytes());
            assert_eq!(
                number("application/json", encoding, &body),
                Some(42),
                "{flags}"
            );
        }
    }
    assert_eq!(
        number("application/json", "identity", JSON.as_bytes()),
        Some(42)
    );
    for encoding in [
        "br",
        "zstd",
        "deflate",
        "compress",
        "gzip, gzip",
        "gzip,br",
        "x",
        "gzip;q=1",
    ] {
        let refused = reader("application/json", encoding).err();
        assert_eq!(refused, Some(Unreadable::ContentEncoding), "{encoding}");
    }
}

#[test]
fn members_follow_each_other_and_what_is_no_gzip_says_nothing() {
    let (front, back) = JSON.split_at(50);
    let read = |body: &[u8]| number("application/json", "gzip", body);
    let members = [
        gzip(0, front.as_bytes()),
        gzip(31, b""),
        gzip(8, back.as_bytes()),
    ];
    assert_eq!(read(&members.concat()), Some(42));
    // Whatever follows the last member.
    assert_eq!(
        read(&[gzip(0, JSON.as_bytes()), vec![0; 99]].concat()),
        Some(42)
    );
    let whole = gzip(0, JSON.as_bytes());
    for at in 0..whole.len() {
        // Cut short: right, or nothing.
        assert!([None, Some(42)].contains(&read(&whole[..at])), "{at}");
    }
    assert_eq!(read(JSON.as_bytes()), None);
    for flags in [32, 64, 128] {
        assert_eq!(read(&gzip(flags, JSON.as_bytes())), None);
    }
    let mut other = whole;
    other[2] = 7;
    assert_eq!(read(&other), None);
}

/// What is read before it is too much counts.
#[test]
fn a_stream_that_becomes_a_thousand_times_as_long_is_not_read_to_its_end() {
    let spaces = " ".repeat(24 << 20);
    for (text, expected) in [
        (format!("{JSON}{spaces}"), Some(42)),
        (format!("{}{JSON}", &spaces[..12 << 20]), Some(42)),
        (format!("{spaces}{JSON}"), None),
    ] {
        let body = gzip(0, text.as_bytes());
        assert!(body.len() < text.len() / 100, "it is packed");
        let mut reader = reader("application/json", "gzip").unwrap();
        body.chunks(16 << 10).for_each(|part| reader.read(part));
        assert_eq!(reader.found(0), expected);
    }
}

#[test]
fn a_step_ends_when_much_has_come_of_it() {
    let text = format!("{}{JSON}", " ".repeat(8 << 20));
    let body = gzip(0, text.as_bytes());
    assert!(body.len() < 16 << 10);
    let mut packed = reader("application/json", "gzip").unwrap();
    let (mut rest, mut steps) = (&body[..], 0);
    while !rest.is_empty() {
        let before = packed.gunzip.as_ref().unwrap().given();
        rest = &rest[packed.read_step(rest)..];
        let given = packed.gunzip.as_ref().unwrap().given() - before;
        assert!(given < 1 << 20, "{given}");
        steps += 1;
    }
    assert!((8..=32).contains(&steps), "{steps}");
    assert_eq!(packed.found(0), Some(42));
    assert_eq!(packed.read_step(b""), 0);
    // What is not compressed is read in one.
    let mut plain = reader("application/json", "").unwrap();
    assert_eq!(plain.read_step(text.as_bytes()), text.len());
    assert_eq!(plain.found(0), Some(42));
}
