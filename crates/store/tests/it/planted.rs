//! Huge values under limiter keys, planted or left over: no script reads more than its limit needs.

use std::time::Duration;

use tidegate_core::Concurrency;
use tidegate_store::{Limit, Mode, OnFailure, Outcome, Via};
use tidegate_testkit::RedisServer;

use crate::support::{
    HOUR, PATIENCE, SECOND, calls, charge, code_of, connect, error_of, every_algorithm,
    exact_store, lendable, limit, memory_store, now, quiet_window, redis_store, wait_for,
};
use crate::synced_kit::{Gateway, has_told, quotas};

const MANY: u64 = 20_000;

async fn run(server: &RedisServer, text: &str, key: &str, numbers: &[u64]) {
    let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
    let mut words = vec!["EVAL", text, "1", key];
    words.extend(numbers.iter().map(String::as_str));
    let reply = server.command(&words).await;
    assert!(!reply.is_error(), "{reply:?}");
}

/// So many holds that lapse at one time.
async fn plant_holds(server: &RedisServer, key: &str, lapse: u64, members: u64) {
    let text = "for i = 1, ARGV[2] do redis.call('ZADD', KEYS[1], ARGV[1], i .. '/1*1') end \
                redis.call('ZADD', KEYS[1], -ARGV[2], 'held')";
    run(server, text, key, &[lapse, members]).await;
}

/// How many commands Redis has run, those of scripts included.
async fn commands(server: &RedisServer) -> u64 {
    calls(server).await.values().sum()
}

/// What a number of `INFO` says.
async fn info(server: &RedisServer, name: &str) -> u64 {
    let reply = server.command(&["INFO", "memory"]).await;
    let line = reply
        .as_str()
        .lines()
        .find_map(|line| line.strip_prefix(name));
    line.unwrap()
        .trim_start_matches(':')
        .trim()
        .parse()
        .unwrap()
}

#[tokio::test]
async fn strings_of_megabytes_are_not_read() {
    let server = RedisServer::start().await;
    let store = exact_store(&server).await;
    let quotas = every_algorithm(5, HOUR);
    for (client, nth) in (0..).zip([0, 1, 2, 4, 5]) {
        let limit = Limit::new("huge", quotas[nth], OnFailure::Closed);
        let charge = charge(&limit, client, 1);
        let key = charge.redis_key("tidegate");
        // That begins as one does that is in order.
        server.command(&["SET", &key, "1 1 1"]).await;
        server.command(&["SETRANGE", &key, "50000000", "1"]).await;
        let decision = store.decide(&[charge]).await;
        let error = error_of(&decision);
        let code = error.as_ref().and_then(code_of);
        assert_eq!(code, Some("ERR"), "{}", limit.quota().algorithm());
        let held = info(&server, "used_memory_vm_total").await;
        assert!(held < 10_000_000, "{held} bytes of scripts");
        server.command(&["DEL", &key]).await;
    }
}

/// Reservations and places of many units are kept as one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn places_are_counted_and_not_listed() {
    let server = RedisServer::start().await;
    let redis = redis_store(&server).await;
    let concurrent = limit("places", Concurrency::new(1_000_000, HOUR).unwrap());
    let bucket = every_algorithm(1_000_000, quiet_window())[0];
    let reserving = limit("reserved", bucket).reserving(HOUR);
    for store in [memory_store(), redis] {
        for limit in [&concurrent, &reserving] {
            for (cost, left) in [(600_000, 400_000), (1, 399_999), (399_999, 0)] {
                let decision = store.decide(&[charge(limit, 1, cost)]).await;
                assert_eq!(decision.outcome, Outcome::Admitted);
                let told = decision.verdicts[0].unwrap().remaining;
                assert!(told.abs_diff(left) < 10, "{told} of {left}");
            }
            let refused = store.decide(&[charge(limit, 1, 1_000)]).await;
            assert_eq!(refused.outcome, Outcome::Refused);
            let settling = limit.lease().is_some() && limit.reserves().is_some();
            assert_eq!(refused.verdicts[0].unwrap().settling, settling);
        }
    }
    for limit in [&concurrent, &reserving] {
        let key = format!("{}:held", charge(limit, 1, 1).redis_key("tidegate"));
        let members = server.command(&["ZCARD", &key]).await.as_int();
        assert_eq!(members, 4, "three holds, and their sum");
    }
}

#[tokio::test]
async fn many_members_are_not_all_moved_or_dropped_at_once() {
    let server = RedisServer::start().await;
    let store = exact_store(&server).await;
    let ten = limit("ten", Concurrency::new(10, HOUR).unwrap());
    let reserving = limit("reserved", every_algorithm(10, HOUR)[2]).reserving(HOUR);
    for limit in [&ten, &reserving] {
        // For the script's text.
        store.decide(&[charge(limit, 0, 1)]).await;
        let times = [
            // More than are dropped at once count until the next call.
            ("lapsed", now() - HOUR, Outcome::Refused),
            ("live", now() + HOUR / 2, Outcome::Refused),
            ("ahead", now() + 24 * HOUR, Outcome::Refused),
        ];
        for (client, (what, lapse, outcome)) in (1..).zip(times) {
            let charge = charge(limit, client, 1);
            let key = format!("{}:held", charge.redis_key("tidegate"));
            plant_holds(&server, &key, lapse, MANY).await;
            let before = commands(&server).await;
            let decision = store.decide(&[charge]).await;
            assert_eq!(error_of(&decision), None);
            assert_eq!(decision.outcome, outcome, "{what}");
            let commands = commands(&server).await - before;
            assert!(commands < 1_100, "{what}: {commands} commands");
            let members = server.command(&["ZCARD", &key]).await.as_int() as u64;
            assert!(
                members >= MANY - 1_001,
                "{what}: {members} members are left"
            );
        }
    }
}

