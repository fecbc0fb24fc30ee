use super::*;
use crate::{RedisConnection, RedisServer, Reply};

const COUNT: [&str; 4] = ["EVAL", "return redis.call('INCR', KEYS[1])", "1", "key"];

async fn count(connection: &mut RedisConnection) -> io::Result<i64> {
    connection.command(&COUNT).await.map(|reply| reply.as_int())
}

#[tokio::test]
async fn a_fault_strikes_the_call_that_it_is_meant_for() {
    let redis = RedisServer::start().await;
    let proxy = RedisProxy::start(redis.addr());
    let ran = [
        (CallFault::Unsent, false),
        (CallFault::HalfSent, false),
        (CallFault::Unanswered, true),
        (CallFault::HalfAnswered, true),
    ];
    let mut counted = 0;
    for (nth, (fault, ran)) in ran.into_iter().enumerate() {
        proxy.strike(1, fault);
        let mut connection = RedisConnection::open(proxy.addr()).await.unwrap();
        counted += 1;
        assert_eq!(count(&mut connection).await.unwrap(), counted);
        // A command that is no script call meets no fault.
        connection.command(&["PING"]).await.unwrap();
        assert_eq!(proxy.struck().len(), nth);
        count(&mut connection).await.unwrap_err();
        assert_eq!(proxy.struck().len(), nth + 1);
        counted += i64::from(ran);
        let value = redis.command(&["GET", "key"]).await.as_int();
        assert_eq!(value, counted, "{fault:?}");
    }
}

#[tokio::test]
async fn replies_come_late_and_are_held_back_and_connections_reset() {
    let redis = RedisServer::start().await;
    let proxy = RedisProxy::start(redis.addr());
    let mut connection = RedisConnection::open(proxy.addr()).await.unwrap();
    let late = Duration::from_millis(50);
    proxy.strike(0, CallFault::AnsweredLate(late));
    let start = tokio::time::Instant::now();
    assert_eq!(count(&mut connection).await.unwrap(), 1);
    assert!(start.elapsed() >= late);
    proxy.strike(0, CallFault::SentLate(late));
    {
        let mut asking = Box::pin(count(&mut connection));
        tokio::time::timeout(late / 2, &mut asking)
            .await
            .unwrap_err();
        assert_eq!(
            redis.command(&["GET", "key"]).await,
            Reply::Bulk("1".into())
        );
        assert_eq!(asking.await.unwrap(), 2);
    }

    proxy.hold(true);
    {
        let mut asking = Box::pin(count(&mut connection));
        tokio::time::timeout(late, &mut asking).await.unwrap_err();
        assert_eq!(
            redis.command(&["GET", "key"]).await,
            Reply::Bulk("2".into())
        );
        proxy.heal();
        assert_eq!(asking.await.unwrap(), 3);
    }
    proxy.reset();
    count(&mut connection).await.unwrap_err();
    proxy.refuse().await;
    RedisConnection::open(proxy.addr()).await.unwrap_err();
    proxy.accept();
    RedisConnection::open(proxy.addr()).await.unwrap();
}

#[test]
fn a_frame_is_whole_or_not_there_yet() {
    let bytes = b"*5\r\n:-7\r\n$4\r\na\r\nb\r\n$-1\r\n*2\r\n+OK\r\n-ERR no\r\n*0\r\n";
    assert_eq!(frame(bytes), Some(bytes.len()));
    assert!((0..bytes.len()).all(|cut| frame(&bytes[..cut]).is_none()));
}
