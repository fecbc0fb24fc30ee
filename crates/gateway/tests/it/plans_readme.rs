//! examples/plans/README.md: its commands, in their order, print what stands below them.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use http::Response;
use tidegate_testkit::{Process, Upstream, body};

use crate::kit::LONG;

const COMMANDS: [&str; 5] = [
    "ask",
    "for ",
    "curl ",
    "cargo run ",
    "TIDEGATE_ADMIN_TOKEN=",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The indented blocks of a page below this heading.
fn blocks(page: &str, heading: &str) -> Vec<String> {
    let (_, text) = page.split_once(heading).unwrap();
    let mut blocks = vec![String::new()];
    let mut was_indented = false;
    for line in text.lines() {
        let indented = line.strip_prefix("    ");
        if let Some(line) = indented {
            if !was_indented {
                blocks.push(String::new());
            }
            let block = blocks.last_mut().unwrap();
            *block += line;
            block.push('\n');
        }
        was_indented = indented.is_some();
    }
    blocks.retain(|block| !block.is_empty());
    blocks
}

/// The address at the end of a log line.
fn address(line: &str) -> SocketAddr {
    line.rsplit_once("address=").unwrap().1.parse().unwrap()
}

/// A line without what differs from run to run: times, ports, the rest of the day, what has come back of a budget.
fn masked(line: &str) -> String {
    let is_time = |word: &str| {
        word.strip_suffix(['d', 'h', 'm', 's'])
            .is_some_and(|number| number.parse::<u32>().is_ok())
    };
    let words = line
        .split_whitespace()
        .map(|word| word.trim_end_matches('"'));
    let words = words.filter(|word| !is_time(word)).map(|word| {
        for begin in ["20", "from=127.0.0.1:", "\"queries\";r=0;t="] {
            let Some(rest) = word.strip_prefix(begin) else {
                continue;
            };
            if begin != "20" || rest.ends_with('Z') {
                return begin;
            }
        }
        word
    });
    let mut words: Vec<&str> = words.collect();
    match words.as_mut_slice() {
        [
            "retry-after:" | "x-ratelimit-reset:" | "x-request-id:",
            value,
        ] => *value = "#",
        words => {
            // Two a second come back.
            if let Some(at) = words.iter().position(|word| word.ends_with("=\"burst")) {
                words[at + 1] = "#";
            }
        }
    }
    words.join(" ")
}

/// Whether a line is what is shown, where `…` stands for anything.
fn is_shown(shown: &str, printed: &str) -> bool {
    let (shown, printed) = (masked(shown), masked(printed));
    let mut rest = &*printed;
    for (index, part) in shown.split('…').enumerate() {
        match rest.find(part) {
            Some(at) if index > 0 || at == 0 => rest = &rest[at + part.len()..],
            _ => return false,
        }
    }
    rest.is_empty() || shown.ends_with('…')
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn its_commands_print_what_it_shows() {
    let upstream = Upstream::start(|_| async {
        let mut answer = Response::new(body::empty());
        *answer.status_mut() = http::StatusCode::NO_CONTENT;
        answer
    });
    let api = upstream.addr().to_string();
    let program = env!("CARGO_BIN_EXE_tidegate");
    let mut command = Command::new(program);
    command
        .args(["run", "-c", "examples/plans/gateway.yaml"])
        .env("TIDEGATE_LISTEN", "127.0.0.1:0")
        .env("TIDEGATE_ADMIN", "127.0.0.1:0")
        .env("API", &api)
        .current_dir(root());
    let gateway = Process::spawn(command);
    let listens = address(&gateway.wait_for_line(": listening", LONG).await).to_string();
    let admin = address(&gateway.wait_for_line("admin port", LONG).await).to_string();

    let page = std::fs::read_to_string(root().join("examples/plans/README.md")).unwrap();
    let (mut definitions, mut printed) = (String::new(), Vec::new());
    let (mut compared, mut audited) = (0, 0);
    // The first starts the gateway.
    for block in &blocks(&page, "## Try it")[1..] {
        let is_command = COMMANDS.iter().any(|begin| block.starts_with(begin));
        let of_log = block.starts_with("INFO audit: ");
        if is_command || block.starts_with("export ") {
            let script = block
                .replace("cargo run --", program)
                .replace("127.0.0.1:8080", &listens);
            let defines = |line: &&str| line.starts_with("ask()") || line.starts_with("export ");
            let mut command = Command::new("bash");
            command.arg("-c").arg(format!("{definitions}{script}"));
            command
                .env("TIDEGATE_ADMIN", &admin)
                .env("API", &api)
                .current_dir(root());
            for line in script.lines().filter(defines) {
                definitions += &format!("{line}\n");
            }
            let output = tokio::task::spawn_blocking(move || command.output().unwrap());
            let output = output.await.unwrap();
            assert!(output.status.success(), "{block}: {output:?}");
            let text = String::from_utf8(output.stdout).unwrap();
            let text = text.replace(&api, "127.0.0.1:9000");
            printed = text.lines().map(str::to_owned).collect();
            continue;
        }
        if of_log {
            audited += 1;
            let line = gateway.wait_for_nth_line(" audit: ", audited, LONG).await;
            let (_, line) = line.split_once("INFO ").unwrap();
            printed = vec![format!("INFO {line}")];
        }
        let shown: Vec<&str> = block.lines().collect();
        printed.retain(|line| !line.is_empty());
        // Of an answer with its head the body and the headers that have nothing to do with limits are left out.
        if block.starts_with("HTTP/1.1 ") {
            printed.retain(|line| shown.iter().any(|shown| is_shown(shown, line)));
        }
        assert_eq!(shown.len(), printed.len(), "{block}{printed:#?}");
        for (shown, printed) in shown.iter().zip(&printed) {
            assert!(is_shown(shown, printed), "{shown}\n{printed}");
        }
        compared += 1;
    }
    assert_eq!((compared, audited), (10, 2));
}
