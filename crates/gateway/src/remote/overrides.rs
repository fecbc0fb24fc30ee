//! `tidegate overrides`: lists, saves and sets all overrides of a running gateway.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use http::{Method, StatusCode};
use tidegate_overrides::api::{Loaded, Shown, ShownList, WantedList, table};
use tidegate_status::{shown, shown_json};
use tidegate_top::escaped;

use crate::remote::Failure;
use crate::remote::change::note;
use crate::remote::port::{self, AdminPort, Call, Target};

/// The most overrides that one call sets.
const PAGE: usize = 1_000;
/// The most overrides that one answer lists.
const PART: usize = 5_000;
/// The most bytes that are read from a file.
const MAX_FILE: u64 = 256 << 20;

/// The arguments: an action on all overrides, and a gateway.
#[derive(Debug, Args)]
pub(crate) struct Question {
    /// The action.
    task: Task,
    /// The file to load, which `dump` wrote; - is standard input.
    #[arg(required_if_eq("task", "load"))]
    file: Option<PathBuf>,
    /// Lists them as JSON, with their versions.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    gateway: Target,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Task {
    /// Prints the overrides that are in force.
    List,
    /// Prints the overrides as a file that `load` reads.
    Dump,
    /// Sets the overrides of a file, and leaves all others unchanged.
    Load,
}

/// Calls the gateway at `--admin`, or the gateway of this configuration.
///
/// # Errors
///
/// No gateway answers, the file cannot be read, or the gateway refuses an override.
pub(crate) fn run(config: &Path, question: &Question) -> Result<(), Failure> {
    if question.file.is_some() && question.task != Task::Load {
        return Err(Failure::usage("only `load` reads a file"));
    }
    let port = question.gateway.port(config)?;
    match (question.task, &question.file) {
        (Task::List, _) if !question.json => list(&port),
        (Task::List | Task::Dump, _) => {
            crate::remote::print(&document(&all(&port)?.overrides)?);
            Ok(())
        }
        (Task::Load, Some(file)) => load(&port, file),
        (Task::Load, None) => Err(Failure::usage("name the file to load")),
    }
}

fn list(port: &AdminPort) -> Result<(), Failure> {
    let list = all(port)?;
    let mut text = match list.overrides.as_slice() {
        [] => "no overrides are in force\n".to_owned(),
        overrides => table(overrides),
    };
    text.push_str(note(list.kept));
    crate::remote::print(&text);
    Ok(())
}

/// Returns all overrides in force, page by page.
///
/// # Errors
///
/// No gateway answers, or the gateway refuses.
pub(crate) fn all(port: &AdminPort) -> Result<ShownList, Failure> {
    let mut all: ShownList = port::ask(port, Call::get(format!("/overrides?limit={PART}")))?;
    while let Some(after) = all.next.take() {
        let path = format!("/overrides?limit={PART}&after={}", escaped(&after));
        let mut part: ShownList = port::ask(port, Call::get(path))?;
        // The loop ends after an empty page, because its cursor would return the same page again.
        all.next = part.next.take().filter(|_| !part.overrides.is_empty());
        all.overrides.append(&mut part.overrides);
    }
    Ok(all)
}

/// Returns all overrides in force. The list is empty for a gateway of an earlier release without overrides.
///
/// # Errors
///
/// The errors of [`all`], except the answer 404, which shows that the gateway has no overrides.
pub(crate) fn if_any(port: &AdminPort) -> Result<Vec<Shown>, Failure> {
    match all(port) {
        Err(failure) if failure.answer == Some(StatusCode::NOT_FOUND) => Ok(Vec::new()),
        answer => answer.map(|list| list.overrides),
    }
}

/// Formats the overrides as JSON, with each override on its own line.
fn document(overrides: &[Shown]) -> Result<String, Failure> {
    let mut text = "{\"overrides\": [".to_owned();
    for (index, it) in overrides.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        let line = shown_json(&serde_json::to_string(it).map_err(Failure::failed)?);
        // Writing to a String cannot fail.
        let _ = write!(text, "{comma}\n  {line}");
    }
    text.push_str("\n]}\n");
    Ok(text)
}

fn load(port: &AdminPort, file: &Path) -> Result<(), Failure> {
    let name = file.display();
    let unusable = |error: &dyn std::fmt::Display| Failure::usage(format!("{name}: {error}"));
    let text = read(file).map_err(|error| unusable(&error))?;
    let list: WantedList = serde_json::from_str(&text).map_err(|error| unusable(&error))?;
    let mut sum = Loaded::default();
    for overrides in list.overrides.chunks(PAGE) {
        let part = WantedList {
            overrides: overrides.to_vec(),
        };
        let call = Call::new(Method::POST, "/overrides").with(&part)?;
        let loaded: Loaded = port::ask(port, call).map_err(|failure| Failure {
            message: format!("{}\nset: {} before that request", failure.message, sum.set),
            ..failure
        })?;
        sum.set += loaded.set;
        sum.over += loaded.over;
        sum.refused += loaded.refused;
        sum.reasons.extend(loaded.reasons);
    }
    let mut text = format!("set: {}\n", sum.set);
    if sum.over > 0 {
        let _ = writeln!(text, "ended already: {}", sum.over);
    }
    crate::remote::print(&text);
    if sum.refused == 0 {
        return Ok(());
    }
    sum.reasons.truncate(20);
    // Line breaks are replaced, so that a name cannot begin a new line.
    let reasons = sum.reasons.iter().map(|it| it.chars().map(shown).collect());
    let reasons: Vec<String> = reasons.collect();
    Err(Failure::failed(format!(
        "refused: {}\n  {}",
        sum.refused,
        reasons.join("\n  ")
    )))
}

fn read(file: &Path) -> io::Result<String> {
    let mut text = String::new();
    let from: Box<dyn Read> = match file == Path::new("-") {
        true => Box::new(io::stdin()),
        false => Box::new(File::open(file)?),
    };
    let length = from.take(MAX_FILE + 1).read_to_string(&mut text)?;
    match length as u64 > MAX_FILE {
        true => Err(io::Error::other("it has more than 256 MB")),
        false => Ok(text),
    }
}
