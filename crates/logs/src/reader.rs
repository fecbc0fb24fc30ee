//! Reads whole logs.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::detect::{self, detect};
use crate::entry::Entry;
use crate::error::{Error, LineError, Refused};
use crate::field::Fields;
use crate::format::Format;
use crate::held::Held;
use crate::input::{Lines, Next};
use crate::parser::Parser;
use crate::record::Kind;
use crate::report::Report;
use crate::wrapper::Unwrapper;

/// The default of [`Options::window`]: requests up to this duration are put in the order of arrival.
const WINDOW: Duration = Duration::from_secs(60);

/// The most wrong lines kept for the report.
const MAX_REFUSED: usize = 5;

/// The most files that [`Reader::open`] keeps open. Further files are closed, and opened again when the reader reaches their first lines.
/// Pipes always stay open.
const MAX_OPEN: usize = 16;

/// The most lines read from a log before the reader looks for a request to return.
const BATCH: usize = 64;

/// Options for reading logs.
#[derive(Clone, Debug)]
pub struct Options {
    /// The format of all logs. `None` detects the format of each file by its first lines.
    pub format: Option<Format>,
    /// The request headers that the caller needs. If a log has more than eight headers, headers that are not listed here are left out
    /// first.
    pub headers: Vec<String>,
    /// Whether a wrong line ends the reading with an error.
    pub strict: bool,
    /// Requests up to this duration are put in the order of arrival. For this, the reader holds back at most 65,536 requests or 64 MiB of
    /// lines.
    pub window: Duration,
    /// Once this flag is true, the reader treats standard input as ended, even if a pipe stays open and silent.
    pub stop: Arc<AtomicBool>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            format: None,
            headers: Vec::new(),
            strict: false,
            window: WINDOW,
            stop: Arc::default(),
        }
    }
}

/// A log of a [`Reader`], with its format and progress.
#[derive(Debug)]
pub struct Source {
    path: PathBuf,
    format: Option<Format>,
    parser: Parser,
    /// `None` if the lines have no wrapper.
    unwrapper: Option<Unwrapper>,
    /// `None` before the log is opened, and after its end.
    lines: Option<Lines>,
    bytes_read: Arc<AtomicU64>,
    bytes: Option<u64>,
    requests: u64,
    resolution: u32,
}

impl Source {
    fn open(
        path: &Path,
        options: &Options,
        stays_open: bool,
    ) -> Result<(Self, Option<u64>), Error> {
        let failed = |error| Error::Read(path.to_owned(), error);
        let mut lines = Lines::open(path, &options.stop).map_err(failed)?;
        let first = lines.first(detect::LINES).map_err(failed)?;
        let first: Vec<_> = first.into_iter().map(|line| lines.bytes(line)).collect();
        let result = detect(&first, options.format.as_ref(), &options.headers);
        let (fit, wrapper) = result.map_err(|why| Error::Unknown(path.to_owned(), why))?;
        let size = std::fs::metadata(path).ok().filter(|it| it.is_file());
        let (format, parser, begins, resolution) = match fit {
            Some(fit) => (Some(fit.format), fit.parser, fit.first, fit.resolution),
            None => {
                let format = options.format.clone();
                let parser = Parser::new(format.as_ref().unwrap_or(&Format::Combined));
                (format, parser, None, 0)
            }
        };
        let is_file = size.is_some();
        let source = Self {
            path: path.to_owned(),
            format,
            parser,
            unwrapper: wrapper.map(Unwrapper::new),
            bytes_read: lines.counter(),
            lines: (stays_open || !is_file).then_some(lines),
            bytes: size.map(|it| it.len()),
            requests: 0,
            resolution,
        };
        Ok((source, begins))
    }

    /// Returns the path; `-` is standard input.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the format of the lines, or `None` if there are no lines.
    pub const fn format(&self) -> Option<&Format> {
        self.format.as_ref()
    }

    /// Returns the fields that lines can have, by the lines read so far.
    pub fn fields(&self) -> &Fields {
        self.parser.fields()
    }

    /// Returns the number of bytes read, before decompression.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read.load(Ordering::Relaxed)
    }

    /// Returns the size of the file, or `None` if it is a pipe.
    pub const fn bytes(&self) -> Option<u64> {
        self.bytes
    }

    /// Returns the coarsest resolution of the first requests' times, in microseconds: 1,000,000 for whole seconds, 0 without requests.
    pub const fn resolution(&self) -> u64 {
        self.resolution as u64
    }

    /// Returns the number of requests read.
    pub const fn requests(&self) -> u64 {
        self.requests
    }
}

/// A reader that merges several logs, and returns their requests in the order of arrival.
#[derive(Debug)]
pub struct Reader {
    sources: Vec<Source>,
    /// The logs that have not ended: the time of the newest line read, and the index in `sources`. The earliest time is on top.
    open: BinaryHeap<Reverse<(u64, usize)>>,
    held: Held,
    /// The place in `held` of the request that was returned last. The next call frees the place.
    given: Option<u32>,
    /// The latest arrival of a returned request.
    last: u64,
    /// The time of the newest line of all logs.
    newest: u64,
    report: Report,
    strict: bool,
    window: u64,
    stop: Arc<AtomicBool>,
}

