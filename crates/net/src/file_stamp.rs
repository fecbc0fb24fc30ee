//! Stamps of files. A stamp is the metadata of a file. If the stamp has changed, the file must be read again.
//!
//! For a symbolic link, the stamp describes the target of the link. Kubernetes replaces files by links to other targets, and a new target
//! changes the stamp.

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
    // A change of owner or permissions may make a file readable, so they are a part of the stamp.
    owner: (u32, u32),
    mode: u32,
}

impl Stamp {
    /// Returns the current stamp of the file, or `None` without a file.
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
