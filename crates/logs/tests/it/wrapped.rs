//! Logs of containers: each line stands in what the runtime, or docker compose, writes around it.

use std::fs;

use tidegate_logs::{Format, Options};

use crate::support::{Folder, GOOD, asks_for, logs, read, read_with, stem};

/// How much of a line stands in one part.
const PART: usize = 60;

fn cri(line: &str) -> String {
    let mut out = String::new();
    let time = "2026-11-25T10:00:00.123456789+01:00";
    let mut rest = line;
    while let Some((part, behind)) = rest.split_at_checked(PART)
        && !behind.is_empty()
    {
        out.push_str(&format!("{time} stdout P {part}\n"));
        if rest.len() == line.len() {
            // The other stream has lines between the parts.
            out.push_str(&format!("{time} stderr F nothing of a request\n"));
        }
        rest = behind;
    }
    out + &format!("{time} stdout F {rest}\n")
}

fn docker(line: &str) -> String {
    let member = |text: &str| {
        let text = text.replace('\\', "\\\\").replace('"', "\\\"");
        let text = text.replace('<', "\\u003c").replace('\t', "\\t");
        let time = "2026-11-25T10:00:00.123456789Z";
        format!("{{\"log\":\"{text}END\",\"stream\":\"stdout\",\"time\":\"{time}\"}}\n")
    };
    let (head, tail) = line.split_at(line.len() / 2);
    member(head).replace("END", "") + &member(tail).replace("END", "\\n")
}

fn compose(line: &str) -> String {
    format!("edge-caddy-1  | {line}\n")
}

#[test]
fn every_format_is_read_in_every_wrapper() {
    let folder = Folder::new();
    for log in logs("lines") {
        let (plain, _) = read(&[&log]).unwrap();
        let text = fs::read(&log).unwrap();
        // Docker and JSON have no invalid UTF-8.
        let text = String::from_utf8_lossy(&text).into_owned();
        let clean = folder.write("plain.log", &text);
        let is_clean = read(&[&clean]).unwrap().0 == plain;
        assert!(is_clean, "{}", log.display());
        for (name, wrap) in [
            ("cri", cri as fn(&str) -> String),
            ("docker", docker),
            ("compose", compose),
        ] {
            let wrapped: String = text.lines().map(wrap).collect();
            let path = folder.write(name, &wrapped);
            let format = Format::read(stem(&log)).unwrap();
            for options in [asks_for(format.clone()), Options::default()] {
                let (entries, reader) = read_with(&[&path], options).unwrap();
                assert_eq!(reader.sources()[0].format(), Some(&format), "{name}");
                assert_eq!(entries, plain, "{name} {format}");
            }
        }
    }
}

#[test]
fn lines_of_other_containers_and_broken_wrappers_are_counted() {
    let folder = Folder::new();
    let log = [
        compose(GOOD),
        "db-1     | ready to accept connections\n".to_owned(),
        compose(GOOD),
        "nothing around it\n".to_owned(),
        compose(""),
        "\n".to_owned(),
        compose(GOOD),
    ];
    let log = folder.write("compose.log", log.concat());
    let (entries, reader) = read(&[log]).unwrap();
    let report = reader.report();
    assert_eq!(
        (entries.len(), report.refused, report.others, report.lines),
        (3, 2, 2, 7)
    );
    let refused = report.first_refused.iter();
    let refused: Vec<_> = refused
        .map(|it| (it.number, it.error.to_string()))
        .collect();
    let wrapper = "column 1: expected the name of a container, and `| `";
    assert_eq!(refused[1], (4, wrapper.to_owned()));
    assert_eq!(refused[0].0, 2);
}

/// Text that looks like a wrapper and is none.
#[test]
fn a_template_with_a_bar_is_no_wrapper() {
    let folder = Folder::new();
    let line = "192.0.2.7 | 22/Nov/2026:15:32:17 +0000 | GET / HTTP/1.1 | 200\n";
    let log = folder.write("access.log", line.repeat(3));
    let format = Format::read("$remote_addr | $time_local | $request | $status").unwrap();
    let (entries, _) = read_with(&[log], asks_for(format)).unwrap();
    assert_eq!(entries.len(), 3);
    assert!(entries[0].contains("peer=192.0.2.7"), "{}", entries[0]);
}

/// Other formats have other texts behind the user agent.
#[test]
fn a_text_that_is_no_address_is_not_taken_for_forwarded_for() {
    let folder = Folder::new();
    let with = |text: &str| format!("{GOOD} \"{text}\"\n").repeat(5);
    for text in ["-", "198.51.100.7", "198.51.100.7, 10.0.0.1:80", "unknown"] {
        let log = folder.write("access.log", with(text));
        let (_, reader) = read(&[log]).unwrap();
        assert_eq!(
            reader.sources()[0].format(),
            Some(&Format::NginxMain),
            "{text}"
        );
    }
    for text in ["sid=a", "api.example.com", "0.005"] {
        let log = folder.write("access.log", with(text));
        let error = read(&[log]).unwrap_err().to_string();
        assert!(error.contains("no known format fits"), "{text}: {error}");
    }
}

/// JSON has no zeros at the end of a number.
#[test]
fn a_short_fraction_of_a_number_is_no_coarse_time() {
    let folder = Folder::new();
    let line = |ts: &str| format!("{{\"ts\":{ts},\"path\":\"/\",\"status\":200}}\n");
    for (ts, resolution) in [
        ("1795361537.5", 1_000),
        ("1795361537.25", 1_000),
        ("1795361537.123456", 1),
        ("1795361537", 1_000_000),
        ("\"1795361537.5\"", 100_000),
    ] {
        let log = folder.write("access.log", line(ts));
        let (_, reader) = read(&[log]).unwrap();
        assert_eq!(reader.sources()[0].resolution(), resolution, "{ts}");
    }
}
