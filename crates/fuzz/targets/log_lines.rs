//! Checks that `Parser::line` follows its rules for lines of access logs in every format.
//!
//! The first byte of an input chooses the format. Log lines follow. Each value that the parser returns must be a part of its line.
//!
//! `TIDEGATE_FUZZ_FORMAT=combined .ci/fuzz 600 log_lines` tests a single format. The variable's value is a name that `--format` accepts, or
//! the name of a format below, such as `template-0` for the first of `TEMPLATES` or `map-1` for the second of `MAPS`.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::{Corpus, fuzz_target};
use tidegate_logs::{Entry, Field, Format, Line, Parser, Stamp};

/// The end of the year 9999, in us since the epoch.
const LATEST: u64 = 253_402_300_800_000_000;

const TEMPLATES: [&str; 3] = [
    r#"$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent""#,
    "$msec $scheme://$host$request_uri $http_x_api_key $request_time",
    "$time $client $path $status $total_us",
];

const MAPS: [&str; 2] = [
    "time=$.t,path=$.p,peer=$.ip,status=$.s,duration=$.d",
    "end=$.a.t,target=$.a.b.c,header:x-key=$.a.h,client=$.c,duration_ns=$.a.d",
];

/// All formats, by their names in `TIDEGATE_FUZZ_FORMAT`.
static FORMATS: LazyLock<Vec<(String, Format)>> = LazyLock::new(|| {
    let mut formats: Vec<_> = Format::NAMED
        .iter()
        .map(|(name, format)| ((*name).to_owned(), format.clone()))
        .collect();
    for (number, template) in TEMPLATES.iter().enumerate() {
        let format = Format::read(template).expect("a template");
        formats.push((format!("template-{number}"), format));
    }
    for (number, map) in MAPS.iter().enumerate() {
        let format = Format::map(map).expect("a map");
        formats.push((format!("map-{number}"), format));
    }
    formats
});

/// The index of the format that `TIDEGATE_FUZZ_FORMAT` selects, if the variable is set.
static ASKED: LazyLock<Option<usize>> = LazyLock::new(|| {
    let asked = std::env::var("TIDEGATE_FUZZ_FORMAT").ok()?;
    let found = FORMATS.iter().position(|(name, _)| *name == asked);
    let names = || FORMATS.iter().map(|it| it.0.as_str()).collect::<Vec<_>>();
    Some(found.unwrap_or_else(|| panic!("TIDEGATE_FUZZ_FORMAT={asked} is none of {:?}", names())))
});

fn format(choice: u8) -> &'static Format {
    let choice = ASKED.unwrap_or(usize::from(choice) % FORMATS.len());
    &FORMATS[choice].1
}

fuzz_target!(|data: &[u8]| -> Corpus {
    let Some((choice, text)) = data.split_first() else {
        return Corpus::Reject;
    };
    let format = format(*choice);
    let mut parser = Parser::new(format);
    let mut alone = Vec::new();
    for line in text.split(|byte| *byte == b'\n') {
        let said = match parser.line(line) {
            Ok(Line::Request(entry)) => {
                check(line, &entry);
                Some(values(&entry))
            }
            Ok(Line::Question | Line::Other | Line::Lost(_)) => None,
            Err(error) => {
                assert!(!error.what.is_empty());
                assert!(
                    (1..=line.len() + 1).contains(&error.column),
                    "{error} of {}",
                    line.len()
                );
                None
            }
        };
        alone.push((line, said));
    }
    // The values of a line do not depend on the previous lines, except in CloudFront's format, where a previous line names the columns.
    if *format != Format::CloudFront {
        for (line, said) in alone {
            let again = match Parser::new(format).line(line) {
                Ok(Line::Request(entry)) => Some(values(&entry)),
                _ => None,
            };
            assert_eq!(again, said, "{}", line.escape_ascii());
        }
    }
    Corpus::Keep
});

/// All values of an entry, for comparison.
#[derive(Debug, PartialEq, Eq)]
struct Values {
    arrival: u64,
    resolution: u64,
    stamp: Stamp,
    texts: Vec<Option<Vec<u8>>>,
    numbers: [Option<u64>; 7],
}

fn values(entry: &Entry<'_>) -> Values {
    let text = |field: &Field| entry.text(*field).map(|text| text.bytes().into_owned());
    let numbers = [
        entry.status().map(u64::from),
        entry.upstream_status().map(u64::from),
        entry.duration(),
        entry.bytes_in(),
        entry.bytes_out(),
        entry.cost(),
        entry.waited(),
    ];
    Values {
        arrival: entry.arrival(),
        resolution: entry.resolution(),
        stamp: entry.stamp(),
        texts: Field::ALL.iter().map(text).collect(),
        numbers,
    }
}

fn check(line: &[u8], entry: &Entry<'_>) {
    assert!(entry.arrival() < LATEST + 60_000_000);
    assert!(matches!(
        entry.resolution(),
        1 | 10 | 100 | 1_000 | 10_000 | 100_000 | 1_000_000
    ));
    if entry.stamp() == Stamp::Shifted {
        assert!(entry.duration().is_some());
    }
    if let Some(status) = entry.status() {
        assert!((100..=999).contains(&status));
    }
    let texts = Field::ALL.iter().filter_map(|field| entry.text(*field));
    for text in texts.chain(entry.headers().map(|it| it.1)) {
        let raw = text.raw();
        assert!(!raw.is_empty());
        let within = raw.as_ptr() as usize - line.as_ptr() as usize;
        assert!(
            within + raw.len() <= line.len(),
            "a value is no part of its line"
        );
        // An escape is never shorter than its decoded text.
        assert!(text.bytes().len() <= raw.len());
    }
    if let Some(path) = entry.path() {
        assert!(!path.raw().contains(&b'?') || entry.query().is_none() || path.raw() != b"?");
    }
}
