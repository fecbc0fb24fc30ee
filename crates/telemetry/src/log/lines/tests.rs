use std::sync::mpsc::{Receiver, Sender, channel};

use super::*;

/// A standard error that accepts bytes only when the test permits it.
struct Pipe {
    takes: Receiver<()>,
    taken: Sender<Vec<u8>>,
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // An error means that the pipe accepts all bytes from now on.
        let _ = self.takes.recv();
        self.taken.send(bytes.to_vec()).map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Bench {
    lines: Lines,
    opens: Sender<()>,
    taken: Receiver<Vec<u8>>,
    reported: Receiver<u64>,
}

/// Returns a queue whose thread cannot write yet.
fn stuck(overlong: Overlong) -> Bench {
    let lines = Lines::new(overlong, Box::leak(Box::default()));
    let ((opens, takes), (given, taken)) = (channel(), channel());
    let (reports, reported) = channel();
    let pipe = Pipe {
        takes,
        taken: given,
    };
    let report = move |lost| reports.send(lost).unwrap();
    lines.spawn_writer(pipe, report).unwrap();
    Bench {
        lines,
        opens,
        taken,
        reported,
    }
}

impl Bench {
    /// Lets the pipe accept all bytes, and returns all bytes that were written.
    fn drained(self) -> String {
        drop(self.opens);
        self.lines.close(Duration::from_secs(60));
        let all: Vec<u8> = self.taken.try_iter().flatten().collect();
        String::from_utf8(all).unwrap()
    }
}

#[test]
fn lines_are_written_in_order() {
    let bench = stuck(Overlong::Cut);
    for number in 0..1_000 {
        let line = format!("{number}\n");
        bench.lines.push(line.as_bytes(), Source::Log);
    }
    let numbers: Vec<_> = (0..1_000).map(|number| number.to_string()).collect();
    assert_eq!(bench.drained().lines().collect::<Vec<_>>(), numbers);
}

#[test]
fn what_is_queued_is_bounded_in_bytes_and_what_is_lost_is_reported() {
    let bench = stuck(Overlong::Cut);
    let line = [b"x".repeat(1_023), b"\n".to_vec()].concat();
    const LINES: usize = 20_000;
    for _ in 0..LINES {
        bench.lines.push(&line, Source::Log);
    }
    let queued = bench.lines.0.state.lock().queued.len();
    assert!(queued <= CAPACITY, "{queued} bytes");
    let reported = bench.lines.0.dropped.load(Ordering::Relaxed);
    assert!(reported as usize >= LINES - 2 * CAPACITY / line.len());
    let Bench {
        lines,
        opens,
        taken,
        reported: reports,
    } = bench;
    drop(opens);
    lines.close(Duration::from_secs(60));
    // There are several reports if the writer took a part of the queue before the rest came.
    assert_eq!(reports.try_iter().sum::<u64>(), reported);
    let all: Vec<u8> = taken.try_iter().flatten().collect();
    let written = all.iter().filter(|byte| **byte == b'\n').count();
    assert_eq!(written + reported as usize, LINES);
}

#[test]
fn the_access_log_waits_and_leaves_room_for_warnings() {
    let bench = stuck(Overlong::Cut);
    let line = [b"x".repeat(1_023), b"\n".to_vec()].concat();
    let lines = bench.lines.clone();
    let flood = std::thread::spawn(move || {
        for _ in 0..2 * CAPACITY / line.len() {
            lines.push(&line, Source::AccessLog);
        }
    });
    // Waits until the flood has to wait.
    while bench.lines.0.state.lock().queued.len() < CAPACITY - RESERVED - 1_024 {
        std::thread::yield_now();
    }
    let before = bench.lines.0.state.lock().unreported;
    bench.lines.push(b"a warning\n", Source::Log);
    assert_eq!(bench.lines.0.state.lock().unreported, before);
    for _ in 0..100 {
        bench.opens.send(()).unwrap();
    }
    flood.join().unwrap();
    assert!(bench.drained().contains("a warning\n"));
}

#[test]
fn the_end_does_not_wait_for_a_log_that_is_not_read() {
    let bench = stuck(Overlong::Cut);
    bench.lines.push(b"one\n", Source::Log);
    bench.lines.close(Duration::from_millis(1));
    assert!(!bench.lines.0.state.lock().ended);
    assert_eq!(bench.drained(), "one\n");
}

/// A terminal obeys these characters, and a reader does not see them.
#[test]
fn what_is_not_seen_in_a_line_is_escaped() {
    for (overlong, expected) in [
        (Overlong::Cut, r"a \u{9b}31m \u{202e} ü"),
        (Overlong::Quote, r"a \u009b31m \u202e ü"),
    ] {
        let bench = stuck(overlong);
        let line = "a \u{9b}31m \u{202e} ü\n".as_bytes();
        bench.lines.make_writer().write_all(line).unwrap();
        assert_eq!(bench.drained().trim_end(), expected);
    }
}

#[test]
fn a_line_that_is_too_long_is_cut_and_stays_what_it_was() {
    let long = format!("{}\n", "ü".repeat(LONGEST));
    for overlong in [Overlong::Cut, Overlong::Quote] {
        let bench = stuck(overlong);
        bench
            .lines
            .make_writer()
            .write_all(long.as_bytes())
            .unwrap();
        let written = bench.drained();
        let line = written.strip_suffix('\n').unwrap();
        assert!(
            line.len() < KEPT + 200 && !line.contains('\n'),
            "{}",
            line.len()
        );
        match overlong {
            Overlong::Cut => assert!(line.ends_with("ü…"), "{line}"),
            Overlong::Quote => {
                let line: serde_json::Value = serde_json::from_str(line).unwrap();
                assert!(line["line"].as_str().unwrap().ends_with("ü…"), "{line}");
            }
        }
    }
}

/// A standard error that another program has set to non-blocking.
struct NonBlocking(Vec<u8>, usize);

impl Write for &mut NonBlocking {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.1 += 1;
        match self.1 % 3 {
            0 => Err(ErrorKind::WouldBlock.into()),
            1 => Err(ErrorKind::Interrupted.into()),
            _ => {
                self.0.push(bytes[0]);
                Ok(1)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_standard_error_that_does_not_block_gets_all_of_a_line() {
    let mut out = NonBlocking(Vec::new(), 0);
    write_patiently(&mut &mut out, b"a line\n").unwrap();
    assert_eq!(out.0, b"a line\n");
}
