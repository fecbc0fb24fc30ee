//! Tests of the shares of servers, and of marks.

use super::*;

/// Returns the preferred server of each of many requests. Each server has the last byte of its address and a weight.
fn preferred(servers: &[(u8, f64)]) -> Vec<u8> {
    let seed = |last| seed(([192, 0, 2, last], 80).into());
    let prefers = |number: u32| {
        let request = hash(format!("client-{number}").as_bytes());
        let scored = servers
            .iter()
            .map(|(last, weight)| (*last, score(request, seed(*last), *weight)));
        let best = scored.max_by(|(_, one), (_, other)| one.total_cmp(other));
        best.unwrap().0
    };
    (0..20_000).map(prefers).collect()
}

fn share(preferred: &[u8], last: u8) -> f64 {
    let count = preferred.iter().filter(|server| **server == last).count();
    count as f64 / preferred.len() as f64
}

#[test]
fn shares_are_as_large_as_weights() {
    let even = preferred(&[(1, 1.0), (2, 1.0), (3, 1.0), (4, 1.0)]);
    for last in 1..=4 {
        assert!((share(&even, last) - 0.25).abs() < 0.02, "{last}");
    }
    let uneven = preferred(&[(1, 100.0), (2, 300.0)]);
    assert!((share(&uneven, 2) - 0.75).abs() < 0.02);
}

#[test]
fn a_server_that_leaves_or_comes_moves_its_share_alone() {
    let all = preferred(&[(1, 1.0), (2, 1.0), (3, 1.0), (4, 1.0)]);
    let without = preferred(&[(1, 1.0), (2, 1.0), (4, 1.0)]);
    let mut gained = [0_usize; 5];
    for (before, after) in all.iter().zip(&without) {
        match before {
            3 => gained[usize::from(*after)] += 1,
            _ => assert_eq!(before, after),
        }
    }
    // The other servers share the requests of the missing server.
    let left = all.iter().filter(|server| **server == 3).count();
    for last in [1, 2, 4] {
        assert!(gained[last].abs_diff(left / 3) < left / 20, "{gained:?}");
    }
    // A larger weight moves requests only to the server with this weight.
    let heavier = preferred(&[(1, 1.0), (2, 1.0), (3, 1.0), (4, 2.0)]);
    let moved = all.iter().zip(&heavier).filter(|(one, other)| one != other);
    assert!(moved.clone().all(|(_, after)| *after == 4));
    let share = moved.count() as f64 / all.len() as f64;
    assert!((share - 0.15).abs() < 0.02, "{share}");
}

/// The hash is fixed, so gateways of two versions, or on two machines, prefer the same server.
#[test]
fn the_hash_is_fixed() {
    let affinity = Affinity::of(b"api_key:acme");
    let preferred = preferred(&[(1, 1.0), (2, 1.0), (3, 1.0), (4, 1.0)]);
    assert_eq!(preferred[..10], [4, 2, 3, 1, 2, 1, 4, 3, 2, 2]);
    assert_eq!(affinity, Affinity::Hash(0xbb5e_a04d_4974_ebb4));
}

#[test]
fn a_mark_depends_on_address_and_secret() {
    let address: SocketAddr = "192.0.2.1:80".parse().unwrap();
    let mark = MarkKey::new("a secret").mark(address);
    let text = mark.to_string();
    assert_eq!(
        (text.len(), ServerMark::read(text.as_bytes())),
        (24, Some(mark))
    );
    assert_ne!(mark, MarkKey::new("another").mark(address));
    assert_ne!(
        mark,
        MarkKey::new("a secret").mark("192.0.2.1:81".parse().unwrap())
    );
    for no_mark in ["", "192.0.2.1:80", "+1+1+1+1+1+1+1+1+1+1+1+1", &text[1..]] {
        assert_eq!(ServerMark::read(no_mark.as_bytes()), None, "{no_mark}");
    }
    assert_eq!(format!("{:?}", MarkKey::new("a secret")), "MarkKey(***)");
}
