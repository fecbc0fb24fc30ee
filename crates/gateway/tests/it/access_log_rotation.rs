//! The file of an access log that is rotated, and a reader that stops.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tidegate_testkit::{Client, Upstream};
use tokio::task::JoinSet;

use crate::access_log_file::{lines, log, objects};
use crate::kit::{LONG, get, get_each, sample, until};
use crate::support::GatewayProcess;

/// A gateway with one route of this path, whose access log is `file`.
async fn start(file: &Path, format: &str, path: &str, upstream: &Upstream) -> GatewayProcess {
    let routes = format!(
        "routes: [{{ path: {path}, upstream: \"{}\" }}]\n",
        upstream.url()
    );
    GatewayProcess::start_with("127.0.0.1:0", &log(file, format), &routes).await
}

/// As `logrotate` does it: the file gets another name, and the gateway a signal.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_line_is_lost_or_torn_when_files_are_rotated_under_load() {
    const CLIENTS: usize = 4;
    const REQUESTS: usize = 2_000;
    const ROTATIONS: usize = 8;
    let upstream = Upstream::ok();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("access.log");
    let mut gateway = start(&file, "format: json", "/**", &upstream).await;
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let address = gateway.address;
        clients.spawn(async move {
            let sending = Client::new(address);
            for request in 0..REQUESTS {
                assert_eq!(
                    get(&sending, &format!("/{client}/{request}"), &[]).await,
                    200
                );
            }
        });
    }
    for rotation in 0..ROTATIONS {
        // Some lines are in each file.
        until("the file has lines", async || {
            fs::metadata(&file).is_ok_and(|data| data.len() > 0)
        })
        .await;
        fs::rename(&file, folder.path().join(format!("access.log.{rotation}"))).unwrap();
        gateway.process.signal("USR1");
        gateway
            .process
            .wait_for_nth_line("access log reopened", rotation + 1, LONG)
            .await;
    }
    clients.join_all().await;
    gateway.process.signal("TERM");
    assert_eq!(gateway.process.wait(LONG).await.code(), Some(0));
    let files = fs::read_dir(folder.path()).unwrap();
    let files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    assert_eq!(files.len(), ROTATIONS + 1);
    let objects: Vec<Value> = files
        .iter()
        .flat_map(|file| objects(&lines(file)))
        .collect();
    let paths: HashSet<&str> = objects
        .iter()
        .map(|line| line["path"].as_str().unwrap())
        .collect();
    assert_eq!(
        (objects.len(), paths.len()),
        (CLIENTS * REQUESTS, CLIENTS * REQUESTS)
    );
}

/// A folder that is gone when the file is to be opened again takes no line with it.
#[tokio::test]
async fn a_file_that_cannot_be_opened_again_stays() {
    let upstream = Upstream::ok();
    let folder = tempfile::tempdir().unwrap();
    let (logs, moved) = (folder.path().join("logs"), folder.path().join("moved"));
    fs::create_dir(&logs).unwrap();
    let mut gateway = start(
        &logs.join("access.log"),
        "format: \"$path\"",
        "/**",
        &upstream,
    )
    .await;
    let client = Client::new(gateway.address);
    get(&client, "/1", &[]).await;
    fs::rename(&logs, &moved).unwrap();
    gateway.process.signal("USR1");
    gateway
        .process
        .wait_for_line("access log not reopened", LONG)
        .await;
    get(&client, "/2", &[]).await;
    gateway.process.signal("TERM");
    assert_eq!(gateway.process.wait(LONG).await.code(), Some(0));
    assert_eq!(lines(&moved.join("access.log")), ["/1", "/2"]);
}

/// A reader that stops: no request waits, memory stays bounded, and lines and lost lines are all requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_stops_loses_lines_that_are_counted_exactly() {
    const CLIENTS: usize = 4;
    const REQUESTS: usize = 3_000;
    let upstream = Upstream::ok();
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("access.pipe");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    // Neither end waits for the other to be opened.
    let both_ends = File::options().read(true).write(true).open(&pipe).unwrap();
    let mut gateway = start(&pipe, "format: json", "/api", &upstream).await;
    let reader = File::open(&pipe).unwrap();
    drop(both_ends);
    let before = gateway.process.rss_kb();
    let path = format!("/{}", "x".repeat(4_000));
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let (address, path) = (gateway.address, path.clone());
        clients.spawn(async move {
            let client = Client::new(address);
            get_each(&client, REQUESTS, &path, &[], 404).await;
        });
    }
    clients.join_all().await;
    let grown = gateway.process.rss_kb().saturating_sub(before);
    assert!(grown < 32 * 1024, "grown by {grown} KiB");
    let dropped = sample(gateway.admin, "tidegate_access_log_dropped_lines_total").await;
    assert!(dropped > 0);
    let reading = std::thread::spawn(move || {
        let lines = BufReader::new(reader).lines();
        lines.map(Result::unwrap).collect::<Vec<_>>()
    });
    // Once there is room, the log says what is missing without waiting for its end.
    get(&Client::new(gateway.address), "/last", &[]).await;
    gateway.process.signal("TERM");
    assert_eq!(gateway.process.wait(LONG).await.code(), Some(0));
    let objects = objects(&reading.join().unwrap());
    let lost = objects.iter().filter_map(|line| line["lost"].as_u64());
    let lost: u64 = lost.sum();
    let written = objects
        .iter()
        .filter(|line| line["path"].is_string())
        .count();
    // The last line may have found no room yet.
    assert!(
        lost == dropped || lost == dropped + 1,
        "{lost} of {dropped}"
    );
    assert_eq!(written as u64 + lost, (CLIENTS * REQUESTS) as u64 + 1);
}
