//! Finds the format of a log by its first lines.

use crate::address::address;
use crate::error::LineError;
use crate::field::Field;
use crate::format::Format;
use crate::parser::Parser;
use crate::record::{Kind, Record};
use crate::wrapper::Wrapper;

/// The number of first lines by which the format is detected.
pub(crate) const LINES: usize = 200;

/// The fit of a format to the first lines.
#[derive(Debug)]
pub(crate) struct Fit {
    pub(crate) format: Format,
    pub(crate) parser: Parser,
    requests: usize,
    /// The number of requests that have a path.
    paths: usize,
    others: usize,
    /// The time at which the first request was written, in microseconds since the epoch.
    pub(crate) first: Option<u64>,
    /// The coarsest resolution of the requests' times, in microseconds.
    pub(crate) resolution: u32,
    /// The number of the first wrong line, and its error.
    wrong: Option<(usize, LineError)>,
}

impl Fit {
    fn of(format: Format, lines: &[&[u8]], headers: &[String]) -> Self {
        let mut fit = Self {
            parser: Parser::with_headers(&format, headers),
            format,
            requests: 0,
            paths: 0,
            others: 0,
            first: None,
            resolution: 0,
            wrong: None,
        };
        let filled = lines.iter().enumerate();
        for (number, line) in filled.filter(|(_, line)| !line.is_empty()) {
            match fit.parser.read(line) {
                Ok(Kind::Request | Kind::Question) => {
                    let record = fit.parser.record();
                    let has_path = record.texts[Field::Path as usize] != Default::default();
                    if !has_hops(&fit.format, line, record) {
                        fit.others += 1;
                        continue;
                    }
                    fit.paths += usize::from(has_path);
                    // A line of any JSON log may have a time. So a line of JSON with neither a status nor a path is no request.
                    if record.status > 0 || has_path || !is_json(&fit.format) {
                        fit.requests += 1;
                        fit.first = fit.first.or(Some(record.written()));
                        fit.resolution = fit.resolution.max(record.resolution);
                    }
                }
                Ok(Kind::Other | Kind::Lost(_)) => fit.others += 1,
                Err(error) => fit.wrong = fit.wrong.or(Some((number + 1, error))),
            }
        }
        fit
    }

    /// Whether the format probably fits: at least one line is a request. In JSON with nginx's names, at least one request must also have a
    /// path, because other logs may use such names for other values.
    fn is_likely(&self) -> bool {
        self.requests > 0 && (self.paths > 0 || self.format != Format::NginxJson)
    }
}

/// Finds the format of a log, and the wrapper of its lines. The format is `None` if no line is a request.
pub(crate) fn detect(
    lines: &[&[u8]],
    format: Option<&Format>,
    headers: &[String],
) -> Result<(Option<Fit>, Option<Wrapper>), String> {
    let plain = format_of(lines, format, headers);
    let Some(wrapper) = Wrapper::of(lines) else {
        return Ok((plain?, None));
    };
    let contents = wrapper.contents(lines);
    let contents: Vec<&[u8]> = contents.iter().map(Vec::as_slice).collect();
    match (format_of(&contents, format, headers), plain) {
        (Ok(Some(inner)), _) => Ok((Some(inner), Some(wrapper))),
        (_, Ok(plain)) => Ok((plain, None)),
        (Ok(None), Err(_)) => Ok((None, Some(wrapper))),
        (Err(why), Err(_)) => Err(why),
    }
}

/// Finds the format that fits most of these lines. `None` if no line is a request.
fn format_of(
    lines: &[&[u8]],
    format: Option<&Format>,
    headers: &[String],
) -> Result<Option<Fit>, String> {
    let filled = lines.iter().filter(|line| !line.is_empty()).count();
    if filled == 0 {
        return Ok(None);
    }
    if let Some(format) = format {
        let fit = Fit::of(format.clone(), lines, headers);
        if fit.requests > 0 || fit.others == filled {
            return Ok(rewind(fit));
        }
        let why = reason(&fit);
        let other = best(lines, headers).filter(|other| other.requests * 2 >= filled);
        let other = other.map_or(String::new(), |other| {
            format!("; they look like {}", other.format.name())
        });
        return Err(format!(
            "its first lines are not {}{other}: {why}",
            format.name()
        ));
    }
    match best(lines, headers) {
        Some(fit) if (fit.requests + fit.others) * 2 >= filled => Ok(rewind(fit)),
        _ => Err(unknown(lines, headers)),
    }
}

/// Lets the parser begin again with the first line. Returns `None` if no line is a request.
fn rewind(mut fit: Fit) -> Option<Fit> {
    fit.parser.rewind();
    fit.first.is_some().then_some(fit)
}

/// Returns the format that reads the most lines as requests. If several formats read the same number, returns the first in
/// [`Format::NAMED`].
fn best(lines: &[&[u8]], headers: &[String]) -> Option<Fit> {
    let filled = lines.iter().filter(|line| !line.is_empty());
    let objects = filled
        .clone()
        .filter(|line| line.trim_ascii_start().starts_with(b"{"));
    let are_json = objects.count() * 2 >= filled.count();
    let mut best: Option<Fit> = None;
    for (_, format) in Format::NAMED.iter().filter(|it| is_json(&it.1) == are_json) {
        let fit = Fit::of(format.clone(), lines, headers);
        if fit.is_likely() && best.as_ref().is_none_or(|it| fit.requests > it.requests) {
            best = Some(fit);
        }
    }
    best
}

fn reason(fit: &Fit) -> String {
    match fit.wrong {
        Some((number, error)) => format!("line {number}: {error}"),
        None => "no line has a status or a path".to_owned(),
    }
}

fn unknown(lines: &[&[u8]], headers: &[String]) -> String {
    let first = lines.iter().find(|line| !line.is_empty());
    let first = first.copied().unwrap_or_default();
    if first.trim_ascii_start().starts_with(b"{") {
        let guessed = Fit::of(Format::NginxJson, lines, headers);
        let why = match guessed.requests > 0 && guessed.paths == 0 {
            true => "its lines are JSON, and no line has a path under a name that is known",
            false => "its lines are JSON with names that are not known",
        };
        return format!(
            "{why}: say what they mean, such as --map time=$.ts,path=$.url,peer=$.ip,status=$.code"
        );
    }
    if first.contains(&0) {
        return "it is no text: no known format fits".to_owned();
    }
    let names: Vec<_> = Format::NAMED.iter().map(|it| it.0).collect();
    format!(
        "no known format fits its first lines: say it by --format, as one of {}, or as a template such as '$remote_addr [$time_local] \
         \"$request\" $status'",
        names.join(", ")
    )
}

/// Whether the text after the user agent can be `X-Forwarded-For`, as in [`Format::NginxMain`]. In similar formats, this text is another
/// header. Returns true for all formats but `NginxMain`.
fn has_hops(format: &Format, line: &[u8], record: &Record) -> bool {
    let hops = record.texts[Field::ForwardedFor as usize].bytes(line);
    let mut hops = hops.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    *format != Format::NginxMain
        || hops.all(|hop| matches!(hop, b"" | b"unknown") || address(hop).is_some())
}

/// Whether lines of this format are JSON, with names that other logs may use for other values.
const fn is_json(format: &Format) -> bool {
    matches!(
        format,
        Format::TidegateJson | Format::TraefikJson | Format::NginxJson | Format::Caddy
    )
}
