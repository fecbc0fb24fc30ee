use tidegate_logs::{Field, Format};

use crate::support::parsed;

fn template(template: &str, line: &str) -> String {
    parsed(&Format::read(template).unwrap(), line.as_bytes())
}

fn refused(text: &str) -> String {
    Format::read(text).unwrap_err().to_string()
}

#[test]
fn a_template_reads_lines_in_its_form() {
    let main = r#"$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" "$http_x_forwarded_for""#;
    let line = r#"192.0.2.7 - a [b [22/Nov/2026:15:32:17 +0000] "GET /a?b HTTP/1.1" 200 5 "-" "curl \x22" "203.0.113.7""#;
    assert_eq!(
        template(main, line),
        "1795361537.000000 +1000000 end forwarded_for=\"203.0.113.7\" user=\"a [b\" method=\"GET\" path=\"/a\" query=\"b\" \
         protocol=\"HTTP/1.1\" peer=192.0.2.7 status=200 bytes_out=5 user-agent: \"curl \\\"\"\n"
    );
    // As log_format has it, with quotes around it; and tidegate's own fields.
    assert_eq!(
        template(
            "'$time ${client} $$ $status $unknown'",
            "2026-11-22T15:32:17.5Z api_key:a $ 429 x y"
        ),
        "1795361537.500000 +100000 arrival client=\"api_key:a\" status=429\n"
    );
    // A path begins with a slash, and needs no text before it.
    let path = "$msec $scheme://$host$request_uri $status";
    assert_eq!(
        template(path, "1795361537.5 https://h:1/a?b 200"),
        "1795361537.500000 +100000 end path=\"/a\" query=\"b\" host=\"h:1\" scheme=\"https\" status=200\n"
    );
    let without = "1795361537.500000 +100000 end host=\"h\" scheme=\"http\" status=400\n";
    assert_eq!(template(path, "1795361537.5 http://h- 400"), without);
    assert_eq!(template(path, "1795361537.5 http://h 400"), without);
    assert_eq!(
        template("$msec $status", "1795361537.5"),
        "error: column 1: expected the text that the template has behind this value\n"
    );
    assert_eq!(
        template("[$msec] $status", "(1795361537.5) 200"),
        "error: column 1: expected the text that the template begins with\n"
    );
    assert_eq!(
        template("$msec [$status]", "1795361537.5 [200"),
        "error: column 15: expected the text that the template ends with\n"
    );
    assert_eq!(
        template("$msec $status", "now 200"),
        "error: column 1: expected a time, such as 22/Nov/2026:15:32:17 +0000\n"
    );
}

/// The name of the user has what looks like a status: it is taken first, but nothing fits behind it.
#[test]
fn what_a_try_found_that_failed_is_not_kept() {
    assert_eq!(
        template(
            "$remote_user $status $request_time [$time_local]",
            "u 500 x - 0.5 [22/Nov/2026:15:32:17 +0000]"
        ),
        "1795361536.500000 +1000000 shifted user=\"u 500 x\" duration=500000\n"
    );
}

#[test]
fn a_template_that_cannot_be_read_says_why() {
    assert_eq!(
        refused("$remote_addr $status"),
        "the template has no time: add `$time_local`, `$time_iso8601`, `$msec` or `$time`"
    );
    assert_eq!(
        refused("$msec$status"),
        "the template has no text before `$status`: where that begins cannot be told"
    );
    assert_eq!(
        refused("$msec ${status"),
        "the template has a `${` without `}`"
    );
    let headers = |count: u8| {
        let names = (0..count).map(|nth| format!(" $http_x_{nth}"));
        names.collect::<String>()
    };
    assert!(Format::read(&format!("$msec{} $_", headers(8))).is_ok());
    assert_eq!(
        refused(&format!("$msec{}", headers(9))),
        "the template has more than 8 request headers: write others than those that limits need as `$_`"
    );
    assert_eq!(
        refused("$msec $ x"),
        "the template has a `$` without a name; `$$` is a `$`"
    );
    assert!(refused("nginx").starts_with("there is no format `nginx`; there are tidegate-json, "));
}

