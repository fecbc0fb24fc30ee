use super::*;
use crate::tests::bad;

#[test]
fn a_collector_gets_the_path_of_the_standard_unless_it_has_its_own() {
    for (text, url) in [
        ("http://localhost:4318", "http://localhost:4318/v1/traces"),
        ("http://localhost:4318/", "http://localhost:4318/v1/traces"),
        (
            "https://otel.example/otlp/v1/traces",
            "https://otel.example/otlp/v1/traces",
        ),
    ] {
        assert_eq!(OtlpUrl::read(text).unwrap().0.to_string(), url, "{text}");
    }
    let based = OtlpUrl::of_collector("https://otel.example/otlp/").unwrap();
    assert_eq!(based.0, "https://otel.example/otlp/v1/traces");
    bad::<OtlpUrl>(&[
        "",
        "localhost:4318",
        "grpc://localhost:4317",
        "http://",
        "http://u:p@host/",
        "/v1/traces",
    ]);
}
