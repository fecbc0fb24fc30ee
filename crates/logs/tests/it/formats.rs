use std::fs;

use tidegate_logs::{Entry, Field, Format, Line, Options, Parser};

use crate::support::{Folder, each, logs, parsed, stem};

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
        (
            r#""remote_addr":"192.0.2.7","client":"mobile""#,
            "192.0.2.7",
        ),
        (
            r#""client":"mobile","remote_addr":"192.0.2.7""#,
            "192.0.2.7",
        ),
        (r#""ip":"192.0.2.8","remote_addr":"192.0.2.7""#, "192.0.2.7"),
        (r#""remote_addr":"192.0.2.7","ip":"192.0.2.8""#, "192.0.2.7"),
        (
            r#""remote_addr":"192.0.2.7","realip_remote_addr":"10.0.0.1""#,
            "192.0.2.7",
        ),
        (
            r#""realip_remote_addr":"10.0.0.1","remote_addr":"192.0.2.7""#,
            "192.0.2.7",
        ),
        (r#""realip_remote_addr":"10.0.0.1""#, "10.0.0.1"),
        (r#""client":"mobile","clientip":"192.0.2.7""#, "192.0.2.7"),
        (r#""remote_addr":"unix:","ip":"192.0.2.7""#, "192.0.2.7"),
        // Its unit is not known.
        (
            r#""ip":"192.0.2.7","duration":250,"response_time":250"#,
            "192.0.2.7",
        ),
    ] {
        assert_eq!(read(members), is(peer), "{members}");
    }
}

#[test]
fn what_a_format_can_have_is_known_before_a_line_is_read() {
    for (name, format) in Format::NAMED {
        let fields = format.fields();
        let is_empty = !Field::ALL.iter().any(|field| fields.has(*field));
        assert_eq!(
            is_empty,
            matches!(*name, "nginx-json" | "caddy"),
            "{name}: names that operators choose are known from lines alone"
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
        !Format::TidegateJson.fields().has(Field::Query),
        "tidegate leaves the query out"
    );
}

/// The fields of each entry of a log, of these.
fn fields_of(name: &str, text: &str, asked: &[Field]) -> Vec<Vec<&'static str>> {
    let folder = Folder::new();
    let log = folder.write(name, text);
    each(&log, Options::default(), |entry| {
        let fields = asked.iter().filter(|field| entry.fields().has(**field));
        fields.map(|field| field.name()).collect()
    })
}

#[test]
fn a_log_of_tidegate_has_the_fields_that_were_chosen() {
    let asked = [
        Field::Method,
        Field::Host,
        Field::Path,
        Field::Outcome,
        Field::Client,
        Field::Duration,
        Field::Cost,
    ];
    // Another line of its log names a host and a client, which says nothing of requests.
    let other =
        r#"{"timestamp":"2026-11-22T15:32:17Z","host":"a","client":"x","cost":1,"target":"audit"}"#;
    let few = r#"{"timestamp":"2026-11-22T15:32:17Z","path":"/","status":200,"target":"access"}"#;
    let more = r#"{"timestamp":"2026-11-22T15:32:18Z","path":"/","status":200,"client":"ip:192.0.2.7","total_us":5,"target":"access"}"#;
    let known = fields_of("few.log", &[few, other, few].join("\n"), &asked);
    assert_eq!(known, [["path"], ["path"]]);
    // What one of the first lines has, all can have.
    let known = fields_of("more.log", &[few, more, few].join("\n"), &asked);
    assert_eq!(known, vec![["path", "client", "duration"]; 3]);
    // More was chosen later on.
    let log = [&[few; 300][..], &[more, few]].concat().join("\n");
    let known = fields_of("later.log", &log, &asked);
    assert_eq!(known[..300], vec![vec!["path"]; 300]);
    assert_eq!(known[300..], vec![vec!["path", "client", "duration"]; 2]);
    let text = "2026-11-22T15:32:17.123456Z  INFO access: path=\"/\" status=200 total_us=5\n";
    assert_eq!(fields_of("text.log", text, &asked), [["path", "duration"]]);
}

#[test]
fn a_log_of_cloudfront_has_the_columns_that_it_names() {
    let asked = [
        Field::Method,
        Field::Query,
        Field::Host,
        Field::ForwardedFor,
        Field::Duration,
    ];
    let log = "#Fields: date time c-ip cs-method cs-uri-stem sc-status\n\
        2026-11-22\t15:32:20\t192.0.2.9\tGET\t/few\t200\n\
        #Fields: date time c-ip cs-uri-stem cs-uri-query sc-status cs(Cookie)\n\
        2026-11-22\t15:32:21\t192.0.2.9\t/more\tk=1\t200\ts=1\n\
        #Fields: date time c-ip cs-method cs-uri-stem sc-status\n\
        2026-11-22\t15:32:22\t192.0.2.9\tGET\t/few\t200\n";
    let known = fields_of("access.log", log, &asked);
    assert_eq!(known, [["method"], ["query"], ["method"]]);
    let folder = Folder::new();
    let log = folder.write("access.log", log);
    let headers = each(&log, Options::default(), |entry| {
        ["cookie", "referer"].map(|name| entry.fields().has_header(name))
    });
    assert_eq!(headers, [[false, false], [true, false], [false, false]]);
}

fn request<'a>(parser: &'a mut Parser, line: &'a [u8]) -> Entry<'a> {
    match parser.line(line) {
        Ok(Line::Request(entry)) => entry,
        other => panic!("no request: {other:?}"),
    }
}

/// The target `?k=1` has no path either.
#[test]
fn a_query_alone_is_no_path() {
    let mut cloudfront = Parser::new(&Format::CloudFront);
    let names = b"#Fields: timestamp c-ip cs-method cs-uri-stem cs-uri-query";
    assert!(matches!(cloudfront.line(names), Ok(Line::Other)));
    let mut nginx = Parser::new(&Format::read("$msec $request_method $uri $args").unwrap());
    let lines: [(&mut Parser, &[u8]); 2] = [
        (&mut cloudfront, b"1795361541\t192.0.2.9\tGET\t?\tk=1"),
        (&mut nginx, b"1795361541.000 GET ? k=1"),
    ];
    for (parser, line) in lines {
        let entry = request(parser, line);
        assert!(entry.path().is_none());
        assert_eq!(entry.query().unwrap().raw(), b"k=1");
    }
}

#[test]
fn a_log_whose_columns_change_too_often_has_none_that_are_known() {
    let mut parser = Parser::new(&Format::CloudFront);
    let names = "cs-method cs-uri-query sc-bytes cs-bytes time-taken x-host-header cs-protocol \
        cs(Referer) cs(Cookie)";
    let names: Vec<&str> = names.split(' ').collect();
    for chosen in 0..1 << names.len() {
        let chosen = (0..names.len()).filter(|at| chosen >> at & 1 == 1);
        let chosen: Vec<&str> = chosen.map(|at| names[at]).collect();
        let line = format!("#Fields: timestamp c-ip {}", chosen.join(" "));
        assert!(matches!(parser.line(line.as_bytes()), Ok(Line::Other)));
    }
    let line = b"1795361541\t192.0.2.9\tGET\tk=1\t1\t1\t1\ta\thttps\tr\tc";
    let entry = request(&mut parser, line);
    assert_eq!(entry.method().unwrap().raw(), b"GET");
    assert!(Field::ALL.iter().all(|field| !entry.fields().has(*field)));
}

/// A proxy that leaves out what a request lacks, as Traefik does with headers.
#[test]
fn a_log_of_json_has_what_its_lines_have_named() {
    let few = r#"{"StartUTC":"2026-11-22T15:32:17Z","DownstreamStatus":200,"RequestPath":"/"}"#;
    let more = r#"{"StartUTC":"2026-11-22T15:32:18Z","DownstreamStatus":200,"RequestPath":"/","request_X-Api-Key":""}"#;
    let log = [&[few; 300][..], &[more, few]].concat().join("\n");
    let folder = Folder::new();
    let log = folder.write("access.log", log);
    let known = each(&log, Options::default(), |entry| {
        entry.fields().has_header("x-api-key")
    });
    assert_eq!(known[..300], [false; 300]);
    assert_eq!(known[300..], [true, true]);
}

#[test]
fn headers_that_are_asked_for_have_places_before_others() {
    let headers: String = (1..=9)
        .map(|nth| format!(",\"http_x_{nth}\":\"v{nth}\""))
        .collect();
    let line = format!("{{\"msec\":1795361537.5,\"uri\":\"/\",\"status\":200{headers}}}");
    let folder = Folder::new();
    let log = folder.write("access.log", line);
    let options = Options {
        headers: vec!["X-9".to_owned(), "x-none".to_owned()],
        ..Options::default()
    };
    let entries = each(&log, options, |entry| {
        let value = |name: &str| entry.header(name).map(|text| text.bytes().into_owned());
        assert_eq!(value("x-9").unwrap(), b"v9");
        assert_eq!(["x-6", "x-7"].map(|it| value(it).is_some()), [true, false]);
        ["x-9", "x-6", "x-7", "x-none"].map(|name| entry.fields().has_header(name))
    });
    assert_eq!(entries, [[true, true, false, false]]);
}
