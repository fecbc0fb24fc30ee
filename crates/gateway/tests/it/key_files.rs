//! Files with API keys: taken when they change, left alone when they are broken; and keys that end.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use tempfile::TempDir;
use tidegate_testkit::{Client, Upstream};

use crate::callers::{ask, listed, sha256};
use crate::kit::{Bench, LONG, get, number, sample, sample_becomes, until};
use crate::support::TestGateway;

/// A gateway whose keys stand in a file, beside one that stands in its configuration.
struct Keyed {
    bench: Bench,
    folder: TempDir,
}

/// The lines of a key file that lists these names.
fn lines(names: &[&str]) -> String {
    names
        .iter()
        .map(|name| format!("- {}\n", listed(name)))
        .collect()
}

impl Keyed {
    /// Starts it with a file that `put` makes of this path.
    async fn start(put: impl FnOnce(&Path)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("keys.yaml");
        put(&file);
        let bench = Bench::start(&format!(
            "
clients: [{{ api_key: {{ keys: [{}], keys_file: \"{}\", unknown: reject }} }}]
limits:
  own: {{ fixed_window: {{ limit: 1000000, window: 31d }} }}
routes:
  - {{ path: /**, upstream: UPSTREAM, limits: [own] }}
",
            listed("configured"),
            file.display()
        ))
        .await;
        Self { bench, folder }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("keys.yaml")
    }

    /// Puts another file in the place of the one that is there, in one step.
    fn rename_over(&self, content: &str) {
        let other = self.folder.path().join("keys.yaml.new");
        fs::write(&other, content).unwrap();
        fs::rename(other, self.file()).unwrap();
    }

    async fn is_known(&self, name: &str) -> bool {
        let client = Client::new(self.bench.gateway.address).knows("www-authenticate");
        let key = format!("{name}-key");
        match get(&client, "/", &[("x-api-key", &key)]).await {
            200 => true,
            401 => false,
            other => panic!("{other} for {name}"),
        }
    }

    /// Waits until a key is known, or not.
    async fn until(&self, name: &str, known: bool) {
        until(&format!("{name} is known: {known}"), async || {
            self.is_known(name).await == known
        })
        .await;
    }

    async fn reads(&self, outcome: &str) -> u64 {
        let name = format!("tidegate_key_file_reads_total{{outcome=\"{outcome}\"}}");
        sample(self.bench.gateway.admin, &name).await
    }

    async fn until_reads(&self, outcome: &str, count: u64) {
        until(&format!("a read is {outcome}"), async || {
            self.reads(outcome).await >= count
        })
        .await;
    }
}

#[tokio::test]
async fn a_key_file_is_reread_however_it_changes_and_a_broken_one_changes_nothing() {
    let keyed = Keyed::start(|file| fs::write(file, lines(&["alpha"])).unwrap()).await;
    assert!(keyed.is_known("alpha").await && keyed.is_known("configured").await);
    assert!(!keyed.is_known("beta").await);

    // Written in place, with the same length; the key that is gone stops.
    fs::write(keyed.file(), lines(&["gamma"])).unwrap();
    keyed.until("gamma", true).await;
    assert!(!keyed.is_known("alpha").await && keyed.is_known("configured").await);
    keyed.until_reads("taken", 1).await;

    keyed.rename_over(&lines(&["beta", "alpha"]));
    keyed.until("beta", true).await;
    assert!(keyed.is_known("alpha").await && !keyed.is_known("gamma").await);

    // Broken in every way, one after the other: what was in force stays.
    let half = lines(&["delta"]);
    let broken = [
        "- { name: delta".to_owned(),
        half[..half.len() - 10].to_owned(),
        "- { name: delta, hash: plain-text-key }\n".to_owned(),
        format!("{}{}", lines(&["delta"]), lines(&["delta"])),
        lines(&["configured"]),
        "delta: not a list\n".to_owned(),
    ];
    for (done, content) in (1..).zip(broken) {
        keyed.rename_over(&content);
        keyed.until_reads("refused", done).await;
        assert!(
            keyed.is_known("beta").await && keyed.is_known("configured").await,
            "{content}"
        );
        assert!(!keyed.is_known("delta").await, "{content}");
    }

    // Gone for a while, and back.
    fs::remove_file(keyed.file()).unwrap();
    assert!(keyed.is_known("beta").await);
    keyed.rename_over(&lines(&["delta"]));
    keyed.until("delta", true).await;
    assert!(!keyed.is_known("beta").await);
    keyed.bench.stop().await;
}

#[tokio::test]
async fn a_link_that_comes_to_point_elsewhere_is_a_change() {
    // As Kubernetes does it: keys.yaml -> data/keys.yaml, data -> 1, then data -> 2.
    let put = |file: &Path| {
        let folder = file.parent().unwrap();
        for (version, name) in [("1", "alpha"), ("2", "gamma")] {
            fs::create_dir(folder.join(version)).unwrap();
            fs::write(folder.join(version).join("keys.yaml"), lines(&[name])).unwrap();
        }
        symlink("1", folder.join("data")).unwrap();
        symlink("data/keys.yaml", file).unwrap();
    };
    let keyed = Keyed::start(put).await;
    assert!(keyed.is_known("alpha").await && !keyed.is_known("gamma").await);
    let folder = keyed.folder.path();
    symlink("2", folder.join("data.new")).unwrap();
    fs::rename(folder.join("data.new"), folder.join("data")).unwrap();
    keyed.until("gamma", true).await;
    assert!(!keyed.is_known("alpha").await);
    keyed.bench.stop().await;
}

/// A key file with one key that ends at this time.
fn ending(name: &str, at: SystemTime) -> String {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let (days, rest) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    // Days to a date, after Howard Hinnant.
    let z = days + 719_468;
    let (era, day_of_era) = (z / 146_097, z % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
    format!(
        "- {{ name: {name}, hash: \"sha256:{}\", expires: \
         \"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z\" }}\n",
        sha256(&format!("{name}-key"))
    )
}

#[tokio::test]
async fn a_key_ends_on_its_day_and_not_before() {
    let now = SystemTime::now();
    let soon = now + Duration::from_secs(3);
    let content = [
        ending("past", now - Duration::from_secs(2)),
        ending("soon", soon),
        ending("late", now + Duration::from_secs(86_400)),
    ]
    .concat();
    let keyed = Keyed::start(|file| fs::write(file, content).unwrap()).await;
    assert!(!keyed.is_known("past").await && keyed.is_known("late").await);
    let deadline = Instant::now() + LONG;
    loop {
        let before = SystemTime::now();
        let known = keyed.is_known("soon").await;
        let after = SystemTime::now();
        // Its end is written in whole seconds, rounded down.
        if after + Duration::from_secs(1) < soon {
            assert!(known, "it ended early");
        }
        if before >= soon {
            assert!(!known, "it goes on after its end");
            break;
        }
        assert!(Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(keyed.is_known("late").await);
    assert_eq!(keyed.reads("taken").await, 0, "no file has changed");
    keyed.bench.stop().await;
}

#[tokio::test]
async fn a_hundred_thousand_keys_are_known_from_the_first_to_the_last() {
    const KEYS: usize = 100_000;
    let mut content = String::new();
    for index in 0..KEYS {
        let hash = sha256(&format!("secret-{index}"));
        content += &format!("- name: client-{index}\n  hash: sha256:{hash}\n");
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.yaml");
    fs::write(&file, content).unwrap();
    let upstream = Upstream::ok();
    let began = Instant::now();
    let gateway = TestGateway::start(&format!(
        "
clients: [{{ api_key: {{ keys_file: \"{}\" }} }}]
forward_client: X-Client-Id
routes:
  - {{ path: /**, upstream: \"{}\" }}
",
        file.display(),
        upstream.url()
    ))
    .await;
    eprintln!("a gateway with {KEYS} keys starts in {:?}", began.elapsed());
    let client = Client::new(gateway.address);
    for (index, name) in [
        (0, "api_key:client-0"),
        (KEYS / 2, "api_key:client-50000"),
        (KEYS - 1, "api_key:client-99999"),
        (KEYS, "ip:127.0.0.1"),
    ] {
        let key = format!("secret-{index}");
        assert_eq!(get(&client, "/", &[("x-api-key", &key)]).await, 200);
        let arrived = upstream.requests().pop().unwrap();
        assert_eq!(arrived.header("x-client-id"), Some(name));
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_reread_file_may_change_a_clients_plan_and_no_other_keys() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.yaml");
    let with_plan = |plan: &str| format!("- {}\n", listed("alpha").replace(" }", plan));
    fs::write(&file, with_plan(" }")).unwrap();
    let bench = Bench::start(&format!(
        "
clients: [{{ api_key: {{ keys_file: \"{}\" }} }}]
limits: {{ own: {{ fixed_window: {{ limit: 1000000, window: 31d }} }} }}
plans: {{ gold: {{ own: {{ fixed_window: {{ limit: 2000000, window: 31d }} }} }} }}
routes:
  - {{ path: /**, upstream: UPSTREAM, limits: [own] }}
",
        file.display()
    ))
    .await;
    let limit = async || {
        let answer = ask(&bench.client, "/", &[("x-api-key", "alpha-key")]).await;
        number(&answer, "x-ratelimit-limit").unwrap()
    };
    assert_eq!(limit().await, 1_000_000);
    let becomes = async |wanted: u64| {
        until(&format!("the limit is {wanted}"), async || {
            limit().await == wanted
        })
        .await;
    };
    fs::write(&file, with_plan(", plan: gold }")).unwrap();
    becomes(2_000_000).await;
    // Which plans there are stands in the configuration.
    fs::write(&file, with_plan(", plan: platinum }")).unwrap();
    let refused = "tidegate_key_file_reads_total{outcome=\"refused\"}";
    sample_becomes(bench.gateway.admin, refused, 1).await;
    assert_eq!(limit().await, 2_000_000);
    fs::write(&file, with_plan(" }")).unwrap();
    becomes(1_000_000).await;
    bench.stop().await;
}

/// Who changes keys is one client all the while, with one budget.
#[tokio::test]
async fn a_client_with_two_keys_has_one_budget_until_the_old_key_ends() {
    let soon = SystemTime::now() + Duration::from_secs(3);
    let old = ending("old", soon).replace("name: old", "name: acme");
    let new = format!("- {}\n", listed("new").replace("name: new", "name: acme"));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.yaml");
    fs::write(&file, &old).unwrap();
    let bench = Bench::start(&format!(
        "
clients: [{{ api_key: {{ keys_file: \"{}\", unknown: reject }} }}]
forward_client: X-Client-Id
limits: {{ own: {{ fixed_window: {{ limit: 1000000, window: 31d }} }} }}
routes:
  - {{ path: /**, upstream: UPSTREAM, limits: [own] }}
",
        file.display()
    ))
    .await;
    let client = Client::new(bench.gateway.address).knows("www-authenticate");
    let left = async |key: &str| {
        let answer = ask(&client, "/", &[("x-api-key", key)]).await;
        let left = number(&answer, "x-ratelimit-remaining");
        left.filter(|_| answer.status == 200)
    };
    assert_eq!(left("old-key").await, Some(999_999));
    assert_eq!(left("new-key").await, None);
    fs::write(&file, format!("{old}{new}")).unwrap();
    until("the new key is known", async || {
        match left("new-key").await {
            Some(left) => left == 999_998,
            None => false,
        }
    })
    .await;
    let mut expected = 999_998;
    let deadline = Instant::now() + LONG;
    // The old one goes on until its end, and takes from the same budget.
    while let Some(left) = left("old-key").await {
        expected -= 1;
        assert_eq!(left, expected);
        assert!(Instant::now() < deadline, "the old key should end");
    }
    assert!(
        SystemTime::now() + Duration::from_secs(1) >= soon,
        "it ended early"
    );
    assert_eq!(left("new-key").await, Some(expected - 1));
    let arrivals = bench.upstream.requests();
    let is_acme = |name| name == Some("api_key:acme");
    assert!(arrivals.iter().all(|it| is_acme(it.header("x-client-id"))));
    bench.stop().await;
}
