//! The output of the access log: the log of the process, or a file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::buffers::Collected;
use crate::log::{AccessSink, count, write_patiently};

/// The permissions of a new file: only the gateway's user may write it, and only that user and its group may read it.
const MODE: u32 = 0o640;
/// The least time between two warnings that the file cannot be written.
const REPORT_EVERY: Duration = Duration::from_secs(10);

/// An output of lines. Only the collecting thread may use it.
#[derive(Debug)]
pub enum Sink {
    /// The log of the process.
    Log(AccessSink),
    /// A separate file.
    File(LogFile),
}

impl Sink {
    /// Writes whole lines. Blocks until they are written. Returns the number of lost lines.
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
pub struct LogFile {
    path: PathBuf,
    /// The target of the path at start, if the path was a symbolic link.
    target: Option<PathBuf>,
    file: File,
    /// The unwritten end of a line whose beginning was written before the disk was full.
    unfinished: Vec<u8>,
    reported: Option<Instant>,
}

impl LogFile {
    /// Opens or creates a file.
    ///
    /// # Errors
    ///
    /// The file cannot be opened for appending.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            target: fs::read_link(path).ok(),
            file: open(path, OFlags::empty())?,
            unfinished: Vec::new(),
            reported: None,
        })
    }

    /// Opens the path again, because log rotation may have renamed the file. If the path cannot be opened, further lines are appended to
    /// the old file.
    fn reopen(&mut self) {
        let path = self.path.display();
        match open_again(&self.path, self.target.as_deref()) {
            Ok(file) => {
                let mut before = std::mem::replace(&mut self.file, file);
                let _ = write_patiently(&mut before, &std::mem::take(&mut self.unfinished));
                tracing::info!(%path, "access log reopened");
            }
            Err(error) => {
                tracing::warn!(%path, %error, "access log not reopened; lines go on into the old file");
            }
        }
    }

    /// Appends whole lines. Returns the number of lost lines.
    fn write(&mut self, lines: &[u8]) -> u64 {
        let Err(failure) = append_lines(&mut self.file, &mut self.unfinished, lines) else {
            return 0;
        };
        if self.reported.is_none_or(|at| at.elapsed() >= REPORT_EVERY) {
            self.reported = Some(Instant::now());
            let (path, lines) = (self.path.display(), failure.lost);
            tracing::warn!(%path, error = %failure.error, lines, "access log not written: lines are lost");
        }
        failure.lost
    }
}

/// The error of an append, with the number of lost lines.
#[derive(Debug)]
struct Failure {
    error: io::Error,
    lost: u64,
}

/// Appends `unfinished`, which is the end of an earlier line, and then `lines`. If only the beginning of a line is appended, the line's end
/// is kept in `unfinished` for the next call, and the line does not count as lost.
fn append_lines(
    out: &mut impl Write,
    unfinished: &mut Vec<u8>,
    lines: &[u8],
) -> Result<(), Failure> {
    if let Err((written, error)) = write_patiently(out, unfinished) {
        unfinished.drain(..written);
        let lost = count(lines);
        return Err(Failure { error, lost });
    }
    unfinished.clear();
    write_patiently(out, lines).map_err(|(written, error)| {
        let (before, mut rest) = lines.split_at(written);
        if before.last().is_some_and(|last| *last != b'\n') {
            let end = rest.iter().position(|byte| *byte == b'\n');
            let (line, behind) = rest.split_at(end.map_or(rest.len(), |end| end + 1));
            *unfinished = line.to_vec();
            rest = behind;
        }
        let lost = count(rest);
        Failure { error, lost }
    })
}

fn open(path: &Path, flags: OFlags) -> io::Result<File> {
    // Opens without blocking, because a named pipe may have no reader.
    let flags = (flags | OFlags::NONBLOCK).bits().cast_signed();
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(MODE);
    options.custom_flags(flags).open(path)
}

