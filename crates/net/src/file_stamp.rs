//! What tells one content of a file from another, for files that are reread when they change.
//!
//! They are looked at by their names, so that a link that comes to point elsewhere (as Kubernetes does it) is a change,
//! too.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// How often files are looked at.
pub const EVERY: Duration = Duration::from_secs(1);

/// What is known of a file without reading it.
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
    /// Of the file that is there now; none if none is.
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
