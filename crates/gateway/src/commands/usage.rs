//! `tidegate usage`: sums of requests and units from access logs, for invoices and reports.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use tidegate_logs::{Entry, Field, Reader};
use tidegate_telemetry::{RequestOutcome, log};

use super::Failure;
use crate::remote::{plain, print};

/// The most rows. The requests of further rows are counted in the row `(others)`.
const MOST: usize = 1_000_000;

/// The logs, and the form of the sums.
#[derive(Debug, Args)]
pub(super) struct Options {
    /// The access logs: files, also compressed by gzip or zstd, or - for standard input.
    #[arg(value_name = "LOG", required = true)]
    logs: Vec<PathBuf>,
    /// The first time that counts, in UTC: 2026-11-01 or 2026-11-01T12:00:00Z.
    #[arg(long, value_name = "TIME", value_parser = time)]
    since: Option<Timestamp>,
    /// The first time that no longer counts, in UTC.
    #[arg(long, value_name = "TIME", value_parser = time)]
    until: Option<Timestamp>,
    /// The columns to sum by, separated by commas.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "client")]
    by: Vec<Column>,
    /// Prints CSV.
    #[arg(long)]
    csv: bool,
}

/// A column to sum by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Column {
    Client,
    Plan,
    Route,
    Limit,
    /// The day of the request's arrival, in UTC.
    Day,
    /// The month of the request's arrival, in UTC.
    Month,
}

/// The sums of one row.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    /// Requests that were admitted.
    admitted: u64,
    /// Requests that a limit or a list refused, or that the gateway could not serve.
    refused: u64,
    /// The units of the admitted requests.
    units: u64,
    /// The bytes of the answers' bodies.
    bytes: u64,
}

/// The sums of all rows.
#[derive(Debug, Default)]
struct Usage {
    rows: BTreeMap<Vec<String>, Sums>,
    /// The requests whose line has a cost.
    costs: u64,
}

/// Prints the sums.
pub(super) fn run(options: &Options) -> Result<(), Failure> {
    let mut reader =
        Reader::open(&options.logs, tidegate_logs::Options::default()).map_err(Failure::failed)?;
    let mut usage = Usage::default();
    let [since, until] = [options.since, options.until].map(|time| time.map(micros));
    while let Some(entry) = reader.next().map_err(Failure::failed)? {
        let arrival = entry.arrival();
        let is_early = since.is_some_and(|since| arrival < since);
        let is_late = until.is_some_and(|until| arrival >= until);
        if !is_early && !is_late {
            usage.add(&options.by, &entry);
        }
    }
    let text = match options.csv {
        true => csv(&options.by, &usage),
        false => table(&options.by, &usage),
    };
    print(&plain(&text));
    let report = reader.report();
    for (count, what) in [
        (report.refused, "lines cannot be read"),
        (
            report.lost,
            "requests are missing in the log, as it says itself",
        ),
    ] {
        if count > 0 {
            eprint(&format!("warning: {count} {what}\n"));
        }
    }
    if usage.costs == 0 && !usage.rows.is_empty() {
        eprint("note: no line has a cost, so units are 0: list `cost` under `log.access.fields`\n");
    }
    Ok(())
}

fn eprint(text: &str) {
    log::last_words(text.to_owned());
}

impl Usage {
    fn add(&mut self, by: &[Column], entry: &Entry<'_>) {
        let key: Vec<String> = by.iter().map(|column| column.of(entry)).collect();
        let others = || vec!["(others)".to_owned(); by.len()];
        let key = match self.rows.len() < MOST || self.rows.contains_key(&key) {
            true => key,
            false => others(),
        };
        let sums = self.rows.entry(key).or_default();
        if is_refused(entry) {
            sums.refused += 1;
            return;
        }
        sums.admitted += 1;
        sums.bytes = sums.bytes.saturating_add(entry.bytes_out().unwrap_or(0));
        if let Some(cost) = entry.cost() {
            self.costs += 1;
            sums.units = sums.units.saturating_add(cost);
        }
    }
}

