use std::fs;

use tidegate_logs::Format;

use crate::support::{logs, parsed, stem};

/// Compares what is read with the file beside the log. `UPDATE_LOGS=1` writes it.
fn is_as_written(folder: &str) -> Vec<(String, String)> {
    let update = std::env::var_os("UPDATE_LOGS").is_some();
    let mut wrong = Vec::new();
    let mut all = Vec::new();
    for log in logs(folder) {
        let format = Format::read(stem(&log)).unwrap();
        let said = parsed(&format, &fs::read(&log).unwrap());
        let beside = log.with_extension("txt");
        if update {
            fs::write(&beside, &said).unwrap();
        } else if fs::read_to_string(&beside).unwrap_or_default() != said {
            wrong.push(format!("--- {}\n{said}", beside.display()));
        }
        all.push((format.name().to_owned(), said));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let named: Vec<_> = Format::NAMED.iter().map(|it| it.0).collect();
    assert_eq!(
        all.len(),
        named.len(),
        "each of {named:?} has a log in {folder}"
    );
    all
}

#[test]
fn good_lines_say_what_is_beside_them() {
    for (format, said) in is_as_written("lines") {
        assert!(!said.contains("error: "), "{format}:\n{said}");
    }
}

#[test]
fn broken_lines_have_their_messages() {
    for (format, said) in is_as_written("broken") {
        // The good twin comes first, perhaps behind comments.
        let (good, rest): (Vec<_>, Vec<_>) = said
            .lines()
            .partition(|line| !line.starts_with("error: column "));
        assert!(
            said.starts_with(good[0])
                && good.iter().rev().skip(1).all(|line| *line == "no request"),
            "{said}"
        );
        assert!(rest.len() >= 5, "{format}:\n{said}");
    }
}

#[test]
fn a_name_that_may_mean_something_else_replaces_no_address() {
    let read = |members: &str| {
        let line = format!("{{\"msec\":1795361537.123,\"status\":200,{members}}}");
        parsed(&Format::NginxJson, line.as_bytes())
    };
    let is = |peer: &str| format!("1795361537.123000 +1000 end peer={peer} status=200\n");
    for (members, peer) in [
        (r#""remote_addr":"192.0.2.7","client":"mobile""#, "192.0.2.7"),
        (r#""client":"mobile","remote_addr":"192.0.2.7""#, "192.0.2.7"),
        (r#""ip":"192.0.2.8","remote_addr":"192.0.2.7""#, "192.0.2.7"),
        (r#""remote_addr":"192.0.2.7","ip":"192.0.2.8""#, "192.0.2.7"),
        (r#""remote_addr":"192.0.2.7","realip_remote_addr":"10.0.0.1""#, "192.0.2.7"),
        (r#""realip_remote_addr":"10.0.0.1","remote_addr":"192.0.2.7""#, "192.0.2.7"),
        (r#""realip_remote_addr":"10.0.0.1""#, "10.0.0.1"),
        (r#""client":"mobile","clientip":"192.0.2.7""#, "192.0.2.7"),
        (r#""remote_addr":"unix:","ip":"192.0.2.7""#, "192.0.2.7"),
        // Its unit is not known.
        (r#""ip":"192.0.2.7","duration":250,"response_time":250"#, "192.0.2.7"),
    ] {
        assert_eq!(read(members), is(peer), "{members}");
    }
}

#[test]
fn what_a_format_can_have_is_known_before_a_line_is_read() {
    for (name, format) in Format::NAMED {
        let fields = format.fields();
        let is_empty = !tidegate_logs::Field::ALL
            .iter()
            .any(|field| fields.has(*field));
        assert_eq!(
            is_empty,
            *name == "nginx-json",
            "{name}: an operator's names are known from lines alone"
        );
    }
    let combined = Format::Combined.fields();
    assert!(
        combined.has_header("User-Agent")
            && !combined.has_header("x-api-key")
            && !combined.has_header("host")
    );
    let envoy = Format::Envoy.fields();
    assert!(envoy.has_header("X-Forwarded-For") && envoy.has_header("host"));
    assert!(
        !Format::TidegateJson
            .fields()
            .has(tidegate_logs::Field::Query),
        "tidegate leaves the query out"
    );
}
