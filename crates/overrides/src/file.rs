//! The file in which a gateway without Redis keeps overrides. It has a line of JSON for each change. For each name only the newest line is
//! valid.
//!
//! A change is on the disk before the operator gets the answer. When most lines are outdated, the file is rewritten.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, BufWriter, Read as _, Write as _};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::name::{Subject, read_name};
use crate::table::{Entry, Table};

/// The largest file that is read, in bytes. A gateway rewrites its file before the file reaches this size, even with the most entries.
const MAX_FILE: u64 = 3 << 30;
/// The longest line, in bytes. A line has a name, a reason and numbers, all escaped, and the JSON keys.
const MAX_LINE: u64 = 16 << 10;

/// The file is rewritten when it has more lines than twice its entries plus this number.
const SPARE: usize = 1_000;

/// The open file.
#[derive(Debug)]
pub(crate) struct OverrideFile {
    path: PathBuf,
    file: File,
    lines: usize,
    // Whether the last line may be incomplete.
    is_torn: bool,
}

#[derive(Serialize, Deserialize)]
struct Line {
    name: String,
    record: String,
}

impl OverrideFile {
    /// Reads the file at `path` into `table`, and rewrites the file. Creates the file if there is none.
    ///
    /// # Errors
    ///
    /// The file cannot be read or written, or a line is no valid entry. A last line without a line break is incomplete and is ignored.
    pub(crate) fn open(path: &Path, table: &mut Table) -> io::Result<Self> {
        match File::open(path) {
            Ok(file) => read(file, MAX_FILE, table)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let (file, lines) = write_anew(path, table.entries())?;
        Ok(Self {
            path: path.to_owned(),
            file,
            lines,
            is_torn: false,
        })
    }

    /// Appends changes of `table`, and waits until they are on the disk. After an error the file has none of these changes.
    pub(crate) fn append<'a>(
        &mut self,
        made: impl Iterator<Item = (&'a Subject, &'a Entry)>,
        table: &Mutex<Table>,
    ) -> io::Result<()> {
        let counting = table.lock().entries().len();
        if self.is_torn || self.lines > 2 * counting + SPARE {
            // The entries are copied, so that the table is not locked while the disk writes.
            let entries = table.lock().entries().clone();
            (self.file, self.lines) = write_anew(&self.path, &entries)?;
            self.is_torn = false;
        }
        let mut text = Vec::new();
        for (subject, entry) in made {
            write_line(&mut text, subject, entry)?;
            self.lines += 1;
        }
        self.is_torn = true;
        append_whole(&mut self.file, &text, File::sync_data)?;
        self.is_torn = false;
        Ok(())
    }
}

/// Appends the whole text, or truncates the file to its former length. The truncation ensures that a failed change is not in force after
/// the next start.
fn append_whole(
    file: &mut File,
    text: &[u8],
    sync: impl FnOnce(&File) -> io::Result<()>,
) -> io::Result<()> {
    let length = file.metadata()?.len();
    let written = file.write_all(text).and_then(|()| sync(file));
    if written.is_err() {
        // The first error is returned. If the truncation fails too, the next change rewrites the file.
        let _ = file.set_len(length).and_then(|()| file.sync_data());
    }
    written
}

fn read(file: File, most: u64, table: &mut Table) -> io::Result<()> {
    let mut reader = BufReader::new(file.take(most + 1));
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        (&mut reader).take(MAX_LINE).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            break;
        }
        let is_whole = line.ends_with(b"\n");
        match of_line(&line) {
            Some((subject, entry)) if is_whole => {
                table.merge(&subject, entry);
            }
            _ if !is_whole && reader.fill_buf()?.is_empty() => break,
            _ => {
                let message = format!("line {number} is not one that a gateway writes");
                return Err(io::Error::new(io::ErrorKind::InvalidData, message));
            }
        }
    }
    match reader.get_ref().limit() {
        0 => Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("it has more than {most} bytes"),
        )),
        _ => Ok(()),
    }
}

fn of_line(line: &[u8]) -> Option<(Subject, Entry)> {
    let line: Line = serde_json::from_slice(line).ok()?;
    let subject = read_name(&line.name, 128).ok()?;
    Some((subject, Entry::read(&line.record)?))
}