impl Column {
    const fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Plan => "plan",
            Self::Route => "route",
            Self::Limit => "limit",
            Self::Day => "day",
            Self::Month => "month",
        }
    }

    /// Returns the value of a request. A value that its line lacks is empty.
    fn of(self, entry: &Entry<'_>) -> String {
        let text = |field| {
            let text = entry.text(field).map(|text| text.bytes());
            text.map_or_else(String::new, |bytes| {
                String::from_utf8_lossy(&bytes).into_owned()
            })
        };
        match self {
            Self::Client => text(Field::Client),
            Self::Plan => text(Field::Plan),
            Self::Route => text(Field::Route),
            Self::Limit => text(Field::Limit),
            Self::Day => date(entry).map_or_else(String::new, |date| date.to_string()),
            Self::Month => date(entry).map_or_else(String::new, |date| {
                format!("{:04}-{:02}", date.year(), date.month())
            }),
        }
    }
}

/// Whether the request was refused, so that no limit was charged.
fn is_refused(entry: &Entry<'_>) -> bool {
    let Some(outcome) = entry.text(Field::Outcome) else {
        // The log of another program has no outcome.
        return entry.status() == Some(429);
    };
    let mut all = RequestOutcome::ALL.into_iter();
    let outcome = all.find(|it| it.label().as_bytes() == &*outcome.bytes());
    outcome.is_some_and(RequestOutcome::is_refusal)
}

fn date(entry: &Entry<'_>) -> Option<Date> {
    let micros = i64::try_from(entry.arrival()).ok()?;
    let at = Timestamp::UNIX_EPOCH.checked_add(SignedDuration::from_micros(micros));
    Some(at.ok()?.to_zoned(TimeZone::UTC).date())
}

/// Returns microseconds since the epoch; 0 before it.
fn micros(time: Timestamp) -> u64 {
    u64::try_from(time.as_microsecond()).unwrap_or(0)
}

/// Reads a day or a time.
fn time(text: &str) -> Result<Timestamp, String> {
    let day = || {
        let date: Date = text.parse().ok()?;
        Some(date.to_zoned(TimeZone::UTC).ok()?.timestamp())
    };
    let time = text.parse().ok().or_else(day);
    time.ok_or_else(|| "allowed here: 2026-11-01 or 2026-11-01T12:00:00Z".to_owned())
}

/// Returns the head and the rows. The rows with the most units come first, then those with the most requests.
fn rows(by: &[Column], usage: &Usage) -> impl Iterator<Item = Vec<String>> {
    let names = by.iter().map(|column| column.name());
    let names = names.chain(["admitted", "refused", "units", "bytes"]);
    let head = names.map(str::to_owned).collect();
    let mut all: Vec<_> = usage.rows.iter().collect();
    all.sort_by_key(|(_, sums)| std::cmp::Reverse((sums.units, sums.admitted)));
    let rows = all.into_iter().map(|(key, sums)| {
        let numbers = [sums.admitted, sums.refused, sums.units, sums.bytes];
        key.iter()
            .cloned()
            .chain(numbers.map(|number| number.to_string()))
            .collect()
    });
    std::iter::once(head).chain(rows)
}

fn table(by: &[Column], usage: &Usage) -> String {
    let rows: Vec<Vec<String>> = rows(by, usage).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..by.len() + 4).map(|at| width(at).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in &rows {
        for (at, (cell, width)) in row.iter().zip(&widths).enumerate() {
            // Writing to a String cannot fail.
            let _ = match at < by.len() {
                true => write!(text, "{cell:<width$}  "),
                false => write!(text, "{cell:>width$}  "),
            };
        }
        text.truncate(text.trim_end_matches(' ').len());
        text.push('\n');
    }
    text
}

fn csv(by: &[Column], usage: &Usage) -> String {
    let mut text = String::new();
    for row in rows(by, usage) {
        let cells: Vec<_> = row.iter().map(|cell| quoted(cell)).collect();
        text.push_str(&cells.join(","));
        text.push('\n');
    }
    text
}

/// Quotes a cell if its text needs it (RFC 4180).
fn quoted(cell: &str) -> String {
    match cell.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell.to_owned(),
    }
}
