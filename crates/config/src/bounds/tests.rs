use std::time::Duration;

use super::timeouts::Drain;
use super::*;
use crate::tests::{bad, good};

#[test]
fn sizes_are_none_or_bytes_or_have_a_unit() {
    assert_eq!(good::<BodyLimit>("none").0, None);
    for (text, bytes) in [
        ("0", 0),
        ("1000", 1_000),
        ("512KB", 512 << 10),
        ("10MB", 10 << 20),
        ("1GB", 1 << 30),
    ] {
        assert_eq!(good::<BodyLimit>(text).0, Some(bytes));
    }
    bad::<BodyLimit>(&[
        "",
        "None",
        "10mb",
        "10 MB",
        "MB",
        "-1",
        "1.5MB",
        "17179869184GB",
        "99999999999999999999",
    ]);
}

#[test]
fn a_drain_is_none_or_a_duration() {
    assert_eq!(good::<Drain>("none"), Drain(None));
    assert_eq!(good::<Drain>("10m"), Drain(Some(Duration::from_secs(600))));
    bad::<Drain>(&["", "None", "0s", "30", "30 s", "-1s", "32d"]);
}

#[test]
fn memory_is_none_or_enough_to_start() {
    assert_eq!(good::<MemoryLimit>("none").0, None);
    assert_eq!(good::<MemoryLimit>("64MB").0, Some(64 << 20));
    bad::<MemoryLimit>(&["0", "63MB", "65535KB", "512", "512mb", "17179869184GB"]);
}
