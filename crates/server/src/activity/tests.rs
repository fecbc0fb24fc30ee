use super::*;
use tidegate_net::tcp::Sent;

const HEADER: Duration = Duration::from_secs(10);
const IDLE: Duration = Duration::from_secs(75);

fn goes_on(activity: &Activity) -> bool {
    matches!(activity.watch(), Watch::Until(_))
}

#[tokio::test(start_paused = true)]
async fn the_first_head_must_come_in_time() {
    let activity = Activity::new(HEADER, IDLE);
    tokio::time::advance(Duration::from_secs(9)).await;
    assert!(goes_on(&activity));
    tokio::time::advance(Duration::from_secs(2)).await;
    assert_eq!(activity.watch(), Watch::Expired);
}

#[tokio::test(start_paused = true)]
async fn between_requests_a_connection_may_idle_but_not_dawdle() {
    let activity = Activity::new(HEADER, IDLE);
    let request = activity.request(false);
    tokio::time::advance(Duration::from_secs(1000)).await;
    assert!(goes_on(&activity), "a request takes as long as it takes");
    drop(request);
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(activity.watch(), Watch::Rest);
    activity.read();
    tokio::time::advance(Duration::from_secs(9)).await;
    activity.read();
    tokio::time::advance(Duration::from_secs(2)).await;
    assert_eq!(
        activity.watch(),
        Watch::Expired,
        "more bytes do not buy a head more time"
    );
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_rests_unless_something_is_left_to_be_done() {
    let later = || tokio::time::advance(REST);
    let activity = Activity::new(HEADER, IDLE);
    let request = activity.request(false);
    later().await;
    assert!(goes_on(&activity), "in a request");
    drop(request);
    assert!(goes_on(&activity), "so soon");
    later().await;
    assert_eq!(activity.watch(), Watch::Rest);
    let until = activity.idle_until() - Instant::now();
    assert!(until <= IDLE - REST + Duration::from_millis(1), "{until:?}");
    activity.write_stalls.set();
    assert!(goes_on(&activity), "unsent");
    activity.write_stalls.put(false);
    assert_eq!(activity.watch(), Watch::Rest);
    let request = activity.request(true);
    let body = request.body();
    drop(request);
    later().await;
    assert!(goes_on(&activity), "in a body");
    body.ended();
    later().await;
    assert_eq!(activity.watch(), Watch::Rest);
    activity.read();
    assert!(goes_on(&activity), "in a head");
    drop(activity.request(false));
    activity.drains.set();
    later().await;
    assert!(goes_on(&activity), "at the end");
    let closed = Activity::new(HEADER, IDLE);
    drop(closed.request(false));
    closed.is_closed.set();
    later().await;
    assert!(goes_on(&closed), "closed");
    let frames = Activity::new(HEADER, IDLE);
    frames.multiplexes();
    later().await;
    assert!(goes_on(&frames), "in HTTP/2");
}

#[tokio::test(start_paused = true)]
async fn the_rest_of_a_body_is_no_head() {
    let activity = Activity::new(HEADER, IDLE);
    let request = activity.request(true);
    let body = request.body();
    drop(request);
    for _ in 0..100 {
        activity.read();
        tokio::time::advance(Duration::from_secs(9)).await;
        assert!(goes_on(&activity));
        assert_eq!(activity.quiet_for(), Duration::ZERO);
    }
    body.ended();
    tokio::time::advance(Duration::from_secs(74)).await;
    assert_eq!(activity.watch(), Watch::Rest, "idle since its end");
    activity.read();
    tokio::time::advance(HEADER).await;
    assert_eq!(activity.watch(), Watch::Expired, "a head");
}

#[tokio::test(start_paused = true)]
async fn what_comes_after_an_unread_body_may_be_a_head() {
    let activity = Activity::new(HEADER, IDLE);
    let request = activity.request(true);
    drop(request.body());
    drop(request);
    activity.read();
    tokio::time::advance(HEADER).await;
    assert_eq!(activity.watch(), Watch::Expired);
}

#[tokio::test(start_paused = true)]
async fn frames_of_http_2_are_no_head() {
    let activity = Activity::new(HEADER, IDLE);
    activity.multiplexes();
    activity.read();
    tokio::time::advance(Duration::from_secs(60)).await;
    assert!(goes_on(&activity));
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_ends() {
    let activity = Activity::new(HEADER, IDLE);
    drop(activity.request(false));
    tokio::time::advance(Duration::from_secs(76)).await;
    assert_eq!(activity.watch(), Watch::Expired);
}

#[tokio::test(start_paused = true)]
async fn a_connection_whose_client_takes_the_last_answer_is_not_idle() {
    let activity = Activity::new(HEADER, IDLE);
    activity.multiplexes();
    drop(activity.request(false));
    let sent = |acknowledged, is_waiting| Sent {
        acknowledged,
        is_waiting,
        is_gone: false,
    };
    for bytes in 1..=3 {
        tokio::time::advance(IDLE - HEADER).await;
        activity.sent(sent(bytes, true));
    }
    tokio::time::advance(IDLE - HEADER).await;
    assert!(goes_on(&activity));
    activity.sent(sent(3, true));
    activity.sent(sent(4, false));
    tokio::time::advance(HEADER).await;
    assert_eq!(
        activity.watch(),
        Watch::Expired,
        "it takes no more, or has all"
    );
}

#[tokio::test]
async fn answers_of_one_connection_have_the_lowest_rate_of_all() {
    let least = |rate, seconds| LeastRate {
        rate: NonZeroU64::new(rate).unwrap(),
        after: Duration::from_secs(seconds),
    };
    let activity = Activity::new(HEADER, IDLE);
    activity.answers_at(Some(least(100, 9)));
    activity.answers_at(Some(least(200, 3)));
    assert_eq!(activity.least_rate(), Some(least(200, 3)), "HTTP/1");
    let activity = Activity::new(HEADER, IDLE);
    activity.multiplexes();
    assert_eq!(activity.least_rate(), None, "no answer yet");
    activity.answers_at(Some(least(100, 3)));
    activity.answers_at(Some(least(200, 9)));
    assert_eq!(activity.least_rate(), Some(least(100, 9)));
    activity.answers_at(None);
    activity.answers_at(Some(least(200, 9)));
    assert_eq!(activity.least_rate(), None);
}
