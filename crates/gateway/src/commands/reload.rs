//! Reloads the configuration of a running gateway at SIGHUP, and when its file changes, or a file that is part of it. If a reload was refused, a change of a file that
//! the refused configuration names causes another reload.

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

/// Files with their stamps; `None` if a file does not exist.
type Stamps = BTreeMap<PathBuf, Option<Stamp>>;

/// Waits for signals and for changes of files, which cause reloads.
#[derive(Debug)]
pub(super) struct Reloads {
    path: PathBuf,
    hangups: Signal,
    // The stamps of the watched files at the last load. The configuration's file and the files that are part of it are always watched.
    // After a refused reload, other files that the refused configuration names are watched, too.
    loaded: Stamps,
    // The stamps of the same files at the last check.
    last_check: Stamps,
}

impl Reloads {
    /// Watches the configuration in `path`, which had the stamp `loaded` when it was loaded. From now on, SIGHUP does not end the process.
    pub(super) fn new(path: &Path, loaded: Option<Stamp>) -> io::Result<Self> {
        let loaded = Stamps::from([(path.to_owned(), loaded)]);
        Ok(Self {
            path: path.to_owned(),
            hangups: signal(SignalKind::hangup())?,
            last_check: loaded.clone(),
            loaded,
        })
    }

    /// Reloads at each SIGHUP and at each change of a watched file, until the future is dropped.
    pub(super) async fn follow(mut self, reloader: Reloader) -> ! {
        let mut every = tokio::time::interval(EVERY);
        let stamps = self.loaded.clone();
        self.watch(&stamps, &reloader, None);
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

    /// Returns whether a file has changed since the last load, and no file has changed since the last check. The second condition waits for
    /// a file that is still being written: half of a file may be valid, but lack limits.
    fn has_changed(&mut self) -> bool {
        let stamps = self.look();
        let before = std::mem::replace(&mut self.last_check, stamps);
        self.last_check != self.loaded && self.last_check == before
    }

    /// Returns the current stamps of the watched files.
    fn look(&self) -> Stamps {
        let files = self.loaded.keys();
        files.map(|path| (path.clone(), Stamp::of(path))).collect()
    }

    /// Watches the configuration, the files that are part of it, and the files that an error names. `stamps` were read before the load, so that a change during the load
    /// causes another load.
    fn watch(&mut self, stamps: &Stamps, reloader: &Reloader, error: Option<&ReloadError>) {
        let named = error.into_iter().flat_map(ReloadError::files);
        let mut loaded = Stamps::new();
        let named = named.map(Path::to_owned);
        let parts = reloader.files().into_iter();
        for path in std::iter::once(self.path.clone()).chain(parts).chain(named) {
            let before = stamps.get(&path).copied();
            let stamp = before.unwrap_or_else(|| Stamp::of(&path));
            loaded.insert(path, stamp);
        }
        self.last_check = loaded.clone();
        self.loaded = loaded;
    }

    async fn reload(&mut self, reloader: &Reloader, cause: Cause) {
        systemd::reloading();
        let before = reloader.version();
        let stamps = self.look();
        let path = self.path.clone();
        let load = move |fixed: &_| tidegate_config::reload(&path, super::environment, fixed);
        let reloaded = reloader.reload(load).await;
        self.watch(&stamps, reloader, reloaded.as_ref().err());
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
