//! An end before that of the log.

use std::io::Write as _;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::thread;

use serde_json::Value;

use super::edges::Folder;
use crate::kit::LONG;
use crate::support::commands::tidegate;

const LINE: &str =
    "192.0.2.1 - - [22/Nov/2026:10:00:00 +0000] \"GET / HTTP/1.1\" 200 5 \"-\" \"curl\"\n";

/// A replay of what comes through a pipe, which has read some lines.
struct Replay {
    _folder: Folder,
    process: Child,
    input: ChildStdin,
}

impl Replay {
    fn start() -> Self {
        let folder = Folder::new();
        let config = folder.limited("fixed_window: { limit: 9, window: 1h }");
        let mut command = tidegate(&["simulate", "--json", "-", "-c"]);
        command.arg(config);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut input = process.stdin.take().unwrap();
        // What no pipe holds: it was read.
        input.write_all(LINE.repeat(10_000).as_bytes()).unwrap();
        Self {
            _folder: folder,
            process,
            input,
        }
    }

    fn interrupt(&self) {
        let number = self.process.id().to_string();
        let kill = Command::new("kill").args(["-INT", &number]).status();
        assert!(kill.unwrap().success());
    }
}

/// What a replay prints that was interrupted.
fn printed(process: Child) -> Value {
    let output = process.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["log"]["stopped"], true);
    report
}

#[test]
fn an_interrupt_prints_what_is_known_so_far() {
    let mut replay = Replay::start();
    replay.interrupt();
    // An endless log, until nobody reads it any more.
    while replay.input.write_all(LINE.as_bytes()).is_ok() {}
    let report = printed(replay.process);
    let requests = report["configurations"][0]["requests"].as_u64().unwrap();
    assert!(requests > 0, "{report:#}");
}

#[test]
fn an_interrupt_is_heard_while_nothing_comes() {
    let Replay {
        _folder,
        process,
        input,
    } = {
        let replay = Replay::start();
        replay.interrupt();
        replay
    };
    let number = process.id().to_string();
    let (sender, ended) = mpsc::channel();
    let waits = thread::spawn(move || {
        let report = printed(process);
        sender.send(()).unwrap();
        report
    });
    let heard = ended.recv_timeout(LONG);
    if heard.is_err() {
        let _ = Command::new("kill").args(["-KILL", &number]).status();
    }
    assert!(heard.is_ok(), "it waits for the next line");
    // All requests that were read, and not only those that were replayed by then.
    let report = waits.join().unwrap();
    let requests = report["configurations"][0]["requests"].as_u64().unwrap();
    assert!(requests > 1_000, "{requests}");
    drop(input);
}
