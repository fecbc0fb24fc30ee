//! The record of arrivals: a proof of the requests that the gateway let through, independent of the gateway's own counters.
//!
//! A line has five columns, separated by tabs. The first two are the time of arrival and the time of sending (`X-Sent-At`, by the client),
//! both in microseconds since the epoch. The third is the client, by the gateway's name for it (`X-Client-Id`). The fourth is the path. The
//! last is 1 if the request was taken, or 0 if the queue was full. A missing value is a `-`.

use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::Path,
    sync::{Mutex, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use http::Request;

/// The longest time for which a line waits in memory.
const EVERY: Duration = Duration::from_millis(200);

/// The file of arrivals, if the command line names one. A new line is kept in memory, and all new lines are written several times a second.
#[derive(Debug)]
pub(crate) struct Arrivals {
    file: Option<Mutex<BufWriter<File>>>,
}

impl Arrivals {
    /// Creates the file, and replaces an older file. Without a `path`, no arrivals are recorded.
    pub(crate) fn open(path: Option<&Path>) -> io::Result<Self> {
        let file = path.map(File::create).transpose()?;
        Ok(Self {
            file: file.map(BufWriter::new).map(Mutex::new),
        })
    }

    /// Notes a request that has just arrived, and whether it was taken.
    pub(crate) fn note<B>(&self, request: &Request<B>, taken: bool) {
        let Some(file) = &self.file else { return };
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let line = format!(
            "{}\t{}\t{}\t{}\t{}\n",
            now.unwrap_or_default().as_micros(),
            header(request, "x-sent-at"),
            header(request, "x-client-id"),
            request.uri().path(),
            u8::from(taken),
        );
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        // A full buffer is flushed first. If the flush fails, earlier lines stay buffered, but this line may be lost. `write` flushes
        // again, and returns an error if the file still cannot be written.
        _ = file.write_all(line.as_bytes());
    }

    /// Writes the lines that are still in memory.
    pub(crate) fn write(&self) -> io::Result<()> {
        match &self.file {
            Some(file) => file.lock().unwrap_or_else(PoisonError::into_inner).flush(),
            None => Ok(()),
        }
    }

    /// Writes repeatedly, until a write fails. The run should then end, because its proof is incomplete.
    pub(crate) async fn keep_writing(&self) -> io::Error {
        loop {
            tokio::time::sleep(EVERY).await;
            if let Err(error) = self.write() {
                return error;
            }
        }
    }
}

/// Returns a header's value, as one column.
fn header<B>(request: &Request<B>, name: &str) -> String {
    match request.headers().get(name) {
        Some(value) => String::from_utf8_lossy(value.as_bytes()).replace('\t', " "),
        None => "-".to_owned(),
    }
}