impl Reader {
    /// Opens logs: files, also compressed by gzip or zstd, and `-` for standard input.
    ///
    /// # Errors
    ///
    /// A file cannot be read, or its first lines are of no known format.
    pub fn open<P: AsRef<Path>>(paths: &[P], options: Options) -> Result<Self, Error> {
        let mut sources = Vec::with_capacity(paths.len());
        let mut open = BinaryHeap::new();
        for (number, path) in paths.iter().enumerate() {
            let (source, begins) = Source::open(path.as_ref(), &options, number < MAX_OPEN)?;
            // A log without a request in its first lines gets the time 0. The reader reads such a log, too, so that its lines are counted.
            open.push(Reverse((begins.unwrap_or(0), number)));
            sources.push(source);
        }
        Ok(Self {
            sources,
            open,
            held: Held::default(),
            given: None,
            last: 0,
            newest: 0,
            report: Report::default(),
            strict: options.strict,
            window: u64::try_from(options.window.as_micros()).unwrap_or(u64::MAX),
            stop: options.stop,
        })
    }

    /// Returns the next request, or `None` at the end.
    ///
    /// # Errors
    ///
    /// A file cannot be read further, or a line is wrong and [`Options::strict`] is set.
    #[expect(
        clippy::should_implement_trait,
        reason = "entries borrow from the reader"
    )]
    pub fn next(&mut self) -> Result<Option<Entry<'_>>, Error> {
        if let Some(given) = self.given.take() {
            self.held.free(given);
        }
        let next = loop {
            let before = match self.open.peek() {
                Some(Reverse((written, _))) => written.saturating_sub(self.window),
                None => u64::MAX,
            };
            if let Some(at) = self.held.pop(before) {
                break at;
            }
            if self.open.is_empty() {
                return Ok(None);
            }
            self.read()?;
        };
        self.given = Some(next);
        let place = self.held.place(next);
        let arrival = place.record.arrival;
        if arrival < self.last {
            self.report.backward += 1;
            let behind = self.newest.max(self.last) - arrival;
            self.report.farthest_back = self.report.farthest_back.max(behind);
        }
        self.last = self.last.max(arrival);
        let parser = &self.sources[place.log].parser;
        Ok(Some(parser.entry(&place.line, &place.record)))
    }

    /// Reads up to [`BATCH`] lines of the log that is farthest behind in time.
    fn read(&mut self) -> Result<(), Error> {
        let Some(mut top) = self.open.peek_mut() else {
            return Ok(());
        };
        let Reverse((mut written, number)) = *top;
        let source = &mut self.sources[number];
        let lines = match &mut source.lines {
            Some(lines) => lines,
            none => {
                let lines = Lines::open(&source.path, &self.stop)
                    .map_err(|error| Error::Read(source.path.clone(), error))?;
                source.bytes_read = lines.counter();
                none.insert(lines)
            }
        };
        for _ in 0..BATCH {
            let next = match lines.next() {
                Ok(next) => next,
                // A stop may end compressed standard input in the middle. The error of the decompressor is then no error of the log.
                Err(_) if source.bytes.is_none() && self.stop.load(Ordering::Relaxed) => Next::End,
                Err(error) => return Err(Error::Read(source.path.clone(), error)),
            };
            let read = match next {
                Next::End => {
                    source.lines = None;
                    PeekMut::pop(top);
                    return Ok(());
                }
                Next::TooLong => Err(LineError::at(0, "expected a line of 1 MiB at most")),
                Next::Line(line) => {
                    let line = lines.bytes(line);
                    let content = match &mut source.unwrapper {
                        Some(_) if line.is_empty() => Ok(None),
                        Some(unwrapper) => unwrapper.content(line),
                        None => Ok(Some(line)),
                    };
                    match content {
                        Err(error) => Err(error),
                        Ok(None | Some([])) => Ok(Kind::Other),
                        Ok(Some(line)) => {
                            let read = source.parser.read(line);
                            let record = source.parser.record();
                            if read == Ok(Kind::Request) {
                                self.held.push(number, line, record);
                            }
                            if let Ok(Kind::Request | Kind::Question) = read {
                                written = written.max(record.written());
                                self.newest = self.newest.max(written);
                            }
                            read
                        }
                    }
                }
            };
            self.report.lines += 1;
            match read {
                Ok(Kind::Request) => {
                    self.report.requests += 1;
                    source.requests += 1;
                }
                Ok(Kind::Question) => self.report.questions += 1,
                Ok(Kind::Other) => self.report.others += 1,
                Ok(Kind::Lost(count)) => {
                    self.report.others += 1;
                    self.report.lost = self.report.lost.saturating_add(count);
                }
                Err(error) => {
                    let refused = || Refused {
                        path: source.path.clone(),
                        number: lines.number(),
                        error,
                    };
                    if self.strict {
                        return Err(Error::Line(refused()));
                    }
                    self.report.refused += 1;
                    if self.report.first_refused.len() < MAX_REFUSED {
                        self.report.first_refused.push(refused());
                    }
                }
            }
            if self.held.is_due(written.saturating_sub(self.window)) {
                break;
            }
        }
        if written > top.0.0 {
            top.0.0 = written;
        }
        Ok(())
    }

    /// Stops reading. [`next`](Self::next) still returns the requests that were already read.
    pub fn close(&mut self) {
        self.open.clear();
        for source in &mut self.sources {
            source.lines = None;
        }
    }

    /// Returns the logs, with their formats and progress.
    pub fn sources(&self) -> &[Source] {
        &self.sources
    }

    /// Returns the report so far.
    pub const fn report(&self) -> &Report {
        &self.report
    }
}
