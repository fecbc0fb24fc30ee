use tidegate_logs::{Format, Options};

use crate::support::{Folder, GOOD, asks_for, logs, read, read_with, stem};

#[test]
fn the_format_of_each_log_is_found() {
    for log in logs("lines") {
        let (_, reader) = read(&[&log]).unwrap();
        assert_eq!(reader.sources()[0].format().unwrap().name(), stem(&log));
        assert_eq!(reader.report().refused, 0, "{:?}", reader.report());
    }
}

#[test]
fn some_wrong_lines_do_not_change_the_format() {
    let folder = Folder::new();
    let log = folder.write(
        "access.log",
        format!("{GOOD}\nwrong\n{GOOD}\n\nwrong, too\n{GOOD}\n"),
    );
    let (entries, reader) = read(&[log]).unwrap();
    assert_eq!((entries.len(), reader.report().refused), (3, 2));
    let numbers = reader.report().first_refused.iter().map(|it| it.number);
    assert_eq!(numbers.collect::<Vec<_>>(), [2, 5]);
}

fn message(text: &[u8], format: Option<&str>) -> String {
    let folder = Folder::new();
    let log = folder.write("access.log", text);
    let format = format.map(|format| Format::read(format).unwrap());
    let options = format.map_or_else(Options::default, asks_for);
    let error = read_with(&[&log], options).unwrap_err().to_string();
    error.replace(log.to_str().unwrap(), "access.log")
}

#[test]
fn a_log_that_nobody_knows_is_refused_with_what_to_do() {
    let names = "tidegate-json, tidegate-text, combined, common, nginx-json, envoy, traefik, traefik-json, haproxy, alb, cloudfront, \
        caddy, vhost-combined, nginx-main, combined-timed, ingress-nginx";
    assert_eq!(
        message(b"hello\nworld\n", None),
        format!(
            "access.log: no known format fits its first lines: say it by --format, as one of {names}, or as a template such as \
             '$remote_addr [$time_local] \"$request\" $status'"
        )
    );
    assert_eq!(
        message(b"{\"a\":1}\n{\"a\":2}\n", None),
        "access.log: its lines are JSON with names that are not known: say what they mean, such as --map \
         time=$.ts,path=$.url,peer=$.ip,status=$.code"
    );
    assert_eq!(
        message(b"\x7fELF\0\0\0\x01\xff", None),
        "access.log: it is no text: no known format fits"
    );
}

#[test]
fn another_format_than_said_is_named() {
    assert_eq!(
        message(GOOD.as_bytes(), Some("envoy")),
        "access.log: its first lines are not envoy; they look like combined: line 1: column 1: expected `[` and a time"
    );
    assert_eq!(
        message(b"hello", Some("haproxy")),
        "access.log: its first lines are not haproxy: line 1: column 1: expected an address with a port, and a time such as \
         [23/Nov/2026:12:14:35.504]"
    );
}

#[test]
fn an_empty_log_has_no_format_and_no_requests() {
    let folder = Folder::new();
    for text in ["", "\n\n"] {
        let log = folder.write("access.log", text);
        let (entries, reader) = read(&[log]).unwrap();
        assert!(entries.is_empty() && reader.sources()[0].format().is_none());
    }
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = read(&["/nowhere/access.log"]).unwrap_err().to_string();
    assert!(
        error.starts_with("/nowhere/access.log: No such file"),
        "{error}"
    );
    let error = read(&["/"]).unwrap_err().to_string();
    assert!(error.contains("is a directory"), "{error}");
}
