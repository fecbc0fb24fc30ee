use super::*;
use crate::{JsonPath, Weight};

fn scanner(path: &str) -> Scanner {
    let path: JsonPath = path.parse().unwrap();
    Scanner::number(path.into())
}

fn maximum(scanner: &Scanner) -> Option<u64> {
    scanner
        .maximum()
        .map(|thousandths| thousandths.div_ceil(1_000))
}

fn number_in(path: &str, text: &str) -> Option<u64> {
    let mut reading = scanner(path);
    reading.read(text.as_bytes());
    let whole = maximum(&reading);
    let mut reading = scanner(path);
    text.bytes().for_each(|byte| reading.read(&[byte]));
    assert_eq!(maximum(&reading), whole, "byte by byte: {text}");
    whole
}

#[test]
fn the_number_at_the_path_is_found() {
    for (text, expected) in [
        (r#"{"a":{"b":7}}"#, Some(7)),
        ("{ \"a\" :\t{ \"b\" :\r\n 7 } }\n", Some(7)),
        (
            r#"{"x":{"a":{"b":1}},"b":2,"a":{"a":{"b":3},"b":7,"c":8}}"#,
            Some(7),
        ),
        (r#"{"x":[{"a":{"b":1}},"]}\"",[[]]],"a":{"b":7}}"#, Some(7)),
        (r#"{"x":"\\","y":"\"a\":{\"b\":1}","a":{"b":7}}"#, Some(7)),
        (r#"{"x":null,"y":true,"z":-1.5e+7,"a":{"b":7}}"#, Some(7)),
        (
            r#"{"":1,"aa":{"b":1},"A":{"b":2},"a":{"bb":3,"":4,"b":7}}"#,
            Some(7),
        ),
        (r#"{"\u0061":{"\u0062":7}}"#, Some(7)),
        (
            r#"{"\u0161":{"b":1},"\ud83d\ude00":{},"\n":{},"a":{"\u0042":1}}"#,
            None,
        ),
        // Not what the path leads to.
        (r#"{"a":7}"#, None),
        (r#"{"a":[{"b":7}]}"#, None),
        (r#"[{"a":{"b":7}}]"#, None),
        (r#"{"a":{"b":"7"}}"#, None),
        (r#"{"a":{"b":null}}"#, None),
        (r#"{"a":{"b":true}}"#, None),
        (r#"{"a":{"b":[7]}}"#, None),
        (r#"{"a":{"b":{"b":7}}}"#, None),
        (r#"{"a":{"b":-7}}"#, None),
        (r#"{"a":{"b":7.5}}"#, Some(8)),
        ("", None),
        ("7", None),
        ("\"a\"", None),
    ] {
        assert_eq!(number_in("a.b", text), expected, "{text}");
    }
    assert_eq!(number_in("a", r#"{"a":7}"#), Some(7));
}

#[test]
fn the_largest_number_counts_and_other_values_take_nothing_back() {
    for (text, expected) in [
        (r#"{"a":1,"a":7}"#, Some(7)),
        (r#"{"a":7,"a":"x","a":null,"a":-1,"a":{}}"#, Some(7)),
        ("{\"a\":1}\n{\"a\":7}\n{\"b\":8}\n", Some(7)),
        (r#"{"a":1}{"a":7}"#, Some(7)),
        (r#"{"a":7,"a":0}"#, Some(7)),
        (r#"{"a":7}{"a":0}"#, Some(7)),
    ] {
        assert_eq!(number_in("a", text), expected, "{text}");
    }
    assert_eq!(
        number_in("a.b", r#"{"a":{"b":7},"a":{"b":3},"a":{}}"#),
        Some(7)
    );
}

#[test]
fn what_is_no_json_ends_the_reading_and_what_was_found_counts() {
    for (text, expected) in [
        (r#"{"a":7"#, None),
        (r#"{"a":7,"#, Some(7)),
        (r#"{"a":7}}{"a":8}"#, Some(7)),
        (r#"{"a":7,}{"a":8}"#, Some(7)),
        (r#"{"a":7 "a":8}"#, Some(7)),
        (r#"{"a":7;"a":8}"#, None),
        (r#"{"a":7x,"a":8}"#, None),
        (r#"{"a":07}"#, None),
        (r#"{"a":+7}"#, None),
        (r#"{"a":7.}"#, None),
        (r#"{a:7}"#, None),
        (r#"{"a" 7}"#, None),
        (r#"{"b":&,"a":7}"#, None),
        (r#"{"b":n&ll,"a":7}"#, None),
        (r#"{"\u00zz":1,"a":7}"#, None),
        ("data: {\"a\":7}", None),
        ("\u{feff}{\"a\":7}", None),
    ] {
        assert_eq!(number_in("a", text), expected, "{text}");
    }
}

#[test]
fn a_number_counts_by_its_weight_to_the_thousandth() {
    for (weight, number, thousandths) in [
        ("1", "7", Some(7_000)),
        ("4", "25", Some(100_000)),
        ("0.1", "3", Some(300)),
        ("0.1", "0.001", Some(1)),
        ("0.001", "1.5", Some(2)),
        ("1000000", "0.0123", Some(12_300_000)),
        ("3", "0", Some(0)),
        ("3", "-1", None),
        ("1000000", "1e300", Some(u64::MAX)),
        ("0.5", "9007199254740993", Some(4_503_599_627_370_496_500)),
    ] {
        let path = "a".parse().unwrap();
        let weight: Weight = weight.parse().unwrap();
        let mut scanner = Scanner::number(WeightedPath { path, weight });
        scanner.read(format!("{{\"a\":{number}}}").as_bytes());
        assert_eq!(scanner.maximum(), thousandths, "{number} by {weight}");
    }
}

#[test]
fn a_new_text_begins_anew() {
    let mut scanner = scanner("a");
    for (part, expected) in [
        (r#"{"b":[[["#, None),
        (r#"{"a":1}"#, Some(1)),
        (r#"[DONE]"#, Some(1)),
        (r#"{"a":2,"b":""#, Some(2)),
        (r#"{"a":null}"#, Some(2)),
        (r#"{"a":3,"#, Some(3)),
    ] {
        scanner.restart();
        scanner.read(part.as_bytes());
        assert_eq!(maximum(&scanner), expected, "{part}");
    }
}

#[test]
fn any_depth_needs_no_memory() {
    let deep = 100_000;
    let (open, close) = ("[".repeat(deep), "]".repeat(deep));
    assert_eq!(
        number_in("a", &format!("{{\"x\":{open}{close},\"a\":7}}")),
        Some(7)
    );
    let (open, close) = ("{\"a\":".repeat(deep), "}".repeat(deep));
    assert_eq!(
        number_in("a", &format!("{{\"x\":{open}1{close},\"a\":7}}")),
        Some(7)
    );
    assert_eq!(number_in("a.a", &format!("{open}1{close}")), None);
    assert!(size_of::<Scanner>() <= 128);
}

fn text_in(text: &str) -> (bool, Option<String>) {
    let path = || Scanner::text("a.model".parse().unwrap());
    let (mut whole, mut parted) = (path(), path());
    whole.read(text.as_bytes());
    text.bytes().for_each(|byte| parted.read(&[byte]));
    let found = |it: &Scanner| (it.has_value(), it.found_text().map(String::from));
    assert_eq!(found(&parted), found(&whole), "byte by byte: {text}");
    found(&whole)
}

#[test]
fn the_text_at_the_path_is_found() {
    let longest = "x".repeat(128);
    for (text, expected) in [
        (
            r#"{"model":"b","a":{"x":1,"model":"large-2","y":"}"}}"#,
            "large-2",
        ),
        (r#"{"a":{"model":"meta\/large"}}"#, "meta/large"),
        (r#"{"a":{"model":""}}"#, ""),
        (r#"{"a":{"model":"größer"}}"#, "größer"),
        (r#"{"a":{"model":"m"}} {"a":{"model":"m"}}"#, "m"),
        (r#"{"a":{"model":null}}{"a":{"model":"m"}}"#, "m"),
        (&format!(r#"{{"a":{{"model":"{longest}"}}}}"#), &longest),
        // What follows is not JSON, but the text was read before it.
        (r#"{"a":{"model":"m"}}]"#, "m"),
    ] {
        assert_eq!(text_in(text), (true, Some(expected.into())), "{text}");
    }
    for text in [
        r#"{"model":"m"}"#,
        r#"{"a":{"model":7}}"#,
        r#"{"a":{"model":null,"other":"m"}}"#,
        r#"{"a":{"model":["m"]}}"#,
        r#"{"a":{"model":{"model":"m"}}}"#,
        r#"{"a":{"model":"m"#,
        r#"{"a":{"model":"m\"#,
        "",
    ] {
        assert_eq!(text_in(text), (false, None), "{text}");
    }
}

#[test]
fn a_text_that_is_not_clear_is_none() {
    for text in [
        r#"{"a":{"model":"small","model":"large"}}"#,
        r#"{"a":{"model":"small"}}{"a":{"model":"large"}}"#,
        r#"{"a":{"model":"sm\u0061ll"}}"#,
        &format!(r#"{{"a":{{"model":"{}"}}}}"#, "x".repeat(129)),
        &format!(r#"{{"a":{{"model":"{}"}}}}"#, "x".repeat(1_000_000)),
    ] {
        let beginning: String = text.chars().take(60).collect();
        assert_eq!(text_in(text), (true, None), "{beginning}");
    }
}
