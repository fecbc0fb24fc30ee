//! Reloads the configuration of a running gateway at SIGHUP, and when its file changes. After a refused reload, a change of a file
//! that the refused configuration names is a reason as well.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::systemd;
use crate::runtime::{ReloadError, Reloader};

use tidegate_net::file_stamp::{EVERY, Stamp};

/// The reason for a reload.
#[derive(Clone, Copy, Debug)]
enum Cause {
    Signal,
    File,
}

impl Cause {
    /// Returns the word for audit lines.
    const fn word(self) -> &'static str {
        match self {
            Self::Signal => "signal",
            Self::File => "file",
        }
    }
}

/// Files and their stamps; none: there is no such file.
type Stamps = BTreeMap<PathBuf, Option<Stamp>>;

/// Watches for reasons to reload.
#[derive(Debug)]
pub(super) struct Reloads {
    path: PathBuf,
    hangups: Signal,
    // The configuration and, after a refused reload, the files that it names: at the last load, and at the last look.
    loaded: Stamps,
    found: Stamps,
}

impl Reloads {
    /// Watches a configuration whose file had this stamp when it was loaded. From here on SIGHUP does not end the process.
    pub(super) fn new(path: &Path, loaded: Option<Stamp>) -> io::Result<Self> {
        let loaded = Stamps::from([(path.to_owned(), loaded)]);
        Ok(Self {
            path: path.to_owned(),
            hangups: signal(SignalKind::hangup())?,
            found: loaded.clone(),
            loaded,
        })
    }

    /// Reloads at each reason, until the future is dropped.
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
            self.reload(&reloader, cause).await;
        }
    }

    /// Returns whether a file differs from the last load, and all are as they were at the last look. A file that is still being
    /// written may be valid so far, and lack half of its limits.
    fn has_changed(&mut self) -> bool {
        let found = self.look();
        let before = std::mem::replace(&mut self.found, found);
        self.found != self.loaded && self.found == before
    }

    /// Returns the present stamps of the watched files.
    fn look(&self) -> Stamps {
        let files = self.loaded.keys();
        files.map(|path| (path.clone(), Stamp::of(path))).collect()
    }

    /// Watches the configuration and the files of an error from here on. `stamps` are from before the load: a change during the load is
    /// a reason for another load.
    fn watch(&mut self, stamps: &Stamps, error: Option<&ReloadError>) {
        let named = error.into_iter().flat_map(ReloadError::files);
        let files = std::iter::once(&*self.path).chain(named);
        let stamp = |path: &Path| {
            let before = stamps.get(path).copied();
            let stamp = before.unwrap_or_else(|| Stamp::of(path));
            (path.to_owned(), stamp)
        };
        self.loaded = files.map(stamp).collect();
        self.found = self.loaded.clone();
    }

    async fn reload(&mut self, reloader: &Reloader, cause: Cause) {
        systemd::reloading();
        let before = reloader.version();
        let stamps = self.look();
        let path = self.path.clone();
        let load = move |fixed: &_| tidegate_config::reload(&path, super::environment, fixed);
        let reloaded = reloader.reload(load).await;
        self.watch(&stamps, reloaded.as_ref().err());
        match reloaded {
            Ok(warnings) => {
                for warning in warnings {
                    tracing::warn!("{}", warning.in_one_line());
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
                    error = %error.in_one_line(),
                    "configuration rejected; the previous configuration stays active"
                );
                systemd::still();
            }
        }
    }
}
