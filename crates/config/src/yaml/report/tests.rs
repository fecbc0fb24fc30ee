use super::*;

const TEXT: &str = "limits:\n  burst: { capcity: 20 }\nsecret: hunter2\n";

fn place(line: usize, column: usize, length: usize) -> Place {
    Place {
        line,
        column,
        length,
    }
}

/// Whether an excerpt may show the last line of a text.
fn is_shown(text: &str) -> bool {
    let lines: Vec<_> = text.lines().collect();
    secrets::shown(&lines).pop().unwrap()
}

#[test]
fn a_problem_is_told_by_place_line_and_notes() {
    let problem = Problem::new(place(2, 12, 7), "unknown key `capcity`")
        .choices("capcity", ["capacity", "refill"]);
    let error = Source::new("gateway.yaml", TEXT).refuse(vec![problem]);
    let expected = "error: gateway.yaml:2:12: unknown key `capcity`\
        \n  |\
        \n2 |   burst: { capcity: 20 }\
        \n  |            ^^^^^^^\
        \n  = did you mean `capacity`?\
        \n  = allowed here: capacity, refill";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_line_of_a_log_has_all_problems_and_notes_without_excerpts() {
    let problems = vec![
        Problem::new(place(2, 12, 7), "unknown key `capcity`").note("did you mean `capacity`?"),
        Problem::new(place(3, 1, 6), "this is too short").note("error: keys.yaml: it is empty"),
    ];
    let source = Source::new("gateway.yaml", TEXT);
    let expected = "gateway.yaml:2:12: unknown key `capcity`; did you mean `capacity`?; \
        gateway.yaml:3:1: this is too short; keys.yaml: it is empty";
    assert_eq!(source.refuse(problems.clone()).in_one_line(), expected);
    let warnings = source.warn(problems);
    let lines: Vec<_> = warnings.iter().map(Warning::in_one_line).collect();
    let expected = "gateway.yaml:2:12: unknown key `capcity`; did you mean `capacity`?";
    assert_eq!(lines[0], expected);
}

#[test]
fn problems_come_in_the_order_of_the_file_and_not_by_the_hundred() {
    let source = Source::new("f", TEXT);
    let problems = |lines: &[usize]| {
        let problem = |line: &usize| Problem::new(place(*line, 1, 1), format!("p{line}"));
        source
            .refuse(lines.iter().map(problem).collect())
            .to_string()
    };
    let text = problems(&[3, 1]);
    assert!(text.find("p1").unwrap() < text.find("p3").unwrap());
    let text = problems(&[1; 27]);
    assert_eq!(text.matches("error:").count(), 20);
    assert!(text.ends_with("and 7 more"));
}

#[test]
fn places_beyond_the_text_are_told_all_the_same() {
    let source = Source::new("f", "a: [\n");
    for (line, column) in [(1, 5), (2, 1), (9, 9)] {
        let error = source.refuse(vec![Problem::new(place(line, column, 0), "here")]);
        assert!(error.to_string().ends_with('^'), "{error}");
    }
}

#[test]
fn a_long_line_is_shown_around_the_place() {
    let text = format!("a: [{}wrong, {}]", "é, ".repeat(300), "b, ".repeat(300));
    let source = Source::new("f", &text);
    let error = source
        .refuse(vec![Problem::new(place(1, 905, 5), "here")])
        .to_string();
    let lines: Vec<_> = error.lines().collect();
    assert!(lines[2].chars().count() < 120);
    let at = lines[3].find('^').unwrap();
    let shown: String = lines[2].chars().skip(at).take(5).collect();
    assert_eq!(
        (shown.as_str(), lines[3].trim_matches(['|', ' '])),
        ("wrong", "^^^^^")
    );
}

#[test]
fn a_line_that_may_hold_a_secret_is_not_shown() {
    for line in [
        "  redis: { url: redis://:hunter2@h, timeot: 1s }",
        "secret: hunter2",
        "sercet: hunter2 # mine",
        "\"secret\": 'hunter2'",
        "secret: [hunter2]",
        "a: { hash: \"hunter2, hunter2\", secret: hunter2 }",
        "- { name: x, key: hunter2}",
        "keys: [hunter2, hunter2]",
        "tokens: [hunter2, hunter2]",
        "url: redis://:hunter2@h/0",
        "anything: http://me:hunter2@h/@hunter2@",
        "- https://hunter2:@h",
        "PASSWORD: hunter2: hunter2",
        "secret:'hunter2'",
        "secret hunter2",
        "secret = hunter2",
        "{ name: a hash: hunter2 }",
        "{ name: a, hash:\"hunter2 }",
        "{secret: hunter2}",
        "-secret: hunter2",
        "# secret: hunter2",
        "tokens [hunter2]",
        "tokens = [hunter2]",
        "tokens : [hunter2]",
        "request_has: { X-Key: hunter2, A: b }",
        "- { path: /, requst_has: { X-Key: hunter2 }, upstream: a }",
        "tracing: { headers: { x-key: hunter2 }, smaple: 1% }",
        "- api_key: \"hunter2\"",
        "- api_keys: [hunter2]",
        "- jwt: hunter2",
        "request_header: { X: hunter2 }",
        "request_headers: \"Authorization: Bearer hunter2\"",
        "tracing: Bearer hunter2",
        "trace: { otlp: \"https://otlp.example.com/v1/traces?q=hunter2 \" }",
        "basic_auth: user:hunter2",
        "bearer_token: hunter2",
        "redis: { redis_password: hunter2, gatewys: 2 }",
        "redis: { pwd: hunter2, gatways: 2 }",
        "admin: { adress: x, admin_token: hunter2 }",
        "- { hs256_secret: hunter2, algoritms: x }",
        "tracing: { header: { x-team: hunter2 }, sampel: 1% }",
        "upstream: u:hunter2@127.0.0.1:9000",
    ] {
        assert!(!is_shown(line), "{line}");
        let problem = Problem::new(place(1, 1, 1), "here").note("so");
        let error = Source::new("f", line).refuse(vec![problem]).to_string();
        assert_eq!(error, "error: f:1:1: here\n = so");
    }
}

#[test]
fn the_block_of_a_secret_is_not_shown() {
    for text in [
        "secret:\n  hunter2",
        "secret:\nhunter2",
        "  secret:\nhunter2",
        "secret:\n\thunter2",
        "secret: |\n  a\n\n  hunter2",
        "secret:\n  - hunter2",
        "secret: \"a\n  hunter2\"",
        "secret: 'a\nhunter2'",
        "secret: \"a\nb: hunter2\"",
        "secret: \"a\\\"\nb: hunter2\"",
        "- { path: don't, secret: 'a }\nb: hunter2' }",
        "secret: 'it''s\nb: hunter2'",
        "secret: { # }\nb: hunter2 }",
        "secret:\n  'a\nhunter2'",
        "a: { url: \"a, \nb\nhunter2\" }",
        "a: { secret:\nhunter2 }",
        "? secret\n: hunter2",
        "keys:\n  - name: x\n  - hunter2",
        "admin:\n    token: abc\n\"tracing\":\n  \"headers\":\n    x-team: hunter2",
        "secret: &a \"abc\nfoo: hunter2\"",
        "secret: !t 'abc\nfoo: hunter2'",
        "keys:\n- hunter2",
        "keys:\n- hunter2: 1",
        "  keys:\n- hunter2",
        "request_has:\n  X-Key: hunter2",
        "request_has:\n  a:\n  X-Key: hunter2",
        "    keys:\n    - hunter2",
        "redis:\n  url:\n    # new\n    hunter2",
    ] {
        assert!(!is_shown(text), "{text}");
    }
    for text in [
        "secret:\n  hunter2\nlisten: 127.0.0.1",
        "redis:\n  url: \"a\" # the gateways' own\n  mode: fast",
        "- { url: a }\n- { path: /b }",
        "- path: /a\n  set: { a: b }\n- path: /b",
        "keys:\n  - name: x\nroutes:\n  - path: /a",
        "# the secret\n  listen: a",
    ] {
        assert!(is_shown(text), "{text}");
    }
}

#[test]
fn what_is_no_secret_is_shown() {
    for line in [
        "    path: /api/rides/{id}",
        "limits: [url-guard, token-bucket]",
        "    query: { page: \"1\" }",
        "limits: { a: { per: [ip] } }",
        "  - host: api.example.com",
        "listen: ${LISTEN:-127.0.0.1:80}",
        "upstream: http://127.0.0.1:9000",
    ] {
        assert!(is_shown(line), "{line}");
    }
}

#[test]
fn the_line_of_an_unknown_key_is_shown_if_it_was_meant_to_be_harmless() {
    let shown = |line: &str, key: &str| {
        let problem = Problem::unknown_key(Some(place(1, 1, 0)), key, &["secret", "listen"]);
        Source::new("f", line).refuse(vec![problem]).to_string()
    };
    assert!(shown("lissten: 127.0.0.1", "lissten").contains("lissten: 127.0.0.1"));
    assert!(!shown("pepper: hunter2", "pepper").contains("hunter2"));
    assert!(!shown("se: hunter2", "se").contains("hunter2"));
    assert!(shown("hunter2 hunter2: x", "hunter2 hunter2").contains("this is not a key"));
}

#[test]
fn passwords_in_urls_leave_messages() {
    let text = "`redis://a:hunter2@h` or `http://h/@x`";
    assert_eq!(without_users(text), "`redis://***@h` or `http://***@x`");
    assert_eq!(without_users("http://h, a@b"), "http://h, a@b");
    assert_eq!(without_users("redis://a:b://c@h"), "redis://***@h");
}

#[test]
fn the_nearest_name_is_one_or_two_mistakes_away() {
    let nearest = |word| nearest(word, ["limit", "window", "per"].into_iter());
    assert_eq!(nearest("windw"), Some("window"));
    assert_eq!(nearest("Limits"), Some("limit"));
    assert_eq!(nearest("pre"), Some("per"));
    assert_eq!(nearest("capacity"), None);
}
