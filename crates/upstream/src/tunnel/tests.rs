use tokio::io::{DuplexStream, duplex};
use tokio::task::JoinHandle;

use super::*;

const IDLE: Duration = Duration::from_secs(300);
const DRAIN: Duration = Duration::from_secs(120);
const LATEST: Duration = Duration::from_secs(100);

struct Bench {
    client: DuplexStream,
    upstream: DuplexStream,
    stop: watch::Sender<bool>,
    tunnel: JoinHandle<()>,
}

/// Opens a tunnel with room for 64 bytes at each of its ends.
fn open() -> Bench {
    open_for(Some(DRAIN))
}

/// Opens a tunnel like [`open`], with this drain time.
fn open_for(drain: Option<Duration>) -> Bench {
    let (client, mut near) = duplex(64);
    let (upstream, mut far) = duplex(64);
    let (stop, stopped) = watch::channel(false);
    Bench {
        client,
        upstream,
        stop,
        tunnel: tokio::spawn(async move { carry(&mut near, &mut far, IDLE, drain, stopped).await }),
    }
}

impl Bench {
    async fn says(&mut self, words: &[u8; 4]) {
        let mut heard = [0; 4];
        self.client.write_all(words).await.unwrap();
        self.upstream.read_exact(&mut heard).await.unwrap();
        assert_eq!(&heard, words);
        self.upstream.write_all(&heard).await.unwrap();
        self.client.read_exact(&mut heard).await.unwrap();
        assert_eq!(&heard, words);
    }

    /// Waits until both sides see the end, and closes both. Returns the time at which they saw the end.
    async fn ends(mut self) -> Instant {
        let mut rest = Vec::new();
        self.client.read_to_end(&mut rest).await.unwrap();
        self.upstream.read_to_end(&mut rest).await.unwrap();
        assert!(rest.is_empty(), "{rest:?}");
        let seen = Instant::now();
        drop((self.client, self.upstream));
        self.tunnel.await.unwrap();
        seen
    }
}

#[tokio::test(start_paused = true)]
async fn silence_ends_it_and_words_do_not() {
    let mut bench = open();
    for _ in 0..5 {
        tokio::time::sleep(IDLE - Duration::from_secs(1)).await;
        bench.says(b"ping").await;
    }
    let last = Instant::now();
    assert!(bench.ends().await - last >= IDLE);
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_it_in_a_pause() {
    let mut bench = open();
    bench.says(b"ping").await;
    bench.stop.send(true).unwrap();
    let stopped = Instant::now();
    for _ in 0..10 {
        tokio::time::sleep(PAUSE / 2).await;
        bench.says(b"more").await;
    }
    let took = bench.ends().await - stopped;
    assert!(took >= PAUSE * 6 && took < PAUSE * 7, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_stop_does_not_wait_for_a_pause_for_ever() {
    let mut bench = open();
    bench.stop.send(true).unwrap();
    let stopped = Instant::now();
    while stopped.elapsed() < LATEST - PAUSE {
        tokio::time::sleep(PAUSE / 2).await;
        bench.says(b"more").await;
    }
    let chatter = async {
        while bench.client.write_all(b"more").await.is_ok() {
            tokio::time::sleep(PAUSE / 2).await;
            let mut heard = [0; 4];
            if bench.upstream.read_exact(&mut heard).await.is_err() {
                break;
            }
        }
    };
    chatter.await;
    let took = stopped.elapsed();
    assert!(took >= LATEST && took < LATEST + LINGER + PAUSE, "{took:?}");
    bench.tunnel.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_stop_without_a_bound_waits_for_a_pause() {
    let mut bench = open_for(None);
    bench.stop.send(true).unwrap();
    let stopped = Instant::now();
    while stopped.elapsed() < 10 * DRAIN {
        tokio::time::sleep(PAUSE / 2).await;
        bench.says(b"more").await;
    }
    bench.ends().await;
}

#[tokio::test(start_paused = true)]
async fn one_side_may_close_and_go_on_listening() {
    let mut bench = open();
    bench.client.write_all(b"last").await.unwrap();
    bench.client.shutdown().await.unwrap();
    let mut heard = Vec::new();
    bench.upstream.read_to_end(&mut heard).await.unwrap();
    assert_eq!(heard, b"last");
    bench.upstream.write_all(b"then").await.unwrap();
    drop(bench.upstream);
    heard.clear();
    bench.client.read_to_end(&mut heard).await.unwrap();
    assert_eq!(heard, b"then");
    bench.tunnel.await.unwrap();
}

/// If one side does not read, the tunnel takes no more bytes from the other side than both ends have room for.
#[tokio::test(start_paused = true)]
async fn whoever_is_slow_slows_the_other_down() {
    let mut bench = open();
    let mut sent = 0;
    let part = [b'x'; 64];
    let longest = Duration::from_secs(5);
    while let Ok(written) = timeout(longest, bench.client.write(&part)).await {
        sent += written.unwrap();
        assert!(sent < 64 << 10, "it takes everything");
    }
    let mut heard = vec![0; sent];
    bench.upstream.read_exact(&mut heard).await.unwrap();
    bench.says(b"ping").await;
}

/// A side that never closes is cut off.
#[tokio::test(start_paused = true)]
async fn an_end_waits_for_nobody() {
    let bench = open();
    bench.stop.send(true).unwrap();
    let stopped = Instant::now();
    bench.tunnel.await.unwrap();
    let took = stopped.elapsed();
    assert!(took <= PAUSE + 2 * LAST_LINGER, "{took:?}");
    drop((bench.client, bench.upstream));
}
