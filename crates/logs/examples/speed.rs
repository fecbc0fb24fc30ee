//! Measures lines read per second: `cargo run --profile dist -p tidegate-logs --example speed -- access.log`.

#![allow(clippy::print_stdout, reason = "a command")]

use std::hint::black_box;
use std::time::Instant;

use tidegate_logs::{Line, Options, Parser, Reader};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for path in std::env::args().skip(1) {
        let start = Instant::now();
        let mut reader = Reader::open(&[&path], Options::default())?;
        let mut sum = 0_u64;
        while let Some(entry) = reader.next()? {
            let path = entry.path().map_or(0, |path| path.bytes().len() as u64);
            sum = sum.wrapping_add(entry.arrival()).wrapping_add(path);
        }
        black_box(sum);
        let lines = reader.report().lines as f64;
        let refused = reader.report().refused;
        let rate = lines / start.elapsed().as_secs_f64();
        let format = reader.sources()[0].format().cloned();
        println!("{path}: {lines} lines, {refused} refused, {rate:.0} a second with the reader");
        let Some(format) = format else { continue };

        // The parser alone.
        let text = std::fs::read(&path)?;
        let mut parser = Parser::new(&format);
        let start = Instant::now();
        let mut requests = 0_u64;
        for line in text.split(|byte| *byte == b'\n') {
            requests += u64::from(matches!(parser.line(line), Ok(Line::Request(_))));
        }
        let rate = lines / start.elapsed().as_secs_f64();
        println!(
            "{path}: {}: {requests} requests, {rate:.0} lines a second by the parser and a search for `\\n`",
            format.name()
        );
    }
    Ok(())
}
