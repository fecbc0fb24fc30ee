use std::io::Write;

use tidegate_logs::{Error, Format, Options, Parser, Refused};

use crate::support::{Folder, GOOD, read, read_with};

#[test]
fn the_first_wrong_lines_are_kept_and_all_are_counted() {
    let folder = Folder::new();
    let log = folder.write(
        "access.log",
        [
            GOOD,
            "wrong",
            GOOD,
            "\0\u{1}\u{2}",
            "",
            GOOD,
            "{}",
            "a",
            "b",
            "c",
            GOOD,
            GOOD,
            GOOD,
        ]
        .join("\r\n"),
    );
    let (entries, reader) = read(&[&log]).unwrap();
    let report = reader.report();
    assert_eq!(
        (
            entries.len(),
            report.requests,
            report.refused,
            report.others,
            report.lines
        ),
        (6, 6, 6, 1, 13)
    );
    let numbers: Vec<_> = report.first_refused.iter().map(|it| it.number).collect();
    assert_eq!(numbers, [2, 4, 7, 8, 9]);
    assert_eq!(
        report.first_refused[0].error.to_string(),
        "column 6: expected a time in brackets, and a request in quotes"
    );
}

#[test]
fn strict_ends_at_the_first_wrong_line() {
    let folder = Folder::new();
    let log = folder.write("access.log", [GOOD, GOOD, "wrong"].join("\n"));
    let options = Options {
        strict: true,
        ..Options::default()
    };
    let error = read_with(&[&log], options).unwrap_err();
    assert!(
        matches!(error, Error::Line(Refused { number: 3, .. })),
        "{error}"
    );
    let shown = error
        .to_string()
        .replace(log.to_str().unwrap(), "access.log");
    assert_eq!(
        shown,
        "access.log: line 3: column 6: expected a time in brackets, and a request in quotes"
    );
}

#[test]
fn a_line_of_many_megabytes_is_refused_and_not_kept() {
    let folder = Folder::new();
    let long = format!(
        "{}{}",
        GOOD.replace("GET /", "GET /long"),
        "x".repeat(5 << 20)
    );
    let log = folder.write(
        "access.log",
        [GOOD, &long, GOOD, &"y".repeat(2 << 20)].join("\n"),
    );
    let (entries, reader) = read(&[log]).unwrap();
    assert_eq!(entries.len(), 2);
    let errors: Vec<_> = reader
        .report()
        .first_refused
        .iter()
        .map(|it| (it.number, it.error.to_string()))
        .collect();
    let message = "column 1: expected a line of 1 MiB at most".to_owned();
    assert_eq!(errors, [(2, message.clone()), (4, message)]);
}

#[test]
fn a_compressed_log_that_is_cut_off_is_an_error_after_its_lines() {
    let folder = Folder::new();
    let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let text: String = (0..20_000)
        .map(|number| GOOD.replace("GET /", &format!("GET /{}", number * 7_919 % 10_007)) + "\n")
        .collect();
    writer.write_all(text.as_bytes()).unwrap();
    let whole = writer.finish().unwrap();
    let cut = folder.write("cut.gz", &whole[..whole.len() - 100]);
    let error = read(&[&cut]).unwrap_err();
    assert!(matches!(error, Error::Read(..)), "{error}");
    let mut wrong = ruzstd::encoding::compress_to_vec(
        text.as_bytes(),
        ruzstd::encoding::CompressionLevel::Fastest,
    );
    let middle = wrong.len() / 2;
    wrong[middle] ^= 0x55;
    let wrong = folder.write("wrong.zst", wrong);
    match read(&[&wrong]) {
        Err(Error::Read(..)) => {}
        Err(error) => panic!("{error}"),
        Ok((_, reader)) => assert!(
            reader.report().refused > 0,
            "a byte is wrong, and nothing was noticed"
        ),
    }
}

#[test]
fn garbage_is_an_error_and_no_panic_in_every_format() {
    let mut seed = 7_u64;
    let mut random = || {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize
    };
    let formats = Format::NAMED.iter().map(|it| it.1.clone());
    let own = [
        Format::map("time=$.t,path=$.a.b").unwrap(),
        Format::read("$msec $request").unwrap(),
    ];
    let logs = crate::support::logs("lines");
    let texts: Vec<_> = logs.iter().map(|log| std::fs::read(log).unwrap()).collect();
    for format in formats.chain(own) {
        let mut parser = Parser::new(&format);
        for _ in 0..3_000 {
            // A line of some format, with some bytes changed, or cut.
            let text = &texts[random() % texts.len()];
            let lines: Vec<_> = text.split(|byte| *byte == b'\n').collect();
            let mut line = lines[random() % lines.len()].to_vec();
            for _ in 0..random() % 4 {
                if !line.is_empty() {
                    let at = random() % line.len();
                    line[at] = b"\"\\[]{}- :,\t\0\xff/=%#"[random() % 17];
                }
            }
            line.truncate(random() % (line.len() + 1) + line.len() / 2);
            if let Ok(tidegate_logs::Line::Request(entry)) = parser.line(&line) {
                let _ = crate::support::shown(&entry);
            }
        }
    }
}
