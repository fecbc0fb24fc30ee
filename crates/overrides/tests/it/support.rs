//! What these tests share: gateways' overrides, and waiting for what must come.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tidegate_overrides::{
    Change, Clearing, Ends, Expected, Intent, Listener, Outcome, Override, Overrides, Previous,
    Setting, Subject, Timing, Wish, read_name,
};
use tidegate_redis::{Scripts, Shards};
use tidegate_testkit::{RedisProxy, RedisServer, Reply};
use tidegate_tower::OverrideAction::{self, Block, Exempt};
use tokio::task::AbortHandle;

/// The hash of all records.
pub(crate) const HASH: &str = "tidegate:{overrides}";

/// What a listener was told: how many are in force, and each change.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told(Arc<Mutex<Last>>);

#[derive(Debug, Default)]
struct Last {
    in_force: usize,
    changes: Vec<Change>,
    news: usize,
    times: usize,
}

impl Listener for Told {
    fn changed(
        &self,
        changes: &[Change],
        are_news: bool,
        in_force: &mut dyn Iterator<Item = Override>,
    ) {
        let mut told = self.0.lock();
        told.in_force = in_force.count();
        told.changes.extend_from_slice(changes);
        told.news += if are_news { changes.len() } else { 0 };
        told.times += 1;
    }
}

impl Told {
    pub(crate) fn in_force(&self) -> usize {
        self.0.lock().in_force
    }

    /// Returns how often the listener was called.
    pub(crate) fn times(&self) -> usize {
        self.0.lock().times
    }

    /// How many changes were news.
    pub(crate) fn news(&self) -> usize {
        self.0.lock().news
    }

    /// Who has cleared what, since this was asked last.
    pub(crate) fn cleared(&self) -> Vec<(String, Clearing)> {
        let changes = std::mem::take(&mut self.0.lock().changes);
        let cleared = |it: Change| Some((it.subject.to_string(), (*it.cleared?).clone()));
        changes.into_iter().filter_map(cleared).collect()
    }

    /// The changes since it was asked last: before and after.
    pub(crate) fn changes(&self) -> Vec<(String, Option<OverrideAction>, Option<OverrideAction>)> {
        let changes = std::mem::take(&mut self.0.lock().changes);
        let action = |it: Option<Override>| it.map(|it| it.setting.action.clone());
        let told = |it: Change| (it.subject.to_string(), action(it.before), action(it.after));
        changes.into_iter().map(told).collect()
    }
}

/// The overrides of a gateway that keeps them up to date, until this is dropped.
#[derive(Debug)]
pub(crate) struct Keeping {
    pub(crate) overrides: Arc<Overrides>,
    pub(crate) told: Told,
    keeper: AbortHandle,
}

impl Drop for Keeping {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}

pub(crate) async fn connect(url: &str) -> (Arc<Overrides>, Told) {
    connect_timed(url, Timing::default()).await
}

/// Connects a gateway behind a proxy.
pub(crate) async fn connect_through(proxy: &RedisProxy) -> (Arc<Overrides>, Told) {
    connect(&format!("redis://{}", proxy.addr())).await
}

/// Connects a gateway that has read all overrides.
pub(crate) async fn synced(server: &RedisServer) -> (Arc<Overrides>, Told) {
    let (overrides, told) = connect(&server.url()).await;
    overrides.sync().await.unwrap();
    (overrides, told)
}

pub(crate) async fn connect_timed(url: &str, timing: Timing) -> (Arc<Overrides>, Told) {
    let scripts = Arc::new(Scripts::new(0, |_| String::new()));
    // As decisions have it by default.
    let timeout = Duration::from_millis(25);
    let shards = Shards::start(url, None, timeout, scripts).unwrap();
    shards.tried().await;
    let told = Told::default();
    let listener = Box::new(told.clone());
    let overrides = Overrides::in_redis(Arc::new(shards), "tidegate", timing, listener);
    (overrides, told)
}

