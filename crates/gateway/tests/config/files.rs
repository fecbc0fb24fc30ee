//! What is wrong with a file as a whole: missing, too long, too much.

use super::*;

#[test]
fn a_missing_file_is_named() {
    let error = config::load(Path::new("tests/broken/none.yml"), env).unwrap_err();
    let expected = "error: tests/broken/none.yml: there is no such file\
        \n = a configuration is one YAML file; `-c FILE` names another";
    assert_eq!(error.to_string(), expected);
    assert!(config::load(Path::new("tests/broken"), env).is_err());
}

#[test]
fn a_file_that_is_too_long_is_refused_and_one_that_multiplies_itself_too() {
    let long = format!("{}#{}", with(""), "x".repeat(17 << 20));
    assert!(parse(&long).unwrap_err().to_string().contains("too long"));
    let mut aliases = String::from("a: &a [x, x, x, x, x, x, x, x, x, x]\n");
    for (last, next) in "abcdefgh".chars().zip("bcdefghi".chars()) {
        let nine = vec![format!("*{last}"); 9].join(", ");
        aliases += &format!("{next}: &{next} [{nine}]\n");
    }
    let started = Instant::now();
    assert!(parse(&format!("always:\n  - {}", aliases.replace('\n', "\n    "))).is_err());
    assert!(parse(&with(&format!("limits: {{ {} }}", "x: {".repeat(5000)))).is_err());
    assert!(started.elapsed() < Duration::from_secs(5));
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
    assert_eq!(plan(&text).routes.len(), 10_000);
    let took = started.elapsed();
    assert!(took < Duration::from_secs(20), "{took:?}");
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
    assert!(started.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_mark_of_byte_order_and_windows_line_ends_are_read() {
    plan(&format!(
        "\u{feff}{}",
        with("max_connections: 1\n").replace('\n', "\r\n")
    ));
    let error = parse("listen: x\r\nroutes: []\r\n")
        .unwrap_err()
        .to_string();
    assert!(!error.contains('\r'), "{error:?}");
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
