use tidegate_core::FixedWindow;
use tidegate_store::{Limit, OnFailure};

use super::*;
use crate::{Per, Rule, RuleCharge};

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

fn last_refusal() -> LastRefusal {
    LastRefusal {
        verdict: VERDICT,
        now: 1_000_000_000,
        came: Instant::now(),
    }
}

fn key(name: &str, client: u8) -> QueueKey {
    let (tag, rest) = ([client; 16], [0; 16]);
    QueueKey {
        limit: name.into(),
        key: Key { tag, rest },
        is_queue: false,
    }
}

#[tokio::test]
async fn first_come_first_served_and_whoever_leaves_makes_room() {
    let queues = WaitQueues::default();
    let [first, second, third] = [1, 2, 4].map(|cost| {
        queues
            .join(key("a", 1), HOME, cost, last_refusal())
            .unwrap()
    });
    assert_eq!(
        [&first, &second, &third].map(|waiter| waiter.ahead),
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
    // A request that comes now waits behind the third request.
    let fourth = queues.join(key("a", 1), HOME, 1, last_refusal()).unwrap();
    assert!(third.is_head() && !fourth.is_head());
    assert_eq!(fourth.ahead, 4, "only the third asks for anything");
    drop(third);
    fourth.first().await;
}

/// Answers of the store may arrive in another order than the calls were made.
#[tokio::test]
async fn in_a_queue_the_turns_decide_and_not_who_came_first() {
    let queues = WaitQueues::default();
    let queue = || QueueKey {
        is_queue: true,
        ..key("a", 1)
    };
    let [second, first] = [20, 10].map(|turn| {
        queues
            .join_queue(queue(), queues.permit(HOME).unwrap(), turn)
            .unwrap()
    });
    assert!(first.is_head() && !second.is_head());
    // The limit's wait queue for refused requests is separate.
    let other = queues.join(key("a", 1), HOME, 1, last_refusal()).unwrap();
    assert!(other.is_head());
    drop(first);
    second.first().await;
    // A `queue` can have more waiting requests than other wait queues.
    let permits = (0..2 * MAX_IN_QUEUE).map_while(|_| queues.permit(HOME));
    let places = permits.map_while(|permit| queues.join_queue(queue(), permit, 30));
    assert_eq!(places.collect::<Vec<_>>().len(), 2 * MAX_IN_QUEUE);
}

#[tokio::test]
async fn who_follows_one_that_was_late_keeps_half_the_distance() {
    let queues = WaitQueues::default();
    let queue = || QueueKey {
        is_queue: true,
        ..key("a", 1)
    };
    let hour = Duration::from_secs(3_600);
    let turns = [0, 1, 2].map(|nth| nth * 3_600_000_000);
    let [first, second, third] = turns.map(|turn| {
        queues
            .join_queue(queue(), queues.permit(HOME).unwrap(), turn)
            .unwrap()
    });
    assert_eq!(first.distance(), Duration::ZERO);
    first.go();
    let left = second.distance();
    assert!(left <= hour / 2 && left > hour / 3, "{left:?}");
    // A request that left before its turn does not count: the third request keeps its distance to the first.
    drop(second);
    let left = third.distance();
    assert!(left <= hour && left > hour * 2 / 3, "{left:?}");
}

#[test]
fn each_limit_and_each_client_has_a_line() {
    let queues = WaitQueues::default();
    let places = [key("a", 1), key("a", 2), key("b", 1)]
        .map(|key| queues.join(key, HOME, 1, last_refusal()).unwrap());
    assert!(places.iter().all(Waiter::is_head));
    assert_eq!(queues.waiting(), 3);
    assert!(queues.last_refusal(&key("a", 2)).is_some());
    assert!(queues.last_refusal(&key("b", 2)).is_none());
}

#[test]
fn a_line_is_bounded_and_the_one_of_unsettled_reservations_more_so() {
    let queues = WaitQueues::default();
    let settling = LastRefusal {
        verdict: Verdict {
            settling: true,
            ..VERDICT
        },
        ..last_refusal()
    };
    for (client, last_refusal, most) in [
        (1, last_refusal(), MAX_IN_QUEUE),
        (2, settling, MAX_SETTLING),
    ] {
        let before = queues.waiting();
        let places: Vec<Waiter> = (0..most)
            .map(|_| {
                queues
                    .join(key("a", client), HOME, 1, last_refusal)
                    .unwrap()
            })
            .collect();
        assert!(
            queues
                .join(key("a", client), HOME, 1, last_refusal)
                .is_none()
        );
        // A refused request takes no permit.
        assert_eq!(queues.waiting(), before + most);
        drop(places);
    }
}

/// Without shares per address, a few hostile addresses would take all permits.
#[test]
fn honest_requests_find_seats_beside_hostile_ones_that_take_what_they_can_get() {
    let queues = WaitQueues::default();
    let mut places = Vec::new();
    for hostile in 2..102 {
        // An address may use any number of keys.
        for nth in 0..20 {
            let limit = format!("limit-{hostile}");
            let queue = || queues.join(key(&limit, nth), address(hostile), 1, last_refusal());
            places.extend((0..MAX_IN_QUEUE).map_while(|_| queue()));
        }
    }
    assert!(queues.waiting() >= MAX_WAITING / 2);
    for honest in 102..502 {
        let queue = || queues.join(key("honest", 1), address(honest), 1, last_refusal());
        places.push(queue().expect("a seat"));
    }
}

#[test]
fn nothing_is_left_of_those_who_have_gone() {
    let queues = WaitQueues::default();
    let places: Vec<Waiter> = (0..200)
        .map(|client| {
            queues
                .join(key("a", client), HOME, 1, last_refusal())
                .unwrap()
        })
        .collect();
    let capacity = || -> usize {
        let shards = queues.0.shards.iter();
        shards.map(|shard| shard.lock().capacity()).sum()
    };
    assert!(capacity() >= 200);
    drop(places);
    assert_eq!((queues.waiting(), capacity()), (0, 0));
}

#[test]
fn what_was_heard_is_told_with_what_is_left_of_it() {
    let queues = WaitQueues::default();
    let waiter = queues.join(key("a", 1), HOME, 1, last_refusal()).unwrap();
    let later = LastRefusal {
        came: Instant::now() - Duration::from_secs(1),
        ..last_refusal()
    };
    waiter.note_refusal(later);
    let last_refusal = queues.last_refusal(&key("a", 1)).unwrap();
    let left = last_refusal.left();
    assert!(left <= Duration::from_secs(1), "{left:?}");
    // The requests that wait before this request make its wait longer.
    let (verdict, now) = last_refusal.refusal(Duration::from_secs(3));
    assert_eq!(verdict.retry_after, 3_000_000);
    assert!(verdict.reset <= 4_000_000 && verdict.reset >= 3_000_000);
    assert!(now >= last_refusal.now + 1_000_000);
    let (verdict, _) = last_refusal.refusal(Duration::ZERO);
    assert_eq!(verdict.retry_after, 1, "a refusal has a time to come back");
}

/// Requests of one plan do not wait for the budget of another plan.
#[test]
fn each_plan_has_a_queue() {
    let quota = |limit| FixedWindow::new(limit, 1_000_000).unwrap();
    let free = Arc::new(Limit::new("a", quota(1), OnFailure::Local));
    let changed = Arc::new(free.with_quota(quota(2)));
    let gold = Arc::new(changed.as_ref().clone().of_plan("gold"));
    let rule = Rule::new(free.clone(), [Per::Ip]);
    let queue = |limit| {
        let charge = RuleCharge {
            index: 0,
            rule: &rule,
            limit,
            key: key("a", 1).key,
            cost: 1,
            origin: None,
        };
        charge.wait_key()
    };
    assert!(queue(&free) == queue(&changed));
    assert!(queue(&free) != queue(&gold));
}