/// Opens the file again. A user with write access to the folder could put a symbolic link there, to a file that only the gateway may write.
/// So the link must have the same target as at start, or belong to root or the gateway's own user.
fn open_again(path: &Path, first: Option<&Path>) -> io::Result<File> {
    match open(path, OFlags::NOFOLLOW) {
        Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {}
        opened => return opened,
    }
    let owner = fs::symlink_metadata(path)?.uid();
    let target = fs::read_link(path)?;
    let is_trusted = owner == 0 || owner == rustix::process::geteuid().as_raw();
    if !is_trusted && first != Some(&*target) {
        return Err(io::Error::other(
            "it is a symbolic link that was not there at the start, and another user made it",
        ));
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    open(&folder.join(target), OFlags::empty())
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::*;

    /// A disk with room for `room` bytes.
    #[derive(Default)]
    struct Disk {
        written: Vec<u8>,
        room: usize,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let some = bytes.len().min(self.room);
            if some == 0 {
                return Err(ErrorKind::StorageFull.into());
            }
            self.room -= some;
            self.written.extend_from_slice(&bytes[..some]);
            Ok(some)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_that_is_written_in_part_is_finished_when_there_is_room_again() {
        let lines = b"one\ntwo\nthree\nfour\n";
        for room in 0..=lines.len() {
            let (mut disk, mut unfinished) = (Disk::default(), Vec::new());
            disk.room = room;
            let failure = append_lines(&mut disk, &mut unfinished, lines);
            let lost = failure.map_or_else(|failure| failure.lost, |()| 0);
            // The disk is still full.
            let again = append_lines(&mut disk, &mut unfinished, b"five\n").is_err();
            assert!(again);
            disk.room = 100;
            append_lines(&mut disk, &mut unfinished, b"six\n").unwrap();
            let written = String::from_utf8(disk.written).unwrap();
            let texts = ["one", "two", "three", "four", "six"];
            assert!(
                written.lines().all(|line| texts.contains(&line)),
                "{written:?}"
            );
            assert_eq!(
                written.lines().count() as u64 + lost,
                5,
                "{room}: {written:?}"
            );
        }
    }

    /// Holds for links that root or the user of the test made.
    #[test]
    fn a_link_may_lead_elsewhere_by_now() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::os::unix::fs::symlink("first", at("log")).unwrap();
        let mut file = LogFile::open(&at("log")).unwrap();
        file.write(b"one\n");
        fs::remove_file(at("log")).unwrap();
        std::os::unix::fs::symlink("second", at("log")).unwrap();
        file.reopen();
        file.write(b"two\n");
        assert_eq!(fs::read(at("first")).unwrap(), b"one\n");
        assert_eq!(fs::read(at("second")).unwrap(), b"two\n");
    }

    /// Only root can make a link that belongs to another user.
    #[test]
    fn a_link_of_another_user_is_followed_only_where_it_led_at_the_start() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let link = |to: &str| {
            let _ = fs::remove_file(at("log"));
            std::os::unix::fs::symlink(to, at("log")).unwrap();
            std::os::unix::fs::lchown(at("log"), Some(4_242), None).unwrap();
        };
        link("first");
        let mut file = LogFile::open(&at("log")).unwrap();
        file.write(b"one\n");
        fs::write(at("another"), "").unwrap();
        link("another");
        file.reopen();
        file.write(b"two\n");
        assert_eq!(fs::read(at("first")).unwrap(), b"one\ntwo\n");
        assert_eq!(fs::read(at("another")).unwrap(), b"");
        fs::rename(at("first"), at("rotated")).unwrap();
        link("first");
        file.reopen();
        file.write(b"three\n");
        assert_eq!(fs::read(at("first")).unwrap(), b"three\n");
        assert!(open_again(&at("log"), None).is_err());
    }

    #[test]
    fn a_full_disk_loses_lines_and_says_how_many() {
        let mut file = LogFile::open(Path::new("/dev/full")).unwrap();
        assert_eq!(file.write(b"one\ntwo\n"), 2);
        assert!(LogFile::open(Path::new("/nowhere/access.log")).is_err());
    }
}
