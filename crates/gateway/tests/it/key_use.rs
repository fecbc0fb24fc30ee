//! When each listed API key was used last: what ends a rotation of keys.

use std::fs;
use std::path::Path;

use serde_json::Value;
use tidegate_testkit::Client;

use crate::callers::{listed, sha256};
use crate::kit::{Bench, epoch, get, page, until};
use crate::support::commands::{ended_beside, tidegate};

/// The entry of a key of the client `alpha`.
fn key(text: &str) -> String {
    format!("{{ name: alpha, hash: \"sha256:{}\" }}", sha256(text))
}

fn yaml(keys: &[String], file: &Path) -> String {
    format!(
        "
clients: [{{ api_key: {{ keys: [{}], keys_file: \"{}\" }} }}, {{ ip: {{}} }}]
limits:
  own: {{ fixed_window: {{ limit: 1000000, window: 31d }} }}
routes:
  - {{ path: /**, upstream: UPSTREAM, limits: [own] }}
",
        keys.join(", "),
        file.display()
    )
}

/// The last use of each key of a client, by the start of its hash.
async fn uses(bench: &Bench, client: &str) -> Vec<(String, Option<u64>)> {
    let (_, text) = page(bench.gateway.admin, &format!("/clients/api_key:{client}")).await;
    let report: Value = serde_json::from_str(&text).unwrap();
    let keys = report["keys"]
        .as_array()
        .unwrap_or_else(|| panic!("{text}"));
    let of = |key: &Value| {
        (
            key["hash"].as_str().unwrap().to_owned(),
            key["last_used"].as_u64(),
        )
    };
    keys.iter().map(of).collect()
}

fn start(text: &str) -> String {
    format!("sha256:{}", &sha256(text)[..8])
}

async fn asks(bench: &Bench, key: &str) {
    let client = Client::fresh(bench.gateway.address);
    assert_eq!(get(&client, "/", &[("x-api-key", key)]).await, 200);
}

#[tokio::test]
async fn a_key_that_stays_keeps_its_last_use() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.yaml");
    let expires = |entry: String| entry.replace(" }", ", expires: 2999-01-31 }");
    let old = expires(key("old"));
    fs::write(&file, format!("- {}\n", listed("beta"))).unwrap();
    let bench = Bench::start(&yaml(&[old.clone(), key("new")], &file)).await;
    let mut unused = [(start("old"), None), (start("new"), None)];
    unused.sort();
    assert_eq!(uses(&bench, "alpha").await, unused);

    let before = epoch() / 1_000_000;
    asks(&bench, "old").await;
    asks(&bench, "beta-key").await;
    // A key that nobody lists is none of anybody's.
    asks(&bench, "another").await;
    let used = uses(&bench, "alpha").await;
    assert_eq!(used[1], (start("new"), None));
    let last = used[0].1.unwrap();
    assert_eq!(used[0].0, start("old"));
    assert!((before..=epoch() / 1_000_000).contains(&last), "{last}");
    let of_beta = uses(&bench, "beta").await;
    assert!(of_beta[0].1.is_some());

    // A reload that adds a key, and a file that lists another one beside.
    let keys = [old, expires(key("third")), key("new")];
    let next = yaml(&keys, &file).replace("UPSTREAM", &bench.upstream.url());
    bench.gateway.reload(&next).await;
    assert_eq!(uses(&bench, "alpha").await.len(), 3);
    assert_eq!(uses(&bench, "alpha").await[0], used[0]);
    assert_eq!(uses(&bench, "beta").await, of_beta);
    let more = file.with_extension("new");
    fs::write(
        &more,
        format!("- {}\n- {}\n", listed("beta"), listed("gamma")),
    )
    .unwrap();
    fs::rename(more, &file).unwrap();
    until("the file is read", async || {
        page(bench.gateway.admin, "/clients/api_key:gamma").await.0 == 200
    })
    .await;
    assert_eq!(uses(&bench, "beta").await, of_beta);
    assert_eq!(uses(&bench, "alpha").await[0], used[0]);
    assert_eq!(uses(&bench, "gamma").await[0].1, None);
    bench.stop().await;
}

#[tokio::test]
async fn the_command_prints_the_keys_of_a_client() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.yaml");
    fs::write(&file, "[]").unwrap();
    let old = key("old").replace(" }", ", expires: 2999-01-31 }");
    let bench = Bench::start(&yaml(&[old, key("new")], &file)).await;
    asks(&bench, "old").await;
    let admin = format!("http://{}", bench.gateway.admin);
    let mut command = tidegate(&["client", "api_key:alpha", "show", "--admin", &admin]);
    command.current_dir(folder.path());
    let (_, text, _) = ended_beside(command).await;
    let line = |key: &str| {
        let begin = format!("API key {}: ", start(key));
        let line = text.lines().find_map(|line| line.strip_prefix(&begin));
        line.unwrap_or_else(|| panic!("{text}")).to_owned()
    };
    assert_eq!(line("new"), "not used since this gateway started");
    let old = line("old");
    assert!(
        old.starts_with("used ") && old.contains(" ago, expires in "),
        "{old}"
    );
    bench.stop().await;
}
