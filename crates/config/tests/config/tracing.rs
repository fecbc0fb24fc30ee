//! What `tracing` takes from the file, and what from the environment.

use super::*;

/// The configuration, in an environment of these variables.
fn read(tracing: &str, variables: &[(&str, &str)]) -> Result<Option<TraceSettings>, String> {
    let text = with(&format!("tracing: {tracing}\n"));
    let variable = |name: &str| {
        let found = variables.iter().find(|(one, _)| *one == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    let read = config::parse("gateway.yaml", &text, variable);
    read.map(|(settings, _)| settings.tracing)
        .map_err(|error| error.to_string())
}

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

#[test]
fn the_file_is_enough() {
    assert_eq!(settings(&with("")).tracing, None);
    let tracing = read(
        "{ otlp: \"http://c:4318\", sample: 0.5%, max_per_second: 7, headers: { x-key: \"k\" } }",
        &[],
    );
    let tracing = tracing.unwrap().unwrap();
    assert_eq!(tracing.otlp.unwrap(), "http://c:4318/v1/traces");
    assert_eq!((tracing.sample, tracing.max_per_second), (5_000, 7));
    assert_eq!(
        (
            tracing.headers[0].0.as_str(),
            tracing.headers[0].1.to_str().unwrap()
        ),
        ("x-key", "k")
    );
    assert_eq!(tracing.timeout, Duration::from_secs(10));
    let name = ("service.name".to_owned(), "tidegate".to_owned());
    assert_eq!(tracing.resource, [name]);
    let tracing = read("{}", &[]).unwrap().unwrap();
    assert_eq!(
        (tracing.otlp, tracing.sample, tracing.max_per_second),
        (None, 10_000, 100)
    );
}

#[test]
fn the_environment_says_what_the_file_does_not() {
    let variables = [
        (ENDPOINT, "http://c:4318/base"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20k,x=1"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "2500"),
        ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"),
        ("OTEL_TRACES_SAMPLER_ARG", "0.25"),
        ("OTEL_SERVICE_NAME", "edge"),
        ("OTEL_RESOURCE_ATTRIBUTES", "service.name=other,zone=a%2Cb"),
    ];
    let tracing = read("{}", &variables).unwrap().unwrap();
    assert_eq!(tracing.otlp.unwrap(), "http://c:4318/base/v1/traces");
    assert_eq!(
        (
            tracing.headers[0].1.to_str().unwrap(),
            tracing.headers[1].1.to_str().unwrap()
        ),
        ("Bearer k", "1")
    );
    assert_eq!(
        (tracing.sample, tracing.timeout),
        (250_000, Duration::from_millis(2_500))
    );
    let resource: Vec<_> = tracing
        .resource
        .iter()
        .map(|(key, value)| (&**key, &**value))
        .collect();
    assert_eq!(resource, [("service.name", "edge"), ("zone", "a,b")]);
    let tracing = read(
        "{ otlp: \"http://d\", sample: 2%, headers: { x: \"2\" } }",
        &variables,
    );
    let tracing = tracing.unwrap().unwrap();
    assert_eq!(
        (tracing.otlp.unwrap().host(), tracing.sample),
        (Some("d"), 20_000)
    );
    assert_eq!(tracing.headers.len(), 1);
    let whole = [
        (ENDPOINT, "http://c"),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://e/own"),
    ];
    let tracing = read("{}", &whole).unwrap().unwrap();
    assert_eq!(tracing.otlp.unwrap(), "http://e/own");
    let off = [(ENDPOINT, "http://c"), ("OTEL_TRACES_EXPORTER", "none")];
    assert_eq!(read("{}", &off).unwrap().unwrap().otlp, None);
    assert_eq!(read("{}", &[("OTEL_SDK_DISABLED", "true")]), Ok(None));
}

#[test]
fn a_wrong_variable_is_refused_by_its_name_and_not_shown() {
    for (name, value) in [
        (ENDPOINT, "hunter2"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "hunter2"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "hunter2"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_TRACES_SAMPLER", "hunter2"),
        ("OTEL_TRACES_SAMPLER_ARG", "1.5"),
        ("OTEL_RESOURCE_ATTRIBUTES", "hunter2"),
    ] {
        // The one that is tried is found first.
        let others = [
            (ENDPOINT, "http://c"),
            ("OTEL_TRACES_SAMPLER", "traceidratio"),
        ];
        let variables: Vec<_> = [(name, value)].into_iter().chain(others).collect();
        let error = read("{}", &variables).unwrap_err();
        assert!(error.contains(name) && !error.contains(SECRET), "{error}");
        assert!(error.contains("gateway.yaml:2:"), "{error}");
    }
}
