//! Compares estimates with the numbers of clients that were added, and tests that clients leave after a minute.

use foldhash::quality::RandomState;
use std::hash::BuildHasher as _;

use super::*;

/// Returns the hash of the client with this number, as [`ClientMetrics`](super::super::ClientMetrics) computes it for IPv4 addresses.
fn hash(seed: &RandomState, client: u32) -> u64 {
    seed.hash_one(3 << 32 | u64::from(client))
}

#[test]
fn an_estimate_is_within_five_standard_errors() {
    for number in [0, 1, 2, 10, 100, 500, 1_000, 1_500, 10_000, 100_000] {
        for _ in 0..20 {
            let (clients, seed) = (SeenClients::default(), RandomState::default());
            // Each client comes twice, and counts once.
            for client in (0..number).chain(0..number) {
                clients.add(hash(&seed, client));
            }
            let estimate = clients.turn() as f64;
            let number = f64::from(number);
            // Clients of one register count once. Two of ten clients meet in one of 512 registers with a probability of 0.09.
            let met = (number - 1.0).clamp(0.0, 3.0);
            let bound = (number * 5.0 * 0.046).max(met);
            assert!(
                (estimate - number).abs() <= bound,
                "{estimate} for {number}"
            );
        }
    }
}

#[test]
fn a_client_counts_for_a_minute() {
    let (clients, seed) = (SeenClients::default(), RandomState::default());
    clients.add(hash(&seed, 1));
    let counts: Vec<u64> = (0..8).map(|_| clients.turn()).collect();
    assert_eq!(counts, [1, 1, 1, 1, 1, 1, 0, 0]);
}
