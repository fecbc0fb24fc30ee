use super::*;
use crate::{Client, End, Port, RawClient, RawUpstream, RedisServer, Upstream};

const SHORT: Duration = Duration::from_millis(100);
const LONG: Duration = Duration::from_secs(10);

#[tokio::test]
async fn delays_stalls_and_drips_act_on_an_open_connection() {
    let redis = RedisServer::start().await;
    let proxy = FaultProxy::start(redis.addr());
    let mut connection = crate::RedisConnection::open(proxy.addr()).await.unwrap();
    connection.command(&["PING"]).await.unwrap();

    let took = Instant::now();
    for way in Way::BOTH {
        proxy.delay(way, SHORT);
    }
    connection.command(&["PING"]).await.unwrap();
    assert!(
        (2 * SHORT..10 * SHORT).contains(&took.elapsed()),
        "{:?}",
        took.elapsed()
    );
    proxy.heal();

    for way in Way::BOTH {
        proxy.stall(way, true);
        let mut asking = Box::pin(connection.command(&["INCR", "key"]));
        tokio::time::timeout(SHORT, &mut asking).await.unwrap_err();
        let counted = if way == Way::ToServer {
            redis.command(&["GET", "key"]).await.is_nil()
        } else {
            true
        };
        proxy.heal();
        assert!(asking.await.unwrap().as_int() > 0 && counted);
    }
    assert_eq!(redis.command(&["GET", "key"]).await.as_int(), 2);

    let took = Instant::now();
    proxy.drip(Way::ToClient, Some(Duration::from_millis(10)));
    connection.command(&["PING"]).await.unwrap(); // +PONG and CRLF: seven bytes
    assert!(took.elapsed() >= Duration::from_millis(70));
}

#[tokio::test]
async fn cuts_resets_and_refusals_look_like_themselves() {
    let upstream = RawUpstream::answering("x");
    let proxy = FaultProxy::start(upstream.addr());
    for (accident, end) in [
        (FaultProxy::cut as fn(&_), End::Closed),
        (FaultProxy::reset, End::Reset),
    ] {
        let mut client = RawClient::connect(proxy.addr()).await;
        client.send("GET / HTTP/1.1\r\n\r\n").await.unwrap();
        assert_eq!(
            client.read_to_close(3 * SHORT).await,
            (b"x".to_vec(), End::Deadline)
        );
        accident(&proxy);
        assert_eq!(client.read_to_close(LONG).await, (vec![], end));
    }

    let upstream = Upstream::ok();
    let proxy = FaultProxy::start(upstream.addr());
    let (open, late) = (Client::new(proxy.addr()), Client::new(proxy.addr()));
    open.get("/").await;
    proxy.refuse().await;
    let refused = || http::Request::get("/").body(crate::body::empty()).unwrap();
    late.try_request(refused()).await.unwrap_err();
    open.get("/").await;
    proxy.accept();
    late.get("/").await;
    assert_eq!(
        (open.connections(), proxy.connections(), upstream.count()),
        (1, 2, 3)
    );

    let nobody = FaultProxy::start(Port::reserve().addr());
    assert_eq!(
        RawClient::connect(nobody.addr())
            .await
            .read_to_close(LONG)
            .await
            .1,
        End::Reset
    );
}

#[tokio::test]
async fn a_close_in_one_direction_passes_and_the_answer_still_comes_back() {
    let upstream = RawUpstream::answering("x");
    let proxy = FaultProxy::start(upstream.addr());
    proxy.delay(Way::ToClient, SHORT);
    let mut client = RawClient::connect(proxy.addr()).await;
    client.send("GET / HTTP/1.1\r\n\r\n").await.unwrap();
    client.finish().await;
    assert_eq!(
        client.read_to_close(LONG).await,
        (b"x".to_vec(), End::Closed)
    );
}

#[tokio::test]
async fn a_stranded_connection_says_nothing_and_a_new_one_is_well() {
    let redis = RedisServer::start().await;
    let proxy = FaultProxy::start(redis.addr());
    let mut connection = crate::RedisConnection::open(proxy.addr()).await.unwrap();
    connection.command(&["PING"]).await.unwrap();
    proxy.strand();
    tokio::time::timeout(SHORT, connection.command(&["PING"]))
        .await
        .unwrap_err();
    let mut connection = crate::RedisConnection::open(proxy.addr()).await.unwrap();
    connection.command(&["PING"]).await.unwrap();
}
