//! How much of its answers the system keeps for a client that takes nothing.
//!
//! Left alone it lets that grow to megabytes a connection. Two thousand slow readers then use up what the machine has for all
//! of its connections, and good clients lose packets.

use tokio::net::TcpListener;

/// The most that has not even been sent, in bytes; what is on its way is not in it, so a fast client is no slower for it.
const MOST: u32 = 128 * 1024;

/// Bounds it for all connections of a listener, which have it from there.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn bound(listener: &TcpListener) {
    // Without it a gateway is as good as others.
    let _ = socket2::SockRef::from(listener).set_tcp_notsent_lowat(MOST);
}

/// Other systems keep less by themselves, or cannot be told.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) const fn bound(_: &TcpListener) {}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;
    use tokio::net::TcpStream;

    #[tokio::test]
    async fn connections_have_it_from_their_listener() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        bound(&listener);
        let address = listener.local_addr().unwrap();
        let (_client, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (socket, _) = accepted.unwrap();
        let bound = socket2::SockRef::from(&socket).tcp_notsent_lowat();
        assert_eq!(bound.unwrap(), MOST);
    }
}
