//! The script that exchanges counts, call by call: what is lost, repeated, late or of another window.

use tidegate_testkit::{RedisConnection, RedisServer, Reply};

use crate::support::{DAY, now, quiet_window};

const HEAD: &str = "#!lua\nlocal algorithms = {}\n";
const EXCHANGE: &str = include_str!("../../../../lua/exchange.lua");
const FORGET: &str = include_str!("../../../../lua/forget.lua");
const RECORD: &str = include_str!("../../../../lua/record.lua");
const FIXED: &str = concat!(
    include_str!("../../../../lua/window.lua"),
    include_str!("../../../../lua/fixed_window.lua"),
);
const SLIDING: &str = concat!(
    include_str!("../../../../lua/window_pair.lua"),
    include_str!("../../../../lua/sliding_window_counter.lua"),
);

/// One key of one algorithm at one Redis, whom any gateway may tell something.
struct Key {
    redis: RedisConnection,
    name: String,
    is_sliding: bool,
    window: u64,
    script: String,
}

/// What a gateway tells: the number of the call, when the window started, and the counts of it and of the one before.
type Told = (u64, u64, u64, u64);

impl Key {
    async fn both(server: &RedisServer) -> [Self; 2] {
        [
            Self::open(server, false).await,
            Self::open(server, true).await,
        ]
    }

    async fn open(server: &RedisServer, is_sliding: bool) -> Self {
        let algorithm = if is_sliding { SLIDING } else { FIXED };
        Self {
            redis: server.connect().await,
            name: format!("key-{is_sliding}"),
            is_sliding,
            window: quiet_window(),
            script: format!("{HEAD}{RECORD}{algorithm}{EXCHANGE}"),
        }
    }

    /// When the current window started.
    fn start(&self) -> u64 {
        now() / self.window * self.window
    }

    async fn command(&mut self, words: &[&str]) -> Reply {
        let reply = self.redis.command(words).await.unwrap();
        assert!(!reply.is_error(), "{reply:?}");
        reply
    }