#[test]
fn the_fields_of_a_template_are_those_of_its_variables() {
    let fields = Format::read("$msec $http_x_api_key $request_uri")
        .unwrap()
        .fields();
    assert!(fields.has(Field::Path) && fields.has(Field::Query) && fields.has_header("X-API-Key"));
    assert!(
        !fields.has(Field::Status) && !fields.has(Field::Peer) && !fields.has_header("user-agent")
    );
}

#[test]
fn a_line_cannot_make_a_template_try_for_long() {
    let format = Format::read("$a $b $c $d $e $f $g [$time_local]").unwrap();
    let line = " ".repeat(100_000);
    assert!(parsed(&format, line.as_bytes()).starts_with("error: "));
}

fn map(map: &str, line: &str) -> String {
    parsed(&Format::map(map).unwrap(), line.as_bytes())
}

#[test]
fn a_map_finds_members_of_objects_in_each_other() {
    let names = "time=$.ts, path=$.request.url, peer=$.request.from.ip, header:X-Api-Key=$.request.headers.key, status=$.code, duration_ms=$.ms";
    let line = r#"{"ts":1795361537123,"request":{"url":"/a?b","from":{"ip":"192.0.2.7","x":[{}]},"headers":{"key":"k\u00fc"}},"code":200,"ms":4.5}"#;
    assert_eq!(
        map(names, line),
        "1795361537.123000 +1000 arrival path=\"/a\" query=\"b\" duration=4500 peer=192.0.2.7 status=200 x-api-key: \"k\\xc3\\xbc\"\n"
    );
    // What is an object in one line may be none in another.
    assert_eq!(
        map(names, r#"{"request":"-","ts":"2026-11-22T15:32:17Z"}"#),
        "1795361537.000000 +1000000 arrival\n"
    );
    assert_eq!(
        map("end=$.t,duration=$.d", r#"{"t":1795361537,"d":0.5}"#),
        "1795361536.500000 +1000000 shifted duration=500000\n"
    );
}

#[test]
fn a_duration_of_more_than_31_days_is_refused() {
    let longest = 31 * 86_400_u64;
    for (unit, per_second) in [
        ("duration", 1),
        ("duration_ms", 1_000),
        ("duration_us", 1_000_000),
        ("duration_ns", 1_000_000_000),
        ("waited", 1),
    ] {
        let names = format!("end=$.t,{unit}=$.d");
        let of = |duration: u64| map(&names, &format!("{{\"t\":1795361537,\"d\":{duration}}}"));
        let kept = of(longest * per_second);
        assert!(kept.ends_with("=2678400000000\n"), "{unit}: {kept}");
        assert_eq!(
            of((longest + 1) * per_second),
            "error: column 21: expected a duration of at most 31 days\n"
        );
    }
}

#[test]
fn a_map_that_cannot_be_read_says_why() {
    let refused = |text: &str| Format::map(text).unwrap_err().to_string();
    assert_eq!(
        refused("path=$.a"),
        "the map has no time: add time=$.NAME (when a request arrived) or end=$.NAME (when it ended)"
    );
    assert_eq!(
        refused("time"),
        "`time` has no `=`: write such as path=$.request.path"
    );
    assert_eq!(
        refused("time=ts"),
        "`time=ts`: a path in the object begins with `$.`, such as $.request.path"
    );
    assert_eq!(
        refused("time=$.a..b"),
        "`time=$.a..b`: a path in the object begins with `$.`, such as $.request.path"
    );
    assert_eq!(
        refused("time=$.a,host=$.a"),
        "`host=$.a`: this path is named twice"
    );
    assert_eq!(
        refused("time=$.a,host=$.a.b"),
        "`host=$.a.b`: there are too many objects, or a value that is one, too"
    );
    let nine: String = (0..9)
        .map(|nth| format!(",header:x-{nth}=$.h.x{nth}"))
        .collect();
    assert_eq!(
        refused(&format!("time=$.a{nine}")),
        "`header:x-8=$.h.x8`: a map has 8 headers at most"
    );
    assert!(refused("colour=$.a").starts_with("there is no field `colour`; there are time, end, "));
}
