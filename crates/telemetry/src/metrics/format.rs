//! The formats of `/metrics`: the text format of Prometheus, and OpenMetrics for those who accept it.

use std::fmt::Write as _;

use http::header::ACCEPT;
use http::{HeaderMap, HeaderValue};

/// How metrics are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The text format of Prometheus, version 0.0.4.
    Text,
    /// OpenMetrics 1.0.0.
    OpenMetrics,
}

impl Format {
    /// The format to answer a request with: OpenMetrics if it is accepted by name, and not less than text.
    pub fn accepted(headers: &HeaderMap) -> Self {
        let (mut open, mut text) = (0.0_f32, 0.0_f32);
        for value in headers.get_all(ACCEPT) {
            for range in value.to_str().unwrap_or_default().split(',') {
                let mut parts = range.split(';').map(str::trim);
                let name = parts.next().unwrap_or_default();
                let quality = parts.find_map(|part| part.strip_prefix("q="));
                let quality = quality.map_or(1.0, |quality| quality.parse().unwrap_or(0.0));
                if name.eq_ignore_ascii_case("application/openmetrics-text") {
                    open = open.max(quality);
                } else if name.eq_ignore_ascii_case("text/plain") {
                    text = text.max(quality);
                }
            }
        }
        match open > 0.0 && open >= text {
            true => Self::OpenMetrics,
            false => Self::Text,
        }
    }

    /// The header `Content-Type` of this format.
    pub const fn content_type(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        })
    }
}

/// Turns OpenMetrics into the text format of Prometheus, which names a counter as its samples are named, and knows neither units
/// nor an end.
pub(super) fn text(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len());
    let mut help = None;
    for line in open_metrics.lines() {
        let Some(comment) = line.strip_prefix("# ") else {
            text.push_str(line);
            text.push('\n');
            continue;
        };
        match comment.split_once(' ') {
            // Its name depends on the type, which comes next.
            Some(("HELP", rest)) => help = rest.split_once(' '),
            Some(("TYPE", rest)) => {
                let (name, kind) = rest.split_once(' ').unwrap_or((rest, "untyped"));
                let (suffix, kind) = match kind {
                    "counter" => ("_total", kind),
                    "unknown" => ("", "untyped"),
                    _ => ("", kind),
                };
                // Writing to a String cannot fail.
                if let Some((_, help)) = help.take() {
                    // A quote is escaped in OpenMetrics alone.
                    let help = help.replace("\\\"", "\"");
                    let _ = writeln!(text, "# HELP {name}{suffix} {help}");
                }
                let _ = writeln!(text, "# TYPE {name}{suffix} {kind}");
            }
            _ => {}
        }
    }
    text
}

#[cfg(test)]
mod tests {
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
            // Prometheus 2 and 3.
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
}
