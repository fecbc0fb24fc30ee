use crate::support::{asks_for, logs, read, shown, stem};
use tidegate_logs::{Format, Options, Reader};

/// The format of each sample.
const SAMPLES: [(&str, &str); 14] = [
    ("envoy", "envoy"),
    ("haproxy-raw", "haproxy"),
    ("haproxy-rfc3164", "haproxy"),
    ("haproxy-rfc5424", "haproxy"),
    ("nginx-combined", "combined"),
    ("nginx-common", "common"),
    ("nginx-json", "nginx-json"),
    ("nginx-json-default-escapes", "nginx-json"),
    ("nginx-template", "template"),
    ("tidegate-combined", "combined"),
    ("tidegate-json", "tidegate-json"),
    ("tidegate-text", "tidegate-text"),
    ("traefik-common", "traefik"),
    ("traefik-json", "traefik-json"),
];

const TEMPLATE: &str = r#"'$remote_addr [$msec] $request_time "$request_method $host$request_uri" $status "$http_x_forwarded_for" "$http_x_api_key" $request_length'"#;

fn options(format: &str) -> Options {
    match format {
        "template" => asks_for(Format::read(TEMPLATE).unwrap()),
        _ => Options::default(),
    }
}

#[test]
fn every_line_that_a_real_proxy_wrote_is_read() {
    let logs = logs("samples");
    assert_eq!(
        logs.iter().map(|path| stem(path)).collect::<Vec<_>>(),
        SAMPLES.map(|it| it.0)
    );
    for (path, (name, format)) in logs.iter().zip(SAMPLES) {
        let mut reader = Reader::open(&[path], options(format)).unwrap();
        assert_eq!(
            reader.sources()[0].format().unwrap().name(),
            format,
            "{name}"
        );
        let mut agents = 0;
        let mut paths = 0;
        while let Some(entry) = reader.next().unwrap() {
            let line = shown(&entry);
            assert!(
                entry.status().is_some() || line.contains("/slow/gone"),
                "{name}: {line}"
            );
            paths += usize::from(entry.path().is_some());
            agents += usize::from(entry.header("user-agent").is_some());
        }
        let report = reader.report();
        assert_eq!(report.refused, 0, "{name}: {:?}", report.first_refused);
        assert_eq!(report.requests + report.others, report.lines, "{name}");
        assert!(
            report.requests >= 50 && paths >= 40,
            "{name}: {paths} of {} have a path",
            report.requests
        );
        if reader.sources()[0].fields().has_header("user-agent") {
            assert!(agents >= 20, "{name}: {agents}");
        }
    }
}

#[test]
fn the_paths_are_those_that_were_sent() {
    let nginx = logs("samples")
        .into_iter()
        .find(|path| stem(path) == "nginx-combined")
        .unwrap();
    let (entries, _) = read(&[nginx]).unwrap();
    for path in [
        r#"path="/a\"b""#,
        r#"path="/a\\b""#,
        r#"path="/a\\x22b""#,
        r#"path="/[x]{y}|z^`""#,
        r#"path="/z\xc3\xbcrich""#,
        r#"path="/\xff\xfe""#,
        r#"path="/a%00b""#,
        r#"path="/a b""#,
        r#"path="/a" query="b?c=d#e""#,
        r#"path="/$host$status""#,
    ] {
        assert!(
            entries.iter().any(|entry| entry.contains(path)),
            "{path} is in no line:\n{}",
            entries.join("\n")
        );
    }
    let agent = r#"user-agent: "evil\" 200 1 \"-\" \"-""#;
    assert!(entries.iter().any(|entry| entry.ends_with(agent)));
}