fn write_line(to: &mut impl io::Write, subject: &Subject, entry: &Entry) -> io::Result<()> {
    let line = Line {
        name: subject.to_string(),
        record: entry.written(),
    };
    serde_json::to_writer(&mut *to, &line)?;
    to.write_all(b"\n")
}

/// Writes entries to another file, and renames it to `path`. Returns the file, and the number of its lines.
fn write_anew(path: &Path, entries: &BTreeMap<Subject, Entry>) -> io::Result<(File, usize)> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    // A process that was killed during a rewrite may have left the file `.new`.
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    options.append(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(&new)?;
    let mut buffered = BufWriter::new(&file);
    for (subject, entry) in entries {
        write_line(&mut buffered, subject, entry)?;
    }
    buffered.flush()?;
    drop(buffered);
    file.sync_all()?;
    fs::rename(&new, path)?;
    // The folder is synced so that the rename is on the disk too.
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
    Ok((file, entries.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn cleared(version: u64) -> Entry {
        Entry::new(version, None, "")
    }

    fn table() -> Table {
        Table::new(Duration::MAX)
    }

    fn subject(name: &str) -> Subject {
        read_name(name, 64).unwrap()
    }

    fn versions(path: &Path) -> io::Result<Vec<u64>> {
        let mut table = table();
        OverrideFile::open(path, &mut table)?;
        let mut versions: Vec<u64> = table.entries().values().map(|it| it.version).collect();
        versions.sort_unstable();
        Ok(versions)
    }

    #[test]
    fn what_is_appended_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("overrides");
        let table = Mutex::new(table());
        let mut file = OverrideFile::open(&path, &mut table.lock()).unwrap();
        for version in 1..=2_000 {
            let (name, entry) = (subject("user_id:\"ü\\"), cleared(version));
            file.append([(&name, &entry)].into_iter(), &table).unwrap();
            table.lock().merge(&name, entry);
        }
        let (name, entry) = (subject("10.0.0.0/8"), cleared(7));
        file.append([(&name, &entry)].into_iter(), &table).unwrap();
        assert!(fs::metadata(&path).unwrap().len() < 100_000);
        assert_eq!(versions(&path).unwrap(), [7, 2_000]);
        use std::os::unix::fs::PermissionsExt as _;
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_change_that_cannot_be_kept_does_not_return_with_the_next_start() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("overrides");
        let table = Mutex::new(table());
        let mut file = OverrideFile::open(&path, &mut table.lock()).unwrap();
        let kept = (subject("user_id:1"), cleared(5));
        let made = || [(&kept.0, &kept.1)].into_iter();
        file.append(made(), &table).unwrap();
        let mut text = Vec::new();
        write_line(&mut text, &kept.0, &cleared(6)).unwrap();
        let fails = |_: &File| Err(io::Error::other("the disk is gone"));
        assert!(append_whole(&mut file.file, &text, fails).is_err());
        assert_eq!(versions(&path).unwrap(), [5]);
    }

    #[test]
    fn a_cut_end_does_not_count_and_anything_else_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("overrides");
        let whole = "{\"name\":\"user_id:1\",\"record\":\"5 0 \"}\n";
        for cut in ["", "{\"name\":\"user_id:2\",\"rec", "{"] {
            fs::write(&path, format!("{whole}{cut}")).unwrap();
            assert_eq!(versions(&path).unwrap(), [5], "{cut}");
        }
        for bad in ["\n", "{}\n", "overrides: {}\n", &"x".repeat(20_000)] {
            fs::write(&path, format!("{whole}{bad}{whole}")).unwrap();
            let error = versions(&path).unwrap_err();
            assert!(error.to_string().contains("line 2"), "{error}");
        }
    }

    /// If only the start of a file were read, the rest would be lost when the file is rewritten.
    #[test]
    fn a_file_that_is_too_long_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("overrides");
        let text = "{\"name\":\"user_id:1\",\"record\":\"5 0 \"}\n".repeat(2);
        fs::write(&path, &text).unwrap();
        let length = text.len() as u64;
        for (most, is_read) in [(length, true), (length - 1, false), (length / 2, false)] {
            let mut table = table();
            let read = read(File::open(&path).unwrap(), most, &mut table);
            assert_eq!(read.is_ok(), is_read, "{most}");
        }
    }
}
