//! Numbers that overrides give to limits at run time: the words, ranges and messages of a plan's quota.

use super::*;

const LIMITS: &str = "
limits:
  it: { fixed_window: { limit: 3, window: 31d } }
  month: { fixed_window: { limit: 5, window: 1mo } }
  bucket: { token_bucket: { capacity: 50, refill: 1/d } }
  queue: { leaky_bucket: { queue: 5, drain: 1/s } }
  log: { sliding_window_log: { limit: 5, window: 1h } }
  counter: { sliding_window_counter: { limit: 5, window: 1h } }
  places: { concurrency: { limit: 4, lease: 20s } }
  costly: { token_bucket: { capacity: 50, refill: 1/d }, cost: 25 }
";

#[test]
fn numbers_of_each_algorithm_are_read() {
    let settings = settings(&with(LIMITS));
    for (limit, text, quota) in [
        ("it", "limit: 9, window: 31d", "limit 9, window 31d"),
        ("it", "window: \"31d\", 'limit': 9", "limit 9, window 31d"),
        (
            "it",
            "limit: 9, window: 31d # } for a day",
            "limit 9, window 31d",
        ),
        (
            "month",
            "limit: 9, window: 1mo",
            "limit 9, window 1mo, zone UTC",
        ),
        (
            "bucket",
            "capacity: 9, refill: 10/s",
            "capacity 9, refill 10/s",
        ),
        ("queue", "queue: 9, drain: 10/m", "queue 9, drain 10/m"),
        (
            "queue",
            "queue: 9, drain: 10/m, nodelay: false",
            "queue 9, drain 10/m",
        ),
        ("log", "limit: 9, window: 1h", "limit 9, window 1h"),
        ("counter", "limit: 9, window: 1h", "limit 9, window 1h"),
        ("places", "limit: 9", "limit 9, lease 20s"),
        (
            "costly",
            "capacity: 25, refill: 1/d",
            "capacity 25, refill 1/d",
        ),
    ] {
        let read = settings.numbers.read(limit, text);
        let read = read.unwrap_or_else(|error| panic!("{limit} {text}: {error}"));
        let read = read.unwrap();
        assert_eq!(
            (read.name(), read.quota().written()),
            (limit, quota.to_owned())
        );
    }
    for text in ["unlimited", " unlimited "] {
        assert!(settings.numbers.read("it", text).unwrap().is_none());
    }
}

#[test]
fn numbers_that_do_not_fit_a_limit_are_refused_in_one_line() {
    let settings = settings(&with(LIMITS));
    let window = "an override can change numbers, but not the window";
    for (limit, text, message) in [
        (
            "ti",
            "limit: 9, window: 31d",
            "there is no limit `ti`; did you mean `it`?; allowed here: bucket, costly, counter, it, log, month, places, queue",
        ),
        ("it", "", "the key `limit` is missing here"),
        ("it", "limit: 9", "the key `window` is missing here"),
        (
            "it",
            "limit: 9, windw: 31d",
            "unknown key `windw`; did you mean `window`?; allowed here: limit, window, zone",
        ),
        (
            "it",
            "9",
            "unknown key `9`; allowed here: limit, window, zone",
        ),
        ("it", "[9]", "expected a single value, found a list"),
        ("it", "{ limit: 9, window: 31d }", ""),
        (
            "it",
            "capacity: 9, refill: 1/s",
            "unknown key `capacity`; allowed here: limit, window, zone",
        ),
        ("it", "limit: 0, window: 31d", "`limit` must be at least 1"),
        (
            "it",
            "limit: -1, window: 31d",
            "a whole number of at least 1",
        ),
        (
            "it",
            "limit: 99999999999999999999, window: 31d",
            "the largest that fits is",
        ),
        (
            "it",
            "limit: 9007199254740992, window: 31d",
            "the largest that fits is",
        ),
        ("it", "limit: 9, window: 1h", window),
        ("it", "limit: 9, window: 1mo", window),
        ("month", "limit: 9, window: 31d", window),
        ("month", "limit: 9, window: 1mo, zone: Asia/Jakarta", window),
        (
            "it",
            "limit: 9, window: 31d }, token_bucket: { capacity: 9, refill: 1/s",
            "more than one algorithm",
        ),
        (
            "it",
            "limit: 9, window: 31d }, limit: 9, extra: { a: b",
            "unknown key",
        ),
        ("it", "limit: 9, window: 31d, limit: 10", "limit"),
        (
            "it",
            "limit: \"${PASSWORD}\", window: 31d",
            "`PASSWORD` is not set",
        ),
        ("it", "limit: &a 9, window: *b", ""),
        (
            "queue",
            "queue: 9, drain: 1/s, nodelay: true",
            "an override can change numbers, but not `nodelay`",
        ),
        (
            "places",
            "limit: 9, lease: 1m",
            "an override can change numbers, but not `lease`",
        ),
        (
            "costly",
            "capacity: 24, refill: 1/d",
            "a cost of 25 never fits",
        ),
    ] {
        let Err(why) = settings.numbers.read(limit, text) else {
            panic!("{limit} {text}");
        };
        assert!(why.contains(message), "{limit} {text}: {why}");
        let of_limit = format!("the numbers for `{limit}`: ");
        assert!(limit == "ti" || why.starts_with(&of_limit), "{why}");
        assert!(!why.contains('\n') && why.len() < 300, "{why}");
        assert!(!why.contains(SECRET), "{why}");
    }
}
