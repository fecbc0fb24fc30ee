//! Where lines of the access log go: the log of the process, or a file.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::buffers::Collected;
use crate::log::AccessSink;

/// Who may read a file that the gateway makes: its own user and group.
const MODE: u32 = 0o640;
/// How long to wait for a pipe that is full.
const FULL: Duration = Duration::from_millis(20);
/// How often the log of the process says, at most, that the file cannot be written.
const REPORT_EVERY: Duration = Duration::from_secs(10);

/// Takes lines. Only the thread that collects them may use it.
#[derive(Debug)]
pub(crate) enum Sink {
    /// The log of the process.
    Log(AccessSink),
    /// A file of their own.
    File(LogFile),
}

impl Sink {
    /// Writes whole lines, and waits until they are written; says how many of them are lost.
    pub(super) fn take(&mut self, collected: Collected<'_>) -> u64 {
        match self {
            Self::Log(log) => {
                log.write(collected.lines);
                0
            }
            Self::File(file) => {
                if collected.reopens {
                    file.reopen();
                }
                file.write(collected.lines)
            }
        }
    }
}

/// A file that lines are appended to.
#[derive(Debug)]
pub(crate) struct LogFile {
    path: PathBuf,
    file: File,
    /// The rest of a line that was written in part, when the disk was full.
    unfinished: Vec<u8>,
    reported: Option<Instant>,
}

impl LogFile {
    /// Opens a file, or makes it.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            file: open(path)?,
            unfinished: Vec::new(),
            reported: None,
        })
    }

    /// Opens the file of this name, which may be another one by now. If that fails, lines go on to the old one.
    fn reopen(&mut self) {
        let path = self.path.display();
        match open(&self.path) {
            Ok(file) => {
                let before = std::mem::replace(&mut self.file, file);
                let unfinished = std::mem::take(&mut self.unfinished);
                let _ = append(&before, &unfinished);
                tracing::info!(%path, "access log reopened");
            }
            Err(error) => {
                tracing::warn!(%path, %error, "access log not reopened; lines go on into the old file")
            }
        }
    }

    /// Appends whole lines; says how many could not be.
    fn write(&mut self, lines: &[u8]) -> u64 {
        let unfinished = append(&self.file, &self.unfinished);
        self.unfinished.drain(..unfinished.written);
        let error = match unfinished.error {
            Some(error) => (error, lines),
            None => {
                let appended = append(&self.file, lines);
                let Some(error) = appended.error else {
                    return 0;
                };
                let mut rest = &lines[appended.written..];
                let is_within = appended.written > 0 && lines[appended.written - 1] != b'\n';
                if is_within {
                    let end = rest.iter().position(|byte| *byte == b'\n');
                    let (line, behind) = rest.split_at(end.map_or(rest.len(), |end| end + 1));
                    self.unfinished = line.to_vec();
                    rest = behind;
                }
                (error, rest)
            }
        };
        let (error, rest) = error;
        let lost = rest.iter().filter(|byte| **byte == b'\n').count() as u64;
        let is_due = self.reported.is_none_or(|at| at.elapsed() >= REPORT_EVERY);
        if is_due {
            self.reported = Some(Instant::now());
            let path = self.path.display();
            tracing::warn!(%path, %error, lines = lost, "access log not written: lines are lost");
        }
        lost
    }
}

/// How far bytes were appended.
struct Appended {
    written: usize,
    error: Option<io::Error>,
}

fn append(mut file: &File, bytes: &[u8]) -> Appended {
    let mut written = 0;
    let error = loop {
        if written == bytes.len() {
            break None;
        }
        match file.write(&bytes[written..]) {
            Ok(0) => break Some(ErrorKind::WriteZero.into()),
            Ok(more) => written += more,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(FULL),
            Err(error) => break Some(error),
        }
    };
    Appended { written, error }
}

fn open(path: &Path) -> io::Result<File> {
    // A named pipe that nobody reads must not hold the gateway up.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(MODE);
    options.custom_flags(flags).open(path)
}
