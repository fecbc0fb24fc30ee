use super::*;

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
    (name.into(), Subject { tag, rest })
}

#[tokio::test]
async fn first_come_first_served_and_whoever_leaves_makes_room() {
    let lines = Lines::default();
    let [first, second, third] =
        [1, 2, 4].map(|cost| lines.join(key("a", 1), cost, heard()).unwrap());
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
    let fourth = lines.join(key("a", 1), 1, heard()).unwrap();
    assert!(third.is_head() && !fourth.is_head());
    drop(third);
    fourth.first().await;
}

#[test]
fn each_limit_and_each_client_has_a_line() {
    let lines = Lines::default();
    let places =
        [key("a", 1), key("a", 2), key("b", 1)].map(|key| lines.join(key, 1, heard()).unwrap());
    assert!(places.iter().all(Place::is_head));
    assert_eq!(lines.waiting(), 3);
    assert!(lines.heard(&key("a", 2)).is_some());
    assert!(lines.heard(&key("b", 2)).is_none());
}

#[test]
fn a_line_is_bounded_and_so_are_all_together() {
    let lines = Lines::default();
    let mut places: Vec<Place> = (0..MOST_IN_A_LINE)
        .map(|_| lines.join(key("a", 1), 1, heard()).unwrap())
        .collect();
    assert!(lines.join(key("a", 1), 1, heard()).is_none());
    // Nobody sits where nobody could stand.
    assert_eq!(lines.waiting(), MOST_IN_A_LINE);
    for client in 2.. {
        let Some(place) = lines.join(key("b", client), 1, heard()) else {
            break;
        };
        places.push(place);
        let more = (1..MOST_IN_A_LINE).map_while(|_| lines.join(key("b", client), 1, heard()));
        places.extend(more);
    }
    assert_eq!(
        (lines.waiting(), places.len()),
        (MOST_WAITING, MOST_WAITING)
    );
    assert!(lines.seat().is_none());
    places.pop();
    assert!(lines.seat().is_some());
}

#[test]
fn nothing_is_left_of_those_who_have_gone() {
    let lines = Lines::default();
    let places: Vec<Place> = (0..200)
        .map(|client| lines.join(key("a", client), 1, heard()).unwrap())
        .collect();
    assert!(lines.0.lock().lines.capacity() >= 200);
    drop(places);
    let waiting = lines.0.lock();
    assert_eq!((waiting.seats, waiting.lines.capacity()), (0, 0));
}

#[test]
fn what_was_heard_is_told_with_what_is_left_of_it() {
    let lines = Lines::default();
    let place = lines.join(key("a", 1), 1, heard()).unwrap();
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
