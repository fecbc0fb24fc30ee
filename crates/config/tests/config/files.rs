//! What is wrong with a file as a whole: missing, too long, too much.

use super::*;

#[test]
fn a_missing_file_is_named() {
    let error = config::load(Path::new("tests/broken/none.yml"), env).unwrap_err();
    let expected = "error: tests/broken/none.yml: cannot be read: there is no such file\
        \n = `-c FILE` names another; `tidegate init` writes one";
    assert_eq!(error.to_string(), expected);
    assert!(config::load(Path::new("tests/broken"), env).is_err());
}

#[test]
fn a_file_that_is_too_long_or_too_deep_is_refused() {
    let long = format!("{}#{}", with(""), "x".repeat(17 << 20));
    assert!(parse(&long).unwrap_err().to_string().contains("too long"));
    assert!(parse(&with(&format!("limits: {{ {} }}", "x: {".repeat(5000)))).is_err());
}

/// Each bracket could begin an address that needs quotation marks.
#[test]
fn brackets_without_end_are_refused_in_a_moment() {
    let error = |text: &str| parse(text).unwrap_err().to_string();
    let deep = error(&"[".repeat(400_000));
    assert!(deep.contains("nested too deep"), "{deep}");
    for brackets in ["[]", "[],", "[a,", "- [", "[a: "] {
        error(&format!("listen: {}", brackets.repeat(100_000)));
    }
}

#[test]
fn aliases_may_save_typing_but_not_multiply_a_file() {
    let text = |limits: usize, routes: usize| {
        let names: Vec<_> = (0..limits).map(|number| format!("l{number}")).collect();
        let mut text = format!("always: &common [{}]\nlimits:\n", names.join(", "));
        for name in names {
            text += &format!("  {name}: {{ fixed_window: {{ limit: 1, window: 1s }} }}\n");
        }
        text += "routes:\n";
        for number in 0..routes {
            text += &format!("  - {{ path: /{number}, upstream: http://h, limits: *common }}\n");
        }
        text
    };
    assert_eq!(settings(&text(2, 500)).routes.len(), 500);
    let error = parse(&text(2_000, 1_000)).unwrap_err().to_string();
    assert!(error.contains("too many aliases"), "{error}");
}

#[test]
fn ten_thousand_routes_are_read_in_a_moment() {
    let mut text =
        String::from("limits: { l: { fixed_window: { limit: 9, window: 1s } } }\nroutes:\n");
    for number in 0..10_000 {
        let host = number % 3;
        text += &format!(
            "  - name: r{number}\n    host: h{host}.example.com\n    \
             path: /api/v1/things/r{number}/{{id}}\n    methods: [GET, POST]\n    \
             upstream: http://127.0.0.1:9000\n    limits: [l]\n",
        );
    }
    let started = Instant::now();
    assert_eq!(settings(&text).routes.len(), 10_000);
    let took = started.elapsed();
    assert!(took < Duration::from_secs(60), "{took:?}");
}

#[test]
fn ten_thousand_mistakes_are_refused_in_a_moment() {
    let mut text = String::from("limits:\n");
    for number in 0..10_000 {
        text += &format!("  l{number}: {{ fixed_window: {{ limit: 9, window: 1s }} }}\n");
    }
    text += "routes:\n";
    for number in 0..10_000 {
        text += &format!("  - {{ path: /{number}, upstream: u, limits: [m{number}] }}\n");
    }
    let started = Instant::now();
    let error = parse(&text).unwrap_err().to_string();
    assert!(error.ends_with("and 19980 more"), "{error}");
    assert!(started.elapsed() < Duration::from_secs(60));
}

#[test]
fn a_mark_of_byte_order_and_windows_line_ends_are_read() {
    settings(&format!(
        "\u{feff}{}",
        with("max_connections: 1\n").replace('\n', "\r\n")
    ));
    let error = parse("\u{feff}listen: x\r\nroutes: []\r\n").unwrap_err();
    let error = error.to_string();
    assert!(!error.contains(['\r', '\u{feff}']), "{error:?}");
    assert!(error.contains(":1:9: "), "{error}");
}

#[test]
fn the_schema_knows_every_key_of_the_reference() {
    let schema = config::schema();
    let keys = schema["properties"].as_object().unwrap();
    let reference = fs::read_to_string("../../gateway.yaml").unwrap();
    for line in reference
        .lines()
        .filter(|line| line.starts_with(char::is_alphabetic))
    {
        let key = line.split(':').next().unwrap();
        assert!(keys.contains_key(key), "{key}");
    }
    assert_eq!(schema["additionalProperties"], false);
}
