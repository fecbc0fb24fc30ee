//! The file with denied networks: taken when it changes, left alone when it is broken, and as quick with 100,000 networks.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::from;
use crate::callers::{TRUST, ask};
use crate::kit::{Bench, LONG, page};

struct Denying {
    bench: Bench,
    folder: TempDir,
}

impl Denying {
    async fn start(content: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("denied.txt");
        fs::write(&file, content).unwrap();
        let bench = Bench::start(&format!(
            "
{TRUST}
deny_file: \"{}\"
exempt: [10.0.0.9]
limits: {{ own: {{ fixed_window: {{ limit: 1000000, window: 31d }} }} }}
routes: [{{ path: /**, upstream: UPSTREAM, limits: [own] }}]
",
            file.display()
        ))
        .await;
        Self { bench, folder }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("denied.txt")
    }

    /// Puts another file in the place of the one that is there, in one step.
    fn replace(&self, content: &str) {
        let other = self.folder.path().join("denied.new");
        fs::write(&other, content).unwrap();
        fs::rename(other, self.file()).unwrap();
    }

    async fn is_denied(&self, address: &str) -> bool {
        match ask(&self.bench.client, "/", &[from(address)])
            .await
            .status
            .as_u16()
        {
            403 => true,
            200 => false,
            other => panic!("{other} for {address}"),
        }
    }

    async fn until_denied(&self, address: &str, denied: bool) {
        let deadline = Instant::now() + LONG;
        while self.is_denied(address).await != denied {
            assert!(
                Instant::now() < deadline,
                "{address} should be denied: {denied}"
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn metric(&self, name: &str) -> u64 {
        let (_, text) = page(self.bench.gateway.admin, "/metrics").await;
        let found = text.lines().find_map(|line| line.strip_prefix(name));
        found.map_or(0, |count| count.trim().parse().unwrap())
    }

    async fn until_metric(&self, name: &str, count: u64) {
        let deadline = Instant::now() + LONG;
        while self.metric(name).await != count {
            assert!(Instant::now() < deadline, "{name} is not {count}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

const TAKEN: &str = "tidegate_deny_file_reads_total{outcome=\"taken\"}";
const REFUSED: &str = "tidegate_deny_file_reads_total{outcome=\"refused\"}";
const NETWORKS: &str = "tidegate_denied_networks ";

#[tokio::test]
async fn the_file_is_reread_when_it_changes_and_a_broken_one_changes_nothing() {
    let denying = Denying::start("# bad\n192.0.2.0/24\n10.0.0.9\n").await;
    assert!(denying.is_denied("192.0.2.1").await && !denying.is_denied("198.51.100.1").await);
    // `deny` wins.
    assert!(denying.is_denied("10.0.0.9").await);

    denying.replace("198.51.100.0/24 ; another\n");
    denying.until_denied("198.51.100.1", true).await;
    assert!(!denying.is_denied("192.0.2.1").await && !denying.is_denied("10.0.0.9").await);
    denying.until_metric(TAKEN, 1).await;

    for (done, broken) in (1..).zip(["", "198.51.100.0/24\nnonsense\n", "192.0.2.1/24\n"]) {
        denying.replace(broken);
        denying.until_metric(REFUSED, done).await;
        assert!(denying.is_denied("198.51.100.1").await, "{broken}");
        assert!(!denying.is_denied("192.0.2.1").await, "{broken}");
    }
    fs::remove_file(denying.file()).unwrap();
    denying.until_metric(REFUSED, 4).await;
    assert!(denying.is_denied("198.51.100.1").await);

    let mut many = String::new();
    for number in 0..100_000_u32 {
        let [_, a, b, c] = number.to_be_bytes();
        let _ = writeln!(many, "100.{a}.{b}.{c}");
    }
    denying.replace(&many);
    denying.until_metric(NETWORKS, 100_000).await;
    assert!(denying.is_denied("100.1.134.159").await);
    assert!(!denying.is_denied("100.1.134.160").await);
    assert!(!denying.is_denied("198.51.100.1").await);
    denying.bench.stop().await;
}
