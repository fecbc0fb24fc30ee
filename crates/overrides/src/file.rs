//! The file in which a gateway without Redis keeps overrides: a line of JSON for each name. If a name has several, the newest counts.
//!
//! A change is on the disk before it is answered. Each change writes a new file, which has all of the change or none of it.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, BufWriter, Read as _, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tidegate_identity::ListedClient;

use crate::name::read_name;
use crate::table::{Entry, Table};

/// The longest file that is read, in bytes: more than all overrides can take, set and cleared, each of them twice.
const MAX_FILE: u64 = 3 << 30;
/// The longest line, in bytes: a name, a reason and numbers, all of them escaped, and the keys around them.
const MAX_LINE: u64 = 16 << 10;

#[derive(Serialize, Deserialize)]
struct Line {
    name: String,
    record: String,
}

/// Reads the file at `path` into `table`, and writes it anew. Creates the file if there is none.
///
/// # Errors
///
/// The file cannot be read or written, or a line does not have the form of an entry. A last line without its end was cut off, and does not
/// count.
pub(crate) fn open(path: &Path, table: &mut Table) -> io::Result<()> {
    match File::open(path) {
        Ok(file) => read(file, MAX_FILE, table)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    write(path, table.entries())
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

fn of_line(line: &[u8]) -> Option<(ListedClient, Entry)> {
    let line: Line = serde_json::from_slice(line).ok()?;
    let subject = read_name(&line.name, 128).ok()?;
    Some((subject, Entry::read(&line.record)?))
}

/// Writes entries to another file, and renames it to `path`. If this fails, the file is as before.
pub(crate) fn write(path: &Path, entries: &BTreeMap<ListedClient, Entry>) -> io::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    // It may be left from a process that was killed.
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    options.append(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = BufWriter::new(options.open(&new)?);
    for (subject, entry) in entries {
        let line = Line {
            name: subject.to_string(),
            record: entry.written(),
        };
        serde_json::to_writer(&mut file, &line)?;
        file.write_all(b"\n")?;
    }
    file.into_inner()?.sync_all()?;
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
    let folder = File::open(folder.unwrap_or(Path::new(".")))?;
    fs::rename(&new, path)?;
    // The new name must be on the disk, too.
    folder.sync_all()
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

    fn subject(name: &str) -> ListedClient {
        read_name(name, 64).unwrap()
    }

    fn versions(path: &Path) -> io::Result<Vec<u64>> {
        let mut table = table();
        open(path, &mut table)?;
        let mut versions: Vec<u64> = table.entries().values().map(|it| it.version).collect();
        versions.sort_unstable();
        Ok(versions)
    }

    #[test]
    fn what_is_written_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("overrides");
        assert!(versions(&path).unwrap().is_empty());
        let (first, second) = (subject("user_id:\"ü\\"), subject("10.0.0.0/8"));
        let entries = [(first, cleared(2_000)), (second, cleared(7))];
        write(&path, &entries.into()).unwrap();
        assert_eq!(versions(&path).unwrap(), [7, 2_000]);
        use std::os::unix::fs::PermissionsExt as _;
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_change_that_cannot_be_kept_does_not_return_with_the_next_start() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("overrides");
        let name = subject("user_id:1");
        write(&path, &[(name.clone(), cleared(5))].into()).unwrap();
        // Nothing can be written where a folder is in the way.
        let new = folder.path().join("overrides.new");
        fs::create_dir(&new).unwrap();
        assert!(write(&path, &[(name, cleared(6))].into()).is_err());
        fs::remove_dir(&new).unwrap();
        assert_eq!(versions(&path).unwrap(), [5]);
    }

    /// Earlier versions of the program appended a line for each change.
    #[test]
    fn of_several_lines_of_a_name_the_newest_counts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("overrides");
        let line = |version| format!("{{\"name\":\"user_id:1\",\"record\":\"{version} 0 \"}}\n");
        fs::write(&path, [5, 7, 6].map(line).concat()).unwrap();
        assert_eq!(versions(&path).unwrap(), [7]);
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

    /// What was cut off would be lost when the file is written anew.
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