    async fn ask(&mut self, deadline: u64, gateway: &str, told: Told) -> Vec<i64> {
        let (number, start, current, previous) = told;
        let mut words: Vec<String> = ["EVAL", &self.script, "2", &self.name]
            .map(Into::into)
            .into();
        words.extend([format!("{}:counted", self.name), deadline.to_string()]);
        words.extend([gateway.to_owned(), number.to_string()]);
        let algorithm = if self.is_sliding {
            "sliding_window_counter"
        } else {
            "fixed_window"
        };
        words.push(algorithm.to_owned());
        words.extend([start, current, previous, 1_000, self.window].map(|it| it.to_string()));
        if self.is_sliding {
            words.push("1000".to_owned());
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let reply = self.command(&words).await;
        reply.as_array().iter().map(Reply::as_int).collect()
    }

    /// Tells something; the totals of this window and the one before, and what of them is this gateway's.
    async fn tell(&mut self, gateway: &str, told: Told) -> [i64; 4] {
        let reply = self.ask(now() + DAY, gateway, told).await;
        assert_eq!((reply.len(), reply[1]), (7, 1));
        assert_eq!(reply[2], self.start() as i64);
        reply[3..].try_into().unwrap()
    }

    async fn state(&mut self) -> Option<String> {
        let name = self.name.clone();
        let value = self.command(&["GET", &name]).await;
        (!value.is_nil()).then(|| value.as_str().to_owned())
    }
}

#[tokio::test]
async fn what_is_told_twice_counts_once() {
    let server = RedisServer::start().await;
    for mut key in Key::both(&server).await {
        let start = key.start();
        assert_eq!(key.tell("a", (1, start, 5, 0)).await, [5, 0, 5, 0]);
        // Its answer was lost, so it is told again; and then somebody plays it back.
        assert_eq!(key.tell("a", (2, start, 5, 0)).await, [5, 0, 5, 0]);
        assert_eq!(key.tell("a", (2, start, 5, 0)).await, [5, 0, 5, 0]);
        assert_eq!(key.tell("b", (1, start, 7, 0)).await, [12, 0, 7, 0]);
        // One that was lost is made good by the next.
        assert_eq!(key.tell("a", (9, start, 8, 0)).await, [15, 0, 8, 0]);
        // One that was overtaken says nothing, whatever it says.
        assert_eq!(key.tell("a", (8, start, 6, 0)).await, [15, 0, 8, 0]);
        assert_eq!(key.tell("a", (3, start, 99, 0)).await, [15, 0, 8, 0]);
        // What was given back meanwhile goes.
        assert_eq!(key.tell("a", (10, start, 6, 0)).await, [13, 0, 6, 0]);
        // One that has counted nothing leaves no note.
        assert_eq!(key.tell("c", (1, start, 0, 0)).await, [13, 0, 0, 0]);
        let counted = format!("{}:counted", key.name);
        assert_eq!(key.command(&["HLEN", &counted]).await.as_int(), 2);
    }
}

#[tokio::test]
async fn one_that_comes_late_changes_nothing() {
    let server = RedisServer::start().await;
    for mut key in Key::both(&server).await {
        let start = key.start();
        let reply = key.ask(now() - 1, "a", (1, start, 5, 0)).await;
        assert_eq!((reply.len(), reply[1]), (2, -1));
        assert_eq!(key.state().await, None);
    }
}

#[tokio::test]
async fn a_state_that_is_lost_alone_is_not_told_again_but_with_its_notes_it_is() {
    let server = RedisServer::start().await;
    for mut key in Key::both(&server).await {
        let (start, name) = (key.start(), key.name.clone());
        for (number, gateway) in (1..).zip(["a", "b"]) {
            key.tell(gateway, (number, start, 50, 0)).await;
        }
        // Of the state alone, as whoever has lost it.
        key.command(&["DEL", &name]).await;
        assert_eq!(key.tell("a", (5, start, 50, 0)).await, [0, 0, 50, 0]);
        // What is given back after it was forgotten takes nothing from what is counted since.
        assert_eq!(key.tell("a", (6, start, 49, 0)).await, [0, 0, 49, 0]);
        assert_eq!(key.tell("b", (6, start, 53, 0)).await, [3, 0, 53, 0]);
        assert_eq!(key.tell("a", (7, start, 47, 0)).await, [1, 0, 47, 0]);
        key.command(&["DEL", &name, &format!("{name}:counted")])
            .await;
        assert_eq!(key.tell("a", (8, start, 47, 0)).await, [47, 0, 47, 0]);
        assert_eq!(key.tell("b", (8, start, 53, 0)).await, [100, 0, 53, 0]);
    }
}

/// What was counted before a gateway hears of a reset is forgotten, whether it was told or not.
#[tokio::test]
async fn after_a_reset_each_gateway_goes_on_from_what_it_tells_next() {
    let server = RedisServer::start().await;
    for mut key in Key::both(&server).await {
        let (start, name) = (key.start(), key.name.clone());
        for gateway in ["a", "b"] {
            key.tell(gateway, (1, start, 50, 10)).await;
        }
        let counted = format!("{name}:counted");
        let deadline = u64::MAX >> 11;
        let deadline = deadline.to_string();
        let words = [
            "EVAL",
            FORGET,
            "2",
            &name,
            &counted,
            &deadline,
            "1000000000",
        ];
        let reply = key.command(&words).await;
        assert_eq!(reply.as_array()[1].as_int(), 1);
        assert_eq!(key.state().await, None);
        let before = if key.is_sliding { 10 } else { 0 };
        assert_eq!(key.tell("a", (2, start, 55, 10)).await, [0, 0, 55, before]);
        assert_eq!(key.tell("a", (3, start, 56, 10)).await, [1, 0, 56, before]);
        assert_eq!(key.tell("c", (1, start, 4, 0)).await, [5, 0, 4, 0]);
        assert_eq!(key.tell("b", (9, start, 70, 10)).await, [5, 0, 70, before]);
        assert_eq!(key.tell("b", (10, start, 71, 10)).await, [6, 0, 71, before]);
    }
}

/// The gateways' clocks turn a moment before or after Redis's.
#[tokio::test]
async fn counts_of_other_windows() {
    let server = RedisServer::start().await;
    for mut key in Key::both(&server).await {
        let (start, window) = (key.start(), key.window);
        let previous = |count| if key.is_sliding { count } else { 0 };
        let (twenty, thirty) = (previous(20), previous(30));
        // One that has not turned yet: its current window is the previous one.
        let told = key.tell("a", (1, start - window, 20, 9)).await;
        assert_eq!(told, [0, twenty, 0, twenty]);
        assert_eq!(
            key.tell("a", (2, start, 4, 30)).await,
            [4, thirty, 4, thirty]
        );
        // One that has turned already: what it has counted there is told again when the time has come.
        assert_eq!(
            key.tell("a", (3, start + window, 8, 6)).await,
            [6, thirty, 6, thirty]
        );
        for far in [start + 2 * window, start - 2 * window, 0] {
            assert_eq!(
                key.tell("a", (4, far, 90, 80)).await,
                [6, thirty, 6, thirty]
            );
        }
        assert_eq!(
            key.tell("a", (5, start, 7, 30)).await,
            [7, thirty, 7, thirty]
        );
    }
}

#[tokio::test]
async fn notes_of_gateways_that_are_gone_go_too() {
    let server = RedisServer::start().await;
    for mut key in Key::both(&server).await {
        let (start, window) = (key.start(), key.window);
        let counted = format!("{}:counted", key.name);
        for (gateway, age) in [("gone", 2), ("long-gone", 9), ("silent", 1)] {
            let note = format!("1 {} 5 5 1", start - age * window);
            key.command(&["HSET", &counted, gateway, &note]).await;
        }
        key.tell("a", (1, start, 4, 0)).await;
        let left = key.command(&["HKEYS", &counted]).await;
        let mut left: Vec<&str> = left.as_array().iter().map(Reply::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["a", "silent"]);
    }
}

#[tokio::test]
async fn a_clock_that_stepped_back_by_more_than_a_window_moves_all() {
    let server = RedisServer::start().await;
    for mut key in Key::both(&server).await {
        let (start, ahead) = (key.start(), key.start() + 3 * key.window);
        let (name, counted) = (key.name.clone(), format!("{}:counted", key.name));
        let state = if key.is_sliding { "40 0" } else { "40" };
        key.command(&["SET", &name, &format!("{ahead} {state}")])
            .await;
        for gateway in ["a", "b"] {
            let note = format!("7 {ahead} 20 0 1");
            key.command(&["HSET", &counted, gateway, &note]).await;
        }
        assert_eq!(key.tell("a", (8, start, 25, 0)).await, [45, 0, 25, 0]);
        assert_eq!(key.tell("b", (8, start, 20, 0)).await, [45, 0, 20, 0]);
    }
}

/// What was added is forgotten before, or with, the note that it was.
#[tokio::test]
async fn notes_live_as_long_as_what_they_are_of() {
    let server = RedisServer::start().await;
    for mut key in Key::both(&server).await {
        let (start, window, name) = (key.start(), key.window, key.name.clone());
        let counted = format!("{name}:counted");
        for told in [(1, start, 4, 0), (2, start, 0, 30), (3, start, 0, 0)] {
            key.tell("a", told).await;
            key.tell("b", (told.0, start, 1, 0)).await;
            let ends = |ttl: Reply| ttl.as_int();
            let state = ends(key.command(&["PEXPIRETIME", &name]).await);
            let notes = ends(key.command(&["PEXPIRETIME", &counted]).await);
            let windows = if key.is_sliding { 2 } else { 1 };
            let last = ((start + windows * window) / 1_000) as i64;
            assert!(notes >= state && state > 0, "{notes} {state}");
            assert!((last..last + 10_000).contains(&notes), "{notes} {last}");
        }
    }
}