pub(crate) async fn keeping(server: &RedisServer) -> Keeping {
    keeping_at(&server.url()).await
}

pub(crate) async fn keeping_at(url: &str) -> Keeping {
    let (overrides, told) = connect(url).await;
    let kept = overrides.clone();
    let keeper = tokio::spawn(async move { kept.keep().await }).abort_handle();
    Keeping {
        overrides,
        told,
        keeper,
    }
}

pub(crate) fn subject(name: &str) -> Subject {
    read_name(name, 64).unwrap()
}

pub(crate) fn plan(name: &str) -> OverrideAction {
    OverrideAction::Plan(name.into())
}

pub(crate) fn wish(name: &str, action: OverrideAction, ends: Ends) -> Wish {
    Wish {
        subject: subject(name),
        expected: Expected::Any,
        ends,
        intent: Intent::Set(Setting::new(action, "why", "ops").unwrap()),
    }
}

/// A block without an end.
pub(crate) fn block(name: &str) -> Wish {
    wish(name, Block, Ends::Never)
}

/// Blocks of this many users.
pub(crate) fn blocks(count: usize) -> Vec<Wish> {
    let names = (0..count).map(|id| format!("user_id:{id}"));
    names.map(|name| block(&name)).collect()
}

pub(crate) fn is_set(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Set { .. })
}

pub(crate) fn is_conflict(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Conflict(Some(_)))
}

/// Reads until there is nothing to compare.
pub(crate) async fn sync_all(overrides: &Arc<Overrides>) {
    for _ in 0..3 {
        overrides.sync().await.unwrap();
    }
}

/// Makes Redis lose the entry of a name.
pub(crate) async fn lose(server: &RedisServer, name: &str) {
    let versions = format!("{HASH}:versions");
    server.command(&["HDEL", HASH, name]).await;
    server.command(&["ZREM", &versions, name]).await;
}

pub(crate) fn clear(name: &str) -> Wish {
    Wish::clear(subject(name), Expected::Any, clearing())
}

pub(crate) fn clearing() -> Clearing {
    Clearing::new("over", "bob").unwrap()
}

/// What became of one wish.
pub(crate) async fn change(overrides: &Arc<Overrides>, wish: Wish) -> Outcome {
    let mut outcomes = overrides.change(vec![wish]).await.unwrap();
    assert_eq!(outcomes.len(), 1);
    outcomes.remove(0)
}

/// Sets an override for ever, and returns its version.
pub(crate) async fn set(overrides: &Arc<Overrides>, name: &str, action: OverrideAction) -> u64 {
    match change(overrides, wish(name, action, Ends::Never)).await {
        Outcome::Set { after, .. } => after.version,
        other => panic!("{other:?}"),
    }
}

/// What is in force for a name.
pub(crate) fn action(overrides: &Overrides, name: &str) -> Option<OverrideAction> {
    let found = overrides.get(&subject(name));
    found.map(|it| it.setting.action.clone())
}

/// Asks again and again until it is so.
pub(crate) async fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    until(what, async || is_so()).await;
}

