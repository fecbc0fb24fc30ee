use std::io::Write;
use std::time::Duration;

use tidegate_logs::{Format, Options, Reader};

use crate::support::{Folder, each, read, read_with};

/// A line of a request that ended then, after so many seconds.
fn line(second: u64, took: u64, path: &str) -> String {
    let time = format!(
        "2026-11-22T{:02}:{:02}:{:02}.000000Z",
        second / 3_600,
        second / 60 % 60,
        second % 60
    );
    format!(
        r#"{{"timestamp":"{time}","method":"GET","path":"/{path}","status":200,"total_us":{},"target":"access"}}"#,
        took * 1_000_000
    ) + "\n"
}

fn paths(entries: &[String]) -> String {
    let path = |entry: &String| {
        let (_, path) = entry.split_once("path=\"/").unwrap();
        path.split_once('"').unwrap().0.to_owned()
    };
    entries.iter().map(path).collect()
}

#[test]
fn requests_come_in_the_order_of_arrival() {
    let folder = Folder::new();
    let log = [
        line(10, 0, "c"),
        line(11, 3, "b"),
        line(12, 10, "a"),
        line(13, 1, "d"),
    ]
    .concat();
    let log = folder.write("access.log", log);
    let (entries, reader) = read(&[log]).unwrap();
    assert_eq!(paths(&entries), "abcd");
    assert_eq!(reader.report().backward, 0);
}

#[test]
fn several_logs_are_one() {
    let folder = Folder::new();
    let one = folder.write(
        "1.log",
        [line(10, 0, "a"), line(12, 0, "c"), line(14, 0, "e")].concat(),
    );
    let two = folder.write(
        "2.log",
        [line(11, 0, "b"), line(13, 0, "d"), line(200, 0, "f")].concat(),
    );
    let three = folder.write("3.log", "");
    let (entries, reader) = read(&[two, three, one]).unwrap();
    assert_eq!(paths(&entries), "abcdef");
    let report = reader.report();
    assert_eq!((report.requests, report.lines, report.backward), (6, 6, 0));
    let requests = reader.sources().iter().map(|it| it.requests());
    assert_eq!(requests.collect::<Vec<_>>(), [3, 0, 3]);
}

#[test]
fn a_hundred_rotated_logs_are_opened_when_their_turn_comes() {
    let folder = Folder::new();
    let write = |number: u64| {
        let lines = (0..20).map(|nth| line(number * 20 + nth, 0, "x"));
        folder.write(&format!("access.log.{number}"), lines.collect::<String>())
    };
    let logs: Vec<_> = (0..100).rev().map(write).collect();
    let (entries, reader) = read(&logs).unwrap();
    assert_eq!((entries.len(), reader.report().backward), (2_000, 0));
    assert!(entries.is_sorted());
    assert!(
        reader
            .sources()
            .iter()
            .all(|it| it.bytes() == Some(it.bytes_read()))
    );
}

#[test]
fn time_that_jumps_back_is_counted() {
    let folder = Folder::new();
    let log = folder.write(
        "access.log",
        [
            line(1_000, 0, "a"),
            line(2_000, 0, "b"),
            line(3_000, 0, "d"),
            line(1_500, 0, "c"),
        ]
        .concat(),
    );
    let (entries, reader) = read(&[log]).unwrap();
    assert_eq!(paths(&entries), "abcd");
    let report = reader.report();
    assert_eq!((report.backward, report.farthest_back), (1, 1_500_000_000));
}

#[test]
fn a_request_that_took_longer_than_the_window_is_counted_too() {
    let folder = Folder::new();
    let log = [line(10, 0, "b"), line(20, 0, "c"), line(30, 25, "a")].concat();
    let log = folder.write("access.log", log);
    let options = Options {
        window: Duration::from_secs(5),
        ..Options::default()
    };
    let (entries, reader) = read_with(&[&log], options).unwrap();
    assert_eq!(paths(&entries), "bac");
    assert_eq!(
        (reader.report().backward, reader.report().farthest_back),
        (1, 25_000_000)
    );
}

#[test]
fn compressed_logs_are_read_as_they_are() {
    let folder = Folder::new();
    let (first, second) = (
        line(10, 0, "a").repeat(5_000),
        line(20, 0, "b").repeat(5_000),
    );
    let gzip = |text: &str| {
        let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        writer.write_all(text.as_bytes()).unwrap();
        writer.finish().unwrap()
    };
    let zstd = |text: &str| {
        ruzstd::encoding::compress_to_vec(
            text.as_bytes(),
            ruzstd::encoding::CompressionLevel::Fastest,
        )
    };
    // A frame to skip, as pzstd writes them.
    let skipped = [
        &0x184d_2a50_u32.to_le_bytes()[..],
        &4_u32.to_le_bytes(),
        b"abcd",
    ]
    .concat();
    let whole = [first.as_bytes(), second.as_bytes()].concat();
    for (name, bytes) in [
        ("plain", whole),
        ("log.gz", [gzip(&first), gzip(&second)].concat()),
        ("log.zst", [zstd(&first), skipped, zstd(&second)].concat()),
    ] {
        // The bytes count, not the name.
        let log = folder.write(name, bytes);
        let mut reader = Reader::open(&[&log], Options::default()).unwrap();
        assert_eq!(
            reader.sources()[0].format(),
            Some(&Format::TidegateJson),
            "{name}"
        );
        let count = std::iter::from_fn(|| reader.next().unwrap().map(drop)).count();
        assert_eq!(count, 10_000, "{name}");
        assert_eq!(
            Some(reader.sources()[0].bytes_read()),
            reader.sources()[0].bytes(),
            "{name}"
        );
    }
}

#[test]
fn more_requests_than_are_held_come_all_the_same() {
    let folder = Folder::new();
    let log = folder.write("access.log", line(10, 0, "a").repeat(70_000));
    let entries = each(&log, Options::default(), |_| ());
    assert_eq!(entries.len(), 70_000);
}
