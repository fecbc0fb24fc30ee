//! What the tests share.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use tidegate_logs::{Entry, Error, Field, Format, Line, Options, Parser, Reader, Stamp};

/// A folder that is gone at the end of the test.
pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

/// All that an entry says, as one line.
pub(crate) fn shown(entry: &Entry<'_>) -> String {
    let (seconds, micros) = (entry.arrival() / 1_000_000, entry.arrival() % 1_000_000);
    let stamp = match entry.stamp() {
        Stamp::Arrival => "arrival",
        Stamp::Shifted => "shifted",
        Stamp::End => "end",
    };
    let mut out = format!("{seconds}.{micros:06} +{} {stamp}", entry.resolution());
    for field in Field::ALL {
        let value = match field {
            Field::Duration => entry.duration().map(|it| it.to_string()),
            Field::Peer => entry.peer().map(|it| it.to_string()),
            Field::ClientIp => entry.client_ip().map(|it| it.to_string()),
            Field::Status => entry.status().map(|it| it.to_string()),
            Field::UpstreamStatus => entry.upstream_status().map(|it| it.to_string()),
            Field::BytesIn => entry.bytes_in().map(|it| it.to_string()),
            Field::BytesOut => entry.bytes_out().map(|it| it.to_string()),
            Field::Cost => entry.cost().map(|it| it.to_string()),
            Field::Waited => entry.waited().map(|it| it.to_string()),
            field => entry.text(*field).map(|it| quoted(&it.bytes())),
        };
        if let Some(value) = value {
            let _ = write!(out, " {}={value}", field.name());
        }
    }
    for (name, value) in entry.headers() {
        let _ = write!(out, " {name}: {}", quoted(&value.bytes()));
    }
    out
}

fn quoted(bytes: &[u8]) -> String {
    format!("\"{}\"", bytes.escape_ascii())
}

/// What a parser makes of each line.
pub(crate) fn parsed(format: &Format, text: &[u8]) -> String {
    let mut parser = Parser::new(format);
    let mut out = String::new();
    for line in text
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
    {
        let said = match parser.line(line) {
            Ok(Line::Request(entry)) => shown(&entry),
            Ok(Line::Question) => "question".to_owned(),
            Ok(Line::Other) => "no request".to_owned(),
            Ok(Line::Lost(count)) => format!("{count} lost"),
            Err(error) => format!("error: {error}"),
        };
        out.push_str(&said);
        out.push('\n');
    }
    out
}

/// A good line of the Combined Log Format.
pub(crate) const GOOD: &str =
    r#"192.0.2.7 - - [22/Nov/2026:15:32:17 +0000] "GET / HTTP/1.1" 200 5 "-" "-""#;

/// Options that ask for this format.
pub(crate) fn asks_for(format: Format) -> Options {
    Options {
        format: Some(format),
        ..Options::default()
    }
}

/// Reads one log, and takes something of each entry.
pub(crate) fn each<T>(log: &Path, options: Options, take: impl Fn(Entry<'_>) -> T) -> Vec<T> {
    let mut reader = Reader::open(&[log], options).unwrap();
    let mut all = Vec::new();
    while let Some(entry) = reader.next().unwrap() {
        all.push(take(entry));
    }
    all
}

/// Reads logs, whose formats are found.
pub(crate) fn read(paths: &[impl AsRef<Path>]) -> Result<(Vec<String>, Reader), Error> {
    read_with(paths, Options::default())
}

pub(crate) fn read_with(
    paths: &[impl AsRef<Path>],
    options: Options,
) -> Result<(Vec<String>, Reader), Error> {
    let mut reader = Reader::open(paths, options)?;
    let mut entries = Vec::new();
    while let Some(entry) = reader.next()? {
        entries.push(shown(&entry));
        // A host that a request line has is a rare extra.
        let may_be_extra = |field: &Field| matches!(field, Field::Host | Field::Scheme);
        for field in Field::ALL.iter().filter(|field| !may_be_extra(field)) {
            let is_among = entry.fields().has(*field) || entry.text(*field).is_none();
            assert!(is_among, "{} is not among the fields", field.name());
        }
        assert!(
            entry
                .headers()
                .all(|(name, _)| entry.fields().has_header(name))
        );
    }
    Ok((entries, reader))
}

/// The names of the logs in a folder beside the tests.
pub(crate) fn logs(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join(folder);
    let files = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path());
    let mut logs: Vec<_> = files
        .filter(|path| path.extension().is_some_and(|it| it == "log"))
        .collect();
    logs.sort_by_key(|path| stem(path).to_owned());
    logs
}

pub(crate) fn stem(path: &Path) -> &str {
    path.file_stem().and_then(|stem| stem.to_str()).unwrap()
}