/// The same, where it takes a call to know.
pub(crate) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !is_so().await {
        assert!(Instant::now() < deadline, "{what}: not within 30 s");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Of changes that are made together, each sees those before it.
pub(crate) async fn changes_of_one_name_follow_each_other(overrides: &Arc<Overrides>) {
    let set = |action| wish("user_id:1", action, Ends::Never);
    let nothing = |action| Wish {
        expected: Expected::Nothing,
        ..set(action)
    };
    let wishes = [
        set(plan("a")),
        nothing(plan("b")),
        set(plan("c")),
        clear("user_id:1"),
        clear("user_id:1"),
        nothing(plan("d")),
    ];
    let outcomes = overrides.change(wishes.to_vec()).await.unwrap();
    let action = |it: &Override| it.setting.action.clone();
    let told = outcomes.iter().map(|outcome| match outcome {
        Outcome::Set { before, after } => (before.as_ref().map(previous), Some(action(after))),
        Outcome::Cleared { before, .. } => (Some(previous(before)), None),
        Outcome::Conflict(current) => (current.as_ref().map(action), current.as_ref().map(action)),
        _ => (None, None),
    });
    let told: Vec<_> = told.collect();
    let [a, c, d] = ["a", "c", "d"].map(|name| Some(plan(name)));
    assert_eq!(
        told,
        [
            (None, a.clone()),
            (a.clone(), a.clone()),
            (a, c.clone()),
            (c, None),
            (None, None),
            (None, d),
        ]
    );
    assert_eq!(overrides.list().len(), 1);
}

fn previous(it: &Previous) -> OverrideAction {
    match it {
        Previous::Override(it) => it.setting.action.clone(),
        other => panic!("{other:?}"),
    }
}

/// One that has ended is none for any condition, though its record may still be there.
pub(crate) async fn one_that_ended_is_none(overrides: &Arc<Overrides>) {
    let mut versions = Vec::new();
    for name in ["user_id:1", "user_id:2", "user_id:3", "user_id:4"] {
        let short = Ends::After(Duration::from_millis(100));
        let outcome = change(overrides, wish(name, Block, short)).await;
        let Outcome::Set { after, .. } = outcome else {
            panic!("{outcome:?}");
        };
        versions.push(after.version);
    }
    // The store knows when: this gateway may be ahead of it.
    let ask = Wish {
        expected: Expected::Version(versions[3]),
        ..wish("user_id:4", Block, Ends::At(1))
    };
    until("the last ends", async || {
        change(overrides, ask.clone()).await == Outcome::Conflict(None)
    })
    .await;
    let expecting = |name: &str, expected| Wish {
        expected,
        ..wish(name, Exempt, Ends::Never)
    };
    let stale = expecting("user_id:1", Expected::Version(versions[0]));
    assert_eq!(change(overrides, stale).await, Outcome::Conflict(None));
    let outcome = change(overrides, expecting("user_id:2", Expected::Nothing)).await;
    assert!(
        matches!(outcome, Outcome::Set { before: None, .. }),
        "{outcome:?}"
    );
    let outcome = change(overrides, clear("user_id:3")).await;
    assert_eq!(outcome, Outcome::Nothing);
}

/// One that has ended when its change is answered was set.
pub(crate) async fn one_that_ends_at_once_is_set(overrides: &Arc<Overrides>) {
    let short = wish("user_id:1", Block, Ends::After(Duration::from_micros(1)));
    let outcome = change(overrides, short).await;
    let Outcome::Set {
        before: None,
        after,
    } = outcome
    else {
        panic!("{outcome:?}");
    };
    assert_eq!(after.ends, Some(after.version + 1));
}

/// Returns how many scripts Redis has run.
pub(crate) async fn scripts(server: &RedisServer) -> u64 {
    let stats = server.command(&["INFO", "commandstats"]).await;
    let stats = stats.as_str().lines();
    let line = stats.filter_map(|line| line.strip_prefix("cmdstat_eval:calls="));
    let calls = line.filter_map(|line| line.split(',').next()?.parse::<u64>().ok());
    calls.sum()
}

/// Writes to Redis as a gateway does: each of `words` is a name, a condition, an end and a content. Returns the answer of the script.
pub(crate) async fn write(server: &RedisServer, words: [&str; 4]) -> Reply {
    let script = include_str!("../../../../lua/override.lua");
    let versions = format!("{HASH}:versions");
    let head = ["EVAL", script, "2", HASH, &versions];
    let bounds = [
        "9007199254740991",
        "0",
        "9000",
        "9000",
        "9000000000",
        "100000",
    ];
    server.command(&[&head[..], &bounds, &words].concat()).await
}
