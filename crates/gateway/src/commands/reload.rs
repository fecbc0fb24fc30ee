//! When a running gateway's configuration is loaded anew: at SIGHUP, and when its file has changed.

use std::io;
use std::path::{Path, PathBuf};

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{in_one_line, systemd};
use crate::runtime::Reloader;

use tidegate_net::file_stamp::{EVERY, Stamp};

/// Why a configuration is loaded anew.
#[derive(Clone, Copy, Debug)]
enum Cause {
    Signal,
    File,
}

impl Cause {
    /// The word of audit lines.
    const fn word(self) -> &'static str {
        match self {
            Self::Signal => "signal",
            Self::File => "file",
        }
    }
}

/// What tells that a reload is due.
#[derive(Debug)]
pub(super) struct Reloads {
    path: PathBuf,
    hangups: Signal,
    // As the file was when it was loaded last, and as it was found last.
    loaded: Option<Stamp>,
    found: Option<Stamp>,
}

impl Reloads {
    /// Of a configuration whose file was so when it was loaded. From here on SIGHUP does not end the process.
    pub(super) fn new(path: &Path, loaded: Option<Stamp>) -> io::Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            hangups: signal(SignalKind::hangup())?,
            loaded,
            found: loaded,
        })
    }

    /// Reloads again and again, for as long as the future is polled.
    pub(super) async fn follow(mut self, reloader: Reloader) -> ! {
        let mut every = tokio::time::interval(EVERY);
        loop {
            let cause = tokio::select! {
                _ = self.hangups.recv() => Cause::Signal,
                _ = every.tick() => match self.has_changed() {
                    true => Cause::File,
                    false => continue,
                },
            };
            self.loaded = Stamp::of(&self.path);
            self.found = self.loaded;
            self.reload(&reloader, cause).await;
        }
    }

    /// Whether the file is another than the one that was loaded, and the same as a moment ago. A file that is still being written
    /// may be right as far as it goes, and lack half of its limits.
    fn has_changed(&mut self) -> bool {
        let before = std::mem::replace(&mut self.found, Stamp::of(&self.path));
        self.found != self.loaded && self.found == before
    }

    async fn reload(&self, reloader: &Reloader, cause: Cause) {
        systemd::reloading();
        let before = reloader.version();
        let path = self.path.clone();
        let load = move |fixed: &_| tidegate_config::reload(&path, super::environment, fixed);
        match reloader.reload(load).await {
            Ok(warnings) => {
                for warning in warnings {
                    tracing::warn!("{}", in_one_line(&warning));
                }
                tracing::info!(
                    target: "audit",
                    action = "reload",
                    cause = cause.word(),
                    file = %self.path.display(),
                    before,
                    after = reloader.version(),
                    "configuration reloaded"
                );
                systemd::ready();
            }
            Err(error) => {
                tracing::error!(
                    target: "audit",
                    action = "reload",
                    cause = cause.word(),
                    file = %self.path.display(),
                    before,
                    %error,
                    "configuration rejected; the previous configuration stays active"
                );
                systemd::still();
            }
        }
    }
}
