//! Stamps that show whether a file has changed and must be reread.
//!
//! A file is found by its name each time. So a link that gets another target is a change, too (Kubernetes replaces files
//! this way).

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// The interval between two checks of a file.
pub const EVERY: Duration = Duration::from_secs(1);

/// The metadata of a file. A change of the file changes the stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    modified: Option<SystemTime>,
    length: u64,
    inode: u64,
    // The owner and the permissions decide whether the file can be read.
    owner: (u32, u32),
    mode: u32,
}

impl Stamp {
    /// Returns the stamp of the file now; none if there is no file.
    pub fn of(path: &Path) -> Option<Self> {
        let data = fs::metadata(path).ok()?;
        Some(Self {
            modified: data.modified().ok(),
            length: data.len(),
            inode: data.ino(),
            owner: (data.uid(), data.gid()),
            mode: data.mode(),
        })
    }
}
