use std::sync::Arc;

use crate::access_log::{AccessField, AccessFormat};

use super::*;
use crate::access_log::value::Value;

/// A request that has only a path.
struct Path(String);

impl Fields for Path {
    fn value(&self, field: AccessField) -> Option<Value<'_>> {
        (field == AccessField::Path).then_some(Value::Text(self.0.as_bytes(), 1_024))
    }
}

fn buffers() -> Buffers {
    let fields = AccessField::default_fields();
    Buffers::new(Format::new(&AccessFormat::Json(fields)))
}

/// Returns the values of one member of JSON lines.
fn members(lines: &[u8], name: &str) -> Vec<serde_json::Value> {
    let text = std::str::from_utf8(lines).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    lines
        .filter_map(|line: serde_json::Value| line.get(name).cloned())
        .collect()
}

#[test]
fn what_is_buffered_is_bounded_in_bytes_and_what_is_lost_is_counted() {
    const LINES: u64 = 20_000;
    let buffers = buffers();
    let path = Path(format!("/{}", "x".repeat(900)));
    for _ in 0..LINES {
        buffers.write(&path);
    }
    let sizes = buffers.buffers.iter().map(|one| one.lock().lines.size());
    let bytes: usize = sizes.sum();
    // The line that reaches the bound is whole.
    assert!(bytes <= CAPACITY / 3 + 4_096, "{bytes} bytes");
    buffers.close(Duration::ZERO);
    let mut all = Vec::new();
    buffers.collect(|collected| {
        all.extend_from_slice(collected.lines);
        0
    });
    let written = members(&all, "path").len() as u64;
    let lost: u64 = members(&all, "lost")
        .iter()
        .map(|it| it.as_u64().unwrap())
        .sum();
    assert_eq!((written + lost, buffers.lost()), (LINES, lost));
    assert!(lost > 0);
}

#[test]
fn every_line_is_collected_once_and_whole_while_threads_write() {
    const THREADS: usize = 4;
    const LINES: usize = 2_000;
    let buffers = Arc::new(buffers());
    let collecting = {
        let buffers = buffers.clone();
        std::thread::spawn(move || {
            let mut all = Vec::new();
            buffers.collect(|collected| {
                assert_eq!(collected.lines.last(), Some(&b'\n'));
                all.extend_from_slice(collected.lines);
                0
            });
            all
        })
    };
    let writing: Vec<_> = (0..THREADS)
        .map(|thread| {
            let buffers = buffers.clone();
            std::thread::spawn(move || {
                for line in 0..LINES {
                    buffers.write(&Path(format!("/{thread}/{line}")));
                }
            })
        })
        .collect();
    for thread in writing {
        thread.join().unwrap();
    }
    buffers.close(Duration::from_secs(60));
    let all = collecting.join().unwrap();
    let paths = members(&all, "path");
    let mut paths: Vec<&str> = paths.iter().map(|path| path.as_str().unwrap()).collect();
    let written = paths.len();
    paths.sort_unstable();
    paths.dedup();
    assert_eq!(written, paths.len());
    assert_eq!(written as u64 + buffers.lost(), (THREADS * LINES) as u64);
    let times = members(&all, "timestamp");
    assert!(times.is_sorted_by_key(|time| time.as_str().unwrap().to_owned()));
}

#[test]
fn lines_are_in_the_order_of_their_times() {
    let lines = |times: &[u64]| {
        let mut lines = Lines::default();
        for at in times {
            lines.text.extend_from_slice(format!("{at}\n").as_bytes());
            let end = lines.text.len();
            lines.marks.push(Mark { at: *at, end });
        }
        lines
    };
    let mut merged = Vec::new();
    merge(
        &[lines(&[1, 4, 6]), lines(&[]), lines(&[2, 3, 9])],
        &mut merged,
    );
    assert_eq!(merged, lines(&[1, 2, 3, 4, 6, 9]).text);
}

#[test]
fn what_cannot_be_written_is_said_when_lines_are_taken_again() {
    let buffers = buffers();
    buffers.write(&Path("/".into()));
    buffers.close(Duration::ZERO);
    let mut taken = Vec::new();
    buffers.collect(|collected| {
        taken.push(collected.lines.to_vec());
        // The disk has no room for the first line.
        if taken.len() == 1 { 1 } else { 0 }
    });
    assert_eq!(taken.len(), 2);
    assert_eq!(members(&taken[1], "lost"), [1]);
    assert!(buffers.state.lock().ended);
}
