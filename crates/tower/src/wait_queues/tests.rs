use super::*;

const HOME: IpAddr = address(1);

const fn address(nth: u16) -> IpAddr {
    let [high, low] = nth.to_be_bytes();
    IpAddr::V4(std::net::Ipv4Addr::new(10, 0, high, low))
}

const VERDICT: Verdict = Verdict {
    allowed: false,
    settling: false,
    remaining: 0,
    reset: 5_000_000,
    retry_after: 2_000_000,
    delay: 0,
};

fn heard() -> Heard {
    Heard {
        verdict: VERDICT,
        now: 1_000_000_000,
        came: Instant::now(),
    }
}

fn key(name: &str, client: u8) -> Key {
    let (tag, rest) = ([client; 16], [0; 16]);
    Key {
        limit: name.into(),
        subject: Subject { tag, rest },
        is_queue: false,
    }
}

#[tokio::test]
async fn first_come_first_served_and_whoever_leaves_makes_room() {
    let lines = Lines::default();
    let [first, second, third] =
        [1, 2, 4].map(|cost| lines.join(key("a", 1), HOME, cost, heard()).unwrap());
    assert_eq!(
        [&first, &second, &third].map(|place| place.ahead),
        [0, 1, 3]
    );
    assert!(first.is_head() && !second.is_head() && !third.is_head());
    first.first().await;
    let waiting = tokio::spawn(async move {
        third.first().await;
        third
    });
    drop(second);
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished(), "who left was not the head");
    drop(first);
    let third = waiting.await.unwrap();
    assert!(third.is_head());
    // Who comes now stands behind the third.
    let fourth = lines.join(key("a", 1), HOME, 1, heard()).unwrap();
    assert!(third.is_head() && !fourth.is_head());
    assert_eq!(fourth.ahead, 4, "only the third asks for anything");
    drop(third);
    fourth.first().await;
}

/// Answers of the store may overtake each other on their way to those who asked.
#[tokio::test]
async fn in_a_queue_the_turns_decide_and_not_who_came_first() {
    let lines = Lines::default();
    let queue = || Key {
        is_queue: true,
        ..key("a", 1)
    };
    let [second, first] = [20, 10].map(|turn| {
        lines
            .join_queue(queue(), lines.seat(HOME).unwrap(), turn)
            .unwrap()
    });
    assert!(first.is_head() && !second.is_head());
    // The same limit's other line is another.
    let other = lines.join(key("a", 1), HOME, 1, heard()).unwrap();
    assert!(other.is_head());
    drop(first);
    second.first().await;
    // No line is as long as a queue may be.
    let seats = (0..2 * MOST_IN_A_LINE).map_while(|_| lines.seat(HOME));
    let places = seats.map_while(|seat| lines.join_queue(queue(), seat, 30));
    assert_eq!(places.collect::<Vec<_>>().len(), 2 * MOST_IN_A_LINE);
}

#[tokio::test]
async fn who_follows_one_that_was_late_keeps_half_the_distance() {
    let lines = Lines::default();
    let queue = || Key {
        is_queue: true,
        ..key("a", 1)
    };
    let hour = Duration::from_secs(3_600);
    let turns = [0, 1, 2].map(|nth| nth * 3_600_000_000);
    let [first, second, third] = turns.map(|turn| {
        lines
            .join_queue(queue(), lines.seat(HOME).unwrap(), turn)
            .unwrap()
    });
    assert_eq!(first.distance(), Duration::ZERO);
    first.go();
    let left = second.distance();
    assert!(left <= hour / 2 && left > hour / 3, "{left:?}");
    // One that leaves is nobody to keep a distance from.
    drop(second);
    let left = third.distance();
    assert!(left <= hour && left > hour * 2 / 3, "{left:?}");
}

#[test]
fn each_limit_and_each_client_has_a_line() {
    let lines = Lines::default();
    let places = [key("a", 1), key("a", 2), key("b", 1)]
        .map(|key| lines.join(key, HOME, 1, heard()).unwrap());
    assert!(places.iter().all(Place::is_head));
    assert_eq!(lines.waiting(), 3);
    assert!(lines.heard(&key("a", 2)).is_some());
    assert!(lines.heard(&key("b", 2)).is_none());
}

#[test]
fn a_line_is_bounded_and_the_one_of_unsettled_reservations_more_so() {
    let lines = Lines::default();
    let settling = Heard {
        verdict: Verdict {
            settling: true,
            ..VERDICT
        },
        ..heard()
    };
    for (client, heard, most) in [(1, heard(), MOST_IN_A_LINE), (2, settling, MOST_SETTLING)] {
        let before = lines.waiting();
        let places: Vec<Place> = (0..most)
            .map(|_| lines.join(key("a", client), HOME, 1, heard).unwrap())
            .collect();
        assert!(lines.join(key("a", client), HOME, 1, heard).is_none());
        // Nobody sits where nobody could stand.
        assert_eq!(lines.waiting(), before + most);
        drop(places);
    }
}

/// 21 addresses took all seats that there are.
#[test]
fn honest_requests_find_seats_beside_hostile_ones_that_take_what_they_can_get() {
    let lines = Lines::default();
    let mut places = Vec::new();
    for hostile in 2..102 {
        // As many keys as it likes.
        for nth in 0..20 {
            let limit = format!("limit-{hostile}");
            let line = || lines.join(key(&limit, nth), address(hostile), 1, heard());
            places.extend((0..MOST_IN_A_LINE).map_while(|_| line()));
        }
    }
    assert!(lines.waiting() >= MOST_WAITING / 2);
    for honest in 102..502 {
        let line = || lines.join(key("honest", 1), address(honest), 1, heard());
        places.push(line().expect("a seat"));
    }
}

#[test]
fn nothing_is_left_of_those_who_have_gone() {
    let lines = Lines::default();
    let places: Vec<Place> = (0..200)
        .map(|client| lines.join(key("a", client), HOME, 1, heard()).unwrap())
        .collect();
    let capacity = || -> usize {
        let shards = lines.0.shards.iter();
        shards.map(|shard| shard.lock().capacity()).sum()
    };
    assert!(capacity() >= 200);
    drop(places);
    assert_eq!((lines.waiting(), capacity()), (0, 0));
}

#[test]
fn what_was_heard_is_told_with_what_is_left_of_it() {
    let lines = Lines::default();
    let place = lines.join(key("a", 1), HOME, 1, heard()).unwrap();
    let later = Heard {
        came: Instant::now() - Duration::from_secs(1),
        ..heard()
    };
    place.hear(later);
    let heard = lines.heard(&key("a", 1)).unwrap();
    let left = heard.left();
    assert!(left <= Duration::from_secs(1), "{left:?}");
    // As long again for those who stand before.
    let (verdict, now) = heard.refusal(Duration::from_secs(3));
    assert_eq!(verdict.retry_after, 3_000_000);
    assert!(verdict.reset <= 4_000_000 && verdict.reset >= 3_000_000);
    assert!(now >= heard.now + 1_000_000);
    let (verdict, _) = heard.refusal(Duration::ZERO);
    assert_eq!(verdict.retry_after, 1, "a refusal has a time to come back");
}