/// What lapsed of many units is not counted any more.
#[tokio::test]
async fn places_of_many_units_lapse() {
    let server = RedisServer::start().await;
    let store = exact_store(&server).await;
    let short = limit("short", Concurrency::new(100, SECOND / 10).unwrap());
    for _ in 0..3 {
        assert_eq!(
            store.decide(&[charge(&short, 1, 60)]).await.outcome,
            Outcome::Admitted
        );
        wait_for("places that lapse", async || {
            let decision = store.decide(&[charge(&short, 1, 60)]).await;
            (decision.outcome == Outcome::Admitted).then_some(())
        })
        .await;
        wait_for("all of them", async || {
            let decision = store.decide(&[charge(&short, 1, 100)]).await;
            (decision.outcome == Outcome::Admitted).then_some(())
        })
        .await;
        wait_for("none of them", async || {
            let looked = store.peek(&[charge(&short, 1, 1)]).await.unwrap();
            (looked[0].verdict.remaining == 100).then_some(())
        })
        .await;
    }
}

/// Other places keep the key alive meanwhile.
#[tokio::test]
async fn places_of_many_units_lapse_beside_others() {
    let server = RedisServer::start().await;
    let store = exact_store(&server).await;
    let short = limit("short", Concurrency::new(100, SECOND).unwrap());
    let takes = async |cost| store.decide(&[charge(&short, 1, cost)]).await.outcome;
    for nth in 0..3 {
        wait_for(&format!("room for 60, {nth}"), async || {
            let outcome = takes(60).await;
            takes(1).await;
            (outcome == Outcome::Admitted).then_some(())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hash_of_more_slices_than_gateways_is_not_read() {
    let server = RedisServer::start().await;
    let store = connect(&server.url(), PATIENCE).await;
    for quota in lendable(30, HOUR) {
        let leased = limit("leased", quota).in_mode(Mode::Leased);
        let charge = charge(&leased, 1, 1);
        let slices = format!("{}:slices", charge.redis_key("tidegate"));
        let text =
            "for i = 1, ARGV[1] do redis.call('HSET', KEYS[1], i, '1 1 0 1 ' .. ARGV[2]) end";
        run(&server, text, &slices, &[2_000, now() + HOUR]).await;
        let decision = store.decide(&[charge]).await;
        assert_eq!(decision.via, Via::Fallback);
        assert_eq!(calls(&server).await.get("hgetall"), None);
        // It is gone after a while, by itself.
        let left = server.command(&["PTTL", &slices]).await.as_int();
        assert!((1..=60_000).contains(&left), "{left} ms");
        server.command(&["FLUSHALL"]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hash_of_more_notes_than_gateways_is_not_read_whole() {
    let server = RedisServer::start().await;
    for quota in quotas(1_000, quiet_window()) {
        let gateway = Gateway::start(&server.url(), Duration::from_millis(10)).await;
        let synced = limit("synced", quota).in_mode(Mode::Synced);
        let charge = charge(&synced, 1, 1);
        let notes = format!("{}:counted", charge.redis_key("tidegate"));
        let text = "for i = 1, ARGV[1] do redis.call('HSET', KEYS[1], i, '1 1 0 0 1') end";
        run(&server, text, &notes, &[MANY]).await;
        gateway.decide(&[charge]).await;
        has_told(&gateway).await;
        assert_eq!(gateway.left_in_redis(charge).await, Some(999));
        gateway.reset(&[charge]).await.unwrap();
        assert_eq!(gateway.left_in_redis(charge).await, Some(1_000));
        let all = calls(&server).await;
        assert_eq!(all.get("hgetall"), None, "{all:?}");
        assert!(all["hset"] < MANY + 2_000);
        server.command(&["FLUSHALL"]).await;
        server.command(&["CONFIG", "RESETSTAT"]).await;
    }
}

/// A set of gateways that nobody wrote: those that called in lately are counted, and no others.
#[tokio::test]
async fn gateways_are_counted_by_when_they_called() {
    let server = RedisServer::start().await;
    let store = exact_store(&server).await;
    let key = "tidegate:gateways";
    for time in [1, now() + 24 * HOUR] {
        let text = "for i = 1, ARGV[2] do redis.call('ZADD', KEYS[1], ARGV[1], ARGV[1] .. i) end";
        run(&server, text, key, &[time, 5_000]).await;
    }
    assert_eq!(store.heartbeat().await, Ok(1));
    let members = server.command(&["ZCARD", key]).await.as_int();
    assert_eq!(members, 10_001 - 1_000);
}
