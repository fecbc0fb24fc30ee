//! The formats of `/metrics`: the text format of Prometheus, and OpenMetrics for clients that accept it.

#[cfg(test)]
mod tests;

use std::fmt::Write as _;

use http::header::ACCEPT;
use http::{HeaderMap, HeaderValue};

/// A format of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The text format of Prometheus, version 0.0.4.
    Text,
    /// OpenMetrics 1.0.0.
    OpenMetrics,
}

impl Format {
    /// Returns the format for a request. The format is OpenMetrics if `Accept` names OpenMetrics, with a quality that is not lower than the
    /// quality of `text/plain`.
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

    /// Returns the header `Content-Type` of this format.
    pub const fn content_type(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        })
    }
}

/// Converts OpenMetrics to the text format of Prometheus. In the text format, a counter is named like its samples, and there are neither
/// units nor an end mark.
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
            // The help text is written later, because the metric's name depends on its type, which is in the next line.
            Some(("HELP", rest)) => help = rest.split_once(' '),
            Some(("TYPE", rest)) => {
                let (name, kind) = rest.split_once(' ').unwrap_or((rest, "untyped"));
                let (suffix, kind) = match kind {
                    "counter" => ("_total", kind),
                    "unknown" => ("", "untyped"),
                    _ => ("", kind),
                };
                // A write to a String cannot fail.
                if let Some((_, help)) = help.take() {
                    // Only OpenMetrics escapes quotes in a help text.
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
