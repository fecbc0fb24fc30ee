//! The text formats of metrics.

use super::*;

fn accepted(accept: &str) -> Format {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_str(accept).unwrap());
    Format::accepted(&headers)
}

#[test]
fn openmetrics_is_for_those_who_name_it() {
    assert_eq!(Format::accepted(&HeaderMap::new()), Format::Text);
    for accept in [
        "*/*",
        "text/plain",
        "text/html,*/*;q=0.8",
        "application/openmetrics-text;q=0",
        "application/*",
    ] {
        assert_eq!(accepted(accept), Format::Text, "{accept}");
    }
    for accept in [
        "application/openmetrics-text",
        "Application/OpenMetrics-Text; version=1.0.0",
        // The headers of Prometheus 2 and 3.
        "application/openmetrics-text; version=0.0.1,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
        "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
         application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,\
         text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
    ] {
        assert_eq!(accepted(accept), Format::OpenMetrics, "{accept}");
    }
    assert_eq!(
        accepted("text/plain,application/openmetrics-text;q=0.5"),
        Format::Text
    );
}

#[test]
fn counters_are_named_as_their_samples() {
    let open = "# HELP a_seconds How \\\"long\\\".\n# TYPE a_seconds histogram\n# UNIT a_seconds seconds\n\
                a_seconds_count{x=\"# TYPE b counter\"} 1\n\
                # HELP b Some.\n# TYPE b counter\nb_total 1\n# HELP c C.\n# TYPE c unknown\nc 1\n# EOF\n";
    assert_eq!(
        text(open),
        "# HELP a_seconds How \"long\".\n# TYPE a_seconds histogram\na_seconds_count{x=\"# TYPE b counter\"} 1\n\
         # HELP b_total Some.\n# TYPE b_total counter\nb_total 1\n# HELP c C.\n# TYPE c untyped\nc 1\n"
    );
}
