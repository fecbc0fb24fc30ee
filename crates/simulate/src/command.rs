//! `tidegate simulate`: its options, and the run.

use std::io::{IsTerminal as _, Write as _};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use http::HeaderValue;
use tidegate_logs::{Format, Reader};

use crate::collect::{Allowed, report};
use crate::engine::{Replay, Trial, replay};
use crate::html;
use crate::lacks::headers;
use crate::lane::RetryModel;
use crate::notes::notes;
use crate::plain::plain;
use crate::progress::Progress;
use crate::report::Report;
use crate::request::Given;
use crate::suggest::{self, suggest};
use crate::terminal;

/// The log to replay, and the form of the report.
#[derive(Debug, Args)]
pub struct Options {
    /// The access logs: files, also compressed by gzip or zstd, or - for standard input. Several are merged by time.
    #[arg(value_name = "LOG", required = true)]
    logs: Vec<PathBuf>,
    /// The format of the logs: auto, a name such as combined or tidegate-json, or a template such as nginx's log_format.
    #[arg(long, default_value = "auto", value_parser = format)]
    format: FormatOption,
    /// The fields of logs that are JSON, such as time=$.ts,peer=$.ip,path=$.url.
    #[arg(long, value_name = "FIELDS", conflicts_with = "format", value_parser = map)]
    map: Option<Format>,
    /// Fails at the first line that cannot be read.
    #[arg(long)]
    strict: bool,
    /// The host that the requests asked for, if the logs do not have it.
    #[arg(long, value_name = "NAME")]
    host: Option<HeaderValue>,
    /// The address that connected, if the logs do not have it.
    #[arg(long, value_name = "ADDRESS")]
    peer: Option<IpAddr>,
    /// The next step of refused clients, which no log has.
    #[arg(long, value_enum, default_value = "none")]
    retry: RetryModel,
    /// Suggests quotas that refuse no request of this share of the clients, as YAML to paste. Reads the logs once more. Default: 99%.
    #[arg(long, value_name = "PERCENT", num_args = 0..=1, require_equals = true, default_missing_value = "99%", value_parser = percent)]
    suggest: Option<f64>,
    /// Writes the report as a page with charts: one file without others beside it.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Prints the report as JSON.
    #[arg(long)]
    json: bool,
    /// Exits with 1 if limits would refuse more than this share of the requests, such as 0.1%, or if that is not known.
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    fail_over: Option<f64>,
    /// Writes a line of JSON for each request, with what the first configuration would do.
    #[arg(long, value_name = "FILE")]
    decisions: Option<PathBuf>,
}

/// A format. `None` detects the format of each file by its first lines.
#[derive(Clone, Debug)]
struct FormatOption(Option<Format>);

fn format(text: &str) -> Result<FormatOption, String> {
    if text == "auto" {
        return Ok(FormatOption(None));
    }
    let format = Format::read(text).map_err(|error| error.to_string())?;
    Ok(FormatOption(Some(format)))
}

fn map(text: &str) -> Result<Format, String> {
    Format::map(text).map_err(|error| error.to_string())
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim();
    let percent = number.parse::<f64>().ok();
    let percent = percent.filter(|it| (0.0..=100.0).contains(it));
    percent.ok_or_else(|| "a share is written 0.1%".to_owned())
}

/// Replays the logs against each configuration, and prints the report.
///
/// # Errors
///
/// A log cannot be read, or an output file cannot be written. Limits refuse more requests than `--fail-over` allows, or the number of
/// refused requests is unknown.
pub fn run(trials: &[Trial<'_>], options: &Options) -> Result<(), String> {
    replayed(trials, options).map_err(|why| plain(&why).into_owned())
}

fn replayed(trials: &[Trial<'_>], options: &Options) -> Result<(), String> {
    if options.suggest.is_some()
        && let Some(log) = options.logs.iter().find(|log| !can_be_read_twice(log))
    {
        return Err(format!(
            "--suggest reads the logs twice, which {} cannot be: it is no regular file",
            log.display()
        ));
    }
    let stop = Arc::new(AtomicBool::new(false));
    // A second signal ends the process at once.
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        let ends = signal_hook::flag::register_conditional_default(signal, stop.clone());
        let notes = signal_hook::flag::register(signal, stop.clone());
        ends.and(notes).map_err(|error| error.to_string())?;
    }
    let given = Given {
        host: options.host.clone(),
        peer: options.peer,
    };
    let base = Replay {
        given: &given,
        retries: options.retry,
        capacities: None,
        decisions: options.decisions.clone(),
    };
    let mut reader = options.reader(trials, &stop)?;
    let mut progress = Progress::new(std::io::stderr().is_terminal());
    let mut go_on = |reader: &Reader| {
        progress.show(reader);
        !stop.load(Ordering::Relaxed)
    };
    let report = report_on(trials, options, &base, (&mut reader, &stop), &mut go_on);
    progress.end();
    let report = report?;
    if let Some(file) = &options.html {
        let written = std::fs::write(file, html::page(&report));
        written.map_err(|error| format!("{}: {error}", file.display()))?;
    }
    let text = match options.json {
        true => serde_json::to_string_pretty(&report).map_err(|error| error.to_string())? + "\n",
        false => terminal::text(&report) + &suggest::text(&report.suggested),
    };
    // A failed write is ignored, because a program that closes the output early has read enough of the report.
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
    let why = options.fail_over.and_then(|percent| report.fails(percent));
    why.map_or(Ok(()), Err)
}

/// The note in the report if a stop prevents `--suggest` from suggesting quotas.
const NO_SUGGESTIONS: &str =
    "No quotas are suggested, because the replay was stopped before the end of the log.";

/// Replays the logs and returns the report. `--suggest` replays the logs a second time.
fn report_on(
    trials: &[Trial<'_>],
    options: &Options,
    base: &Replay<'_>,
    (reader, stop): (&mut Reader, &Arc<AtomicBool>),
    go_on: &mut dyn FnMut(&Reader) -> bool,
) -> Result<Report, String> {
    let results = replay(trials, reader, base, go_on)?;
    let retries = base.retries == RetryModel::After;
    let mut report = report(&results, reader);
    report.notes = notes(&results, reader.report(), &report.configurations, retries);
    if let Some(untouched) = options.suggest {
        let allowed = Allowed::Clients(((100.0 - untouched) * 10_000.0).round() as u64);
        let open = || options.reader(trials, stop);
        let suggested = match results.stopped {
            true => None,
            false => suggest(trials, (&results, allowed), base, open, go_on)?,
        };
        match suggested {
            Some(suggested) => report.suggested = suggested,
            None => report.notes.push(NO_SUGGESTIONS.to_owned()),
        }
    }
    Ok(report)
}

impl Options {
    /// Opens the logs. Standard input ends once `stop` is true.
    fn reader(&self, trials: &[Trial<'_>], stop: &Arc<AtomicBool>) -> Result<Reader, String> {
        let headers = trials.iter().flat_map(|trial| headers(trial.settings));
        let options = tidegate_logs::Options {
            headers: headers.collect(),
            format: self.map.clone().or_else(|| self.format.0.clone()),
            strict: self.strict,
            stop: stop.clone(),
            ..Default::default()
        };
        Reader::open(&self.logs, options).map_err(|error| error.to_string())
    }
}

/// Whether a log is neither a pipe nor standard input. True for a missing file, because opening the log reports that the file is missing.
fn can_be_read_twice(log: &Path) -> bool {
    let metadata = std::fs::metadata(log);
    let is_pipe = metadata.is_ok_and(|it| !it.is_file() && !it.is_dir());
    log.as_os_str() != "-" && !is_pipe
}
