//! A clock of one server, which a test can step forward or back. The library libfaketime answers the server's calls for the time. It reads
//! the offset to the system's clock from a file.

use std::fs;
use std::path::{Path, PathBuf};

/// The path below `/usr/lib` at which the system's package installs the library.
const LIBRARY: &str = "faketime/libfaketimeMT.so.1";

/// The clock of one server.
#[derive(Debug)]
pub(crate) struct SteppedClock {
    file: PathBuf,
}

impl SteppedClock {
    /// Returns a clock that shows the system's time, and keeps its file in this folder.
    pub(crate) fn new(dir: &Path) -> Self {
        let clock = Self {
            file: dir.join("clock"),
        };
        clock.step(0);
        clock
    }

    /// Steps the clock. From now on, it is `ahead` ms ahead of the system's clock, or behind it if `ahead` is negative.
    pub(crate) fn step(&self, ahead: i64) {
        let sign = if ahead < 0 { '-' } else { '+' };
        let ahead = ahead.unsigned_abs();
        // Replaces the file in one step, because the server may read it at any time.
        let next = self.file.with_extension("next");
        fs::write(
            &next,
            format!("{sign}{}.{:03}\n", ahead / 1_000, ahead % 1_000),
        )
        .unwrap();
        fs::rename(next, &self.file).unwrap();
    }

    /// Returns the environment that makes a program use this clock. Only the time of day is stepped. Timers are not affected.
    pub(crate) fn environment(&self) -> [(&'static str, PathBuf); 5] {
        // The allocator jemalloc reads the time before the library can answer, so the server uses the allocator of libc.
        let preloaded = format!("{}:libc.so.6", library().display());
        [
            ("LD_PRELOAD", preloaded.into()),
            ("FAKETIME_TIMESTAMP_FILE", self.file.clone()),
            ("FAKETIME_NO_CACHE", "1".into()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".into()),
            ("NO_FAKE_STAT", "1".into()),
        ]
    }
}

fn library() -> PathBuf {
    fs::read_dir("/usr/lib")
        .unwrap()
        .map(|folder| folder.unwrap().path())
        .chain([PathBuf::from("/usr/lib")])
        .map(|folder| folder.join(LIBRARY))
        .find(|library| library.exists())
        .expect("there is no libfaketime; install the package libfaketime")
}
