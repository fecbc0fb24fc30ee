//! Each algorithm through the gateway: the same traffic gets the same answers on both stores, and times that are true.

use std::time::Duration;

use tidegate_testkit::Answer;

use crate::kit::{Bench, HOUR, MONTH, Timed, after, epoch, number, on_both_stores, shown, told};

/// Five requests to one limit of three.
async fn five(store: &str, limit: &str) -> Vec<Timed> {
    let bench = Bench::of_limit(store, limit).await;
    let mut answers = Vec::new();
    for _ in 0..5 {
        answers.push(Timed::get(&bench.client, "/").await);
    }
    let told: Vec<_> = answers.iter().map(|timed| told(&timed.answer)).collect();
    let expected = [(200, 2), (200, 1), (200, 0), (429, 0), (429, 0)];
    assert_eq!(told, expected.map(|(status, left)| shown(status, 3, left)));
    assert_eq!(bench.upstream.count(), 3, "a refused request was forwarded");
    for admitted in &answers[..3] {
        assert_eq!(admitted.answer.header("retry-after"), None);
    }
    bench.stop().await;
    answers
}

/// A bucket pays one request off per hour, from the first on.
async fn bucket(store: &str, limit: &str) {
    let answers = five(store, limit).await;
    let first = &answers[0].at;
    for (timed, charged) in answers.iter().zip([1, 2, 3, 3, 3]) {
        timed.has("x-ratelimit-reset", after(first, charged * HOUR));
    }
    for refused in &answers[3..] {
        refused.may_come_back_at(after(first, HOUR));
    }
}

async fn token_bucket(store: &str) {
    bucket(store, "token_bucket: { capacity: 3, refill: 1/h }").await;
}

async fn leaky_bucket(store: &str) {
    bucket(
        store,
        "leaky_bucket: { queue: 3, drain: 1/h, nodelay: true }",
    )
    .await;
}

async fn fixed_window(store: &str) {
    let end = (epoch() / MONTH + 1) * MONTH;
    let answers = five(store, "fixed_window: { limit: 3, window: 31d }").await;
    for timed in &answers {
        timed.has("x-ratelimit-reset", end..=end);
    }
    for refused in &answers[3..] {
        refused.may_come_back_at(end..=end);
    }
}

async fn sliding_window_log(store: &str) {
    let answers = five(store, "sliding_window_log: { limit: 3, window: 1h }").await;
    for (timed, last) in answers.iter().zip([0, 1, 2, 2, 2]) {
        timed.has("x-ratelimit-reset", after(&answers[last].at, HOUR));
    }
    for refused in &answers[3..] {
        refused.may_come_back_at(after(&answers[0].at, HOUR));
    }
}

async fn sliding_window_counter(store: &str) {
    let end = (epoch() / MONTH + 1) * MONTH;
    let answers = five(store, "sliding_window_counter: { limit: 3, window: 31d }").await;
    for timed in &answers {
        timed.has("x-ratelimit-reset", end + MONTH..=end + MONTH);
    }
    // Of the three, two still count when a third of the next window has passed.
    let room = end + MONTH / 3;
    for refused in &answers[3..] {
        refused.may_come_back_at(room..=room);
    }
}

#[tokio::test]
async fn a_token_bucket() {
    on_both_stores(token_bucket).await;
}

#[tokio::test]
async fn a_leaky_bucket() {
    on_both_stores(leaky_bucket).await;
}

#[tokio::test]
async fn a_fixed_window() {
    on_both_stores(fixed_window).await;
}

#[tokio::test]
async fn a_sliding_window_log() {
    on_both_stores(sliding_window_log).await;
}

#[tokio::test]
async fn a_sliding_window_counter() {
    on_both_stores(sliding_window_counter).await;
}

/// Requests until one is refused, then one more when it said that one may come back.
async fn keeps_its_word(store: &str, limit: &str) {
    let bench = Bench::of_limit(store, limit).await;
    let refused = async || -> Answer {
        // Time goes by, so more than the two of the burst may pass; a hundred may not.
        for _ in 0..100 {
            let answer = bench.client.get("/").await;
            if answer.status == 429 {
                return answer;
            }
        }
        panic!("{limit} refuses nothing");
    };
    let wait = number(&refused().await, "retry-after").unwrap();
    assert!(
        (1..=2).contains(&wait),
        "{limit}: told to wait for {wait} s"
    );
    tokio::time::sleep(Duration::from_secs(wait)).await;
    let answer = bench.client.get("/").await;
    assert_eq!(answer.status, 200, "{limit}: refused after waiting as told");
    bench.stop().await;
}

async fn all_keep_their_word(store: &str) {
    // All at once, because each takes its second or two.
    tokio::join!(
        keeps_its_word(store, "token_bucket: { capacity: 2, refill: 1/s }"),
        keeps_its_word(
            store,
            "leaky_bucket: { queue: 2, drain: 1/s, nodelay: true }"
        ),
        keeps_its_word(store, "fixed_window: { limit: 2, window: 1s }"),
        keeps_its_word(store, "sliding_window_log: { limit: 2, window: 1s }"),
        keeps_its_word(store, "sliding_window_counter: { limit: 2, window: 1s }"),
    );
}

#[tokio::test]
async fn whoever_waits_as_told_is_admitted() {
    on_both_stores(all_keep_their_word).await;
}
