//! The access log: one line per request.
//!
//! ```text
//! request's end ─ selection ─ format ─> a buffer per processor ─ collecting thread ─> standard error, or a file
//! ```
//!
//! The thread that served a request formats the request's line into a buffer, which it shares with few threads. A collecting thread writes
//! the lines. It empties the buffers ten times per second, or earlier when a buffer is long. Requests never wait for the output. If the
//! output is slow and a buffer is full, further lines are dropped and counted. A later line contains the number of lost lines.

mod buffers;
mod format;
mod head;
mod record;
mod selection;
mod settings;
mod sink;
mod style;
mod timestamp;
mod value;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use buffers::Buffers;
use format::Format;
use head::HeadFields;
use http::Request;
use selection::Selection;

pub(crate) use format::Fields;
pub use record::Record;
pub use settings::{
    AccessField, AccessFilter, AccessFormat, AccessLogSettings, AccessPiece, TemplateError,
};
pub use sink::{LogFile, Sink};
pub(crate) use value::Value;

use crate::request_id::RequestId;

/// A handle of the access log. Clones are cheap.
#[derive(Clone, Debug)]
pub struct AccessLog(Option<Arc<Log>>);

#[derive(Debug)]
struct Log {
    kept: HeadFields,
    selection: Selection,
    buffers: Buffers,
}

/// A handle of the thread that collects lines. The thread ends when the handle is finished or dropped.
#[derive(Debug)]
pub struct Collector(Arc<Log>);

impl Collector {
    /// Ends the thread. Waits until all earlier lines are written, at most for `timeout`.
    pub fn finish(self, timeout: Duration) {
        self.0.buffers.close(timeout);
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.0.buffers.close(Duration::ZERO);
    }
}

impl AccessLog {
    /// Starts the thread that collects lines for `sink`.
    ///
    /// # Errors
    ///
    /// The thread cannot be started.
    pub fn start(
        settings: &AccessLogSettings,
        mut sink: Sink,
    ) -> std::io::Result<(Self, Collector)> {
        let format = Format::new(&settings.format);
        let log = Arc::new(Log {
            kept: HeadFields::for_format(&format),
            selection: Selection::new(settings),
            buffers: Buffers::new(format),
        });
        let thread = std::thread::Builder::new().name("access-log".into());
        let collected = log.clone();
        thread.spawn(move || collected.buffers.collect(|lines| sink.take(lines)))?;
        Ok((Self(Some(log.clone())), Collector(log)))
    }

    /// Returns an access log that is off.
    pub const fn off() -> Self {
        Self(None)
    }

    /// Whether the access log is on.
    pub const fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Begins the record of a request from `peer` for the client at `client_ip`. With `has_spans`, the record also has the host and the
    /// user agent, because spans contain them.
    pub fn record<B>(
        &self,
        request: &Request<B>,
        id: &RequestId,
        route: Option<Arc<str>>,
        peer: SocketAddr,
        client_ip: IpAddr,
        has_spans: bool,
    ) -> Record {
        let mut kept = self.0.as_ref().map(|log| log.kept).unwrap_or_default();
        kept.host |= has_spans;
        kept.user_agent |= has_spans;
        Record::new(request, kept, id, route, peer, client_ip)
    }

    /// Writes the line of a request that has ended, if the settings select the request.
    pub fn write(&self, record: &Record) {
        if let Some(log) = &self.0
            && log.selection.takes(|| record.end())
        {
            log.buffers.write(record);
        }
    }

    /// Makes the collecting thread open the log file again before it writes further lines, because the file may have been rotated.
    pub fn reopen(&self) {
        if let Some(log) = &self.0 {
            log.buffers.reopen();
        }
    }

    /// Returns the number of requests since start that got no line because of `max_refusals_per_second`.
    pub fn unwritten(&self) -> u64 {
        self.0.as_ref().map_or(0, |log| log.selection.unwritten())
    }

    /// Returns the number of lines lost since start.
    pub fn lost(&self) -> u64 {
        self.0.as_ref().map_or(0, |log| log.buffers.lost())
    }
}
