//! Tests which request gets a place, and which request waits.

use super::*;
use crate::settings::Balance;
use crate::settings::tests::server as server_at;
use tokio::task::JoinHandle;

const LONG: Duration = Duration::from_secs(3_600);

fn places(servers: usize, most: usize, share: u32) -> Arc<Places> {
    let server = |nth: usize| server_at(&format!("127.0.0.1:{}", nth + 1));
    let settings = UpstreamSettings {
        servers: (0..servers).map(server).collect(),
        max_connections: Some(most),
        max_connections_per_ip: Share(share),
        max_waiting: 100,
        ..UpstreamSettings::alone(server(0))
    };
    let selector = Arc::new(Selector::new(Balance::RoundRobin, None));
    let discovery = Arc::new(Discovery::new(&settings));
    let places = Places::new(selector, discovery, &settings, Gauge::default());
    Arc::new(places)
}

fn address(last: u8) -> IpAddr {
    [198, 51, 100, last].into()
}

async fn take(places: &Arc<Places>, from: u8) -> Placed {
    places.take(address(from), &[], None, LONG).await.unwrap()
}

/// Takes all places that an address gets without waiting.
async fn all(places: &Arc<Places>, from: u8) -> Vec<Placed> {
    let mut taken = Vec::new();
    while let Ok(placed) = places.take(address(from), &[], None, Duration::ZERO).await {
        taken.push(placed);
    }
    taken
}

/// Starts a request that waits for a place.
async fn waiting(places: &Arc<Places>, from: u8) -> JoinHandle<Placed> {
    let before = places.shown.get();
    let own = places.clone();
    let task = tokio::spawn(async move { take(&own, from).await });
    while places.shown.get() == before {
        tokio::task::yield_now().await;
    }
    task
}

#[tokio::test]
async fn one_address_gets_its_share_and_the_rest_is_shared_by_the_others() {
    for (share, shares) in [(75, [75, 18, 6]), (50, [50, 25, 12]), (100, [100, 0, 0])] {
        let places = places(2, 50, share);
        let mut taken = Vec::new();
        for (address, expected) in (0..).zip(shares) {
            let own = all(&places, address).await;
            assert!(own.len().abs_diff(expected) <= 1, "{share}: {}", own.len());
            taken.push(own);
        }
        drop(taken);
        assert!(places.state.lock().addresses.is_empty());
        assert_eq!(all(&places, 9).await.len(), shares[0]);
    }
}

#[tokio::test]
async fn few_places_are_given_whole() {
    for (most, expected) in [(1, 1), (2, 2), (3, 3), (4, 3), (8, 6)] {
        let places = places(1, most, 75);
        assert_eq!(all(&places, 0).await.len(), expected);
        assert_eq!(Share(75).leaves_some(most), expected < most);
    }
}

#[tokio::test]
async fn a_free_place_goes_to_the_address_that_holds_fewest_and_then_to_the_first() {
    let places = places(1, 3, 100);
    let (first, second) = (take(&places, 1).await, take(&places, 1).await);
    let third = take(&places, 2).await;
    let greedy = waiting(&places, 1).await;
    let slow = waiting(&places, 2).await;
    let newcomer = waiting(&places, 3).await;
    drop(first);
    let newcomer = newcomer.await.unwrap();
    assert!(!greedy.is_finished() && !slow.is_finished());
    // Both addresses hold one place.
    drop(newcomer);
    let greedy = greedy.await.unwrap();
    assert!(!slow.is_finished());
    drop(third);
    drop((slow.await.unwrap(), greedy, second));
    assert_eq!(places.shown.get(), 0);
}

#[tokio::test]
async fn a_request_that_leaves_takes_no_place() {
    let places = places(1, 1, 100);
    let only = take(&places, 1).await;
    let gone = waiting(&places, 2).await;
    let stays = waiting(&places, 3).await;
    gone.abort();
    assert!(gone.await.is_err());
    assert_eq!(places.shown.get(), 1);
    drop(only);
    drop(stays.await.unwrap());
    let state = places.state.lock();
    assert!(state.addresses.is_empty() && state.turns.is_empty() && state.waiting == 0);
}

/// A place that is given to a request at the moment when the request leaves goes to the next request.
#[tokio::test]
async fn a_place_is_not_lost_with_its_request() {
    let places = places(1, 1, 100);
    let only = take(&places, 1).await;
    let gone = waiting(&places, 2).await;
    let stays = waiting(&places, 3).await;
    drop(only);
    gone.abort();
    drop(stays.await.unwrap());
    assert!(places.state.lock().addresses.is_empty());
}

#[tokio::test]
async fn a_request_waits_for_servers_that_it_has_not_tried() {
    let places = places(2, 1, 100);
    let (one, other) = (take(&places, 1).await, take(&places, 1).await);
    let tried = [one.0.clone()];
    let own = places.clone();
    let retry =
        tokio::spawn(async move { own.take(address(2), &tried, None, LONG).await.unwrap() });
    while places.shown.get() == 0 {
        tokio::task::yield_now().await;
    }
    let next = waiting(&places, 3).await;
    let (first, second) = (one.0.clone(), other.0.clone());
    drop(one);
    assert!(Arc::ptr_eq(&next.await.unwrap().0, &first));
    drop(other);
    assert!(Arc::ptr_eq(&retry.await.unwrap().0, &second));
    let none = places.take(address(2), &[first, second], None, LONG).await;
    assert_eq!(none.unwrap_err(), NoPlace::NoServer);
}

#[tokio::test]
async fn the_queue_is_shared_as_well() {
    let places = places(1, 1, 75);
    let _only = take(&places, 1).await;
    let mut queue = Vec::new();
    for _ in 0..75 {
        queue.push(waiting(&places, 1).await);
    }
    let more = places.take(address(1), &[], None, LONG).await;
    assert_eq!(more.unwrap_err(), NoPlace::Busy);
    queue.push(waiting(&places, 2).await);
    for waiting in queue {
        waiting.abort();
    }
}
