//! Bounds how many bytes of answers the kernel keeps for a client that reads nothing (`TCP_NOTSENT_LOWAT`).
//!
//! Without a bound this grows to megabytes a connection. Two thousand slow readers then use up the socket memory of the machine, and
//! other clients lose packets.

/// The most unsent bytes. Bytes that are on their way do not count, so a fast client is not slowed down.
const MOST: u32 = 128 * 1024;

/// Sets the bound for a connection, or for all that a listener accepts later: they inherit it.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub fn bound_unsent<'a, S>(socket: &'a S)
where
    socket2::SockRef<'a>: From<&'a S>,
{
    // An error leaves the kernel's default.
    let _ = socket2::SockRef::from(socket).set_tcp_notsent_lowat(MOST);
}

/// Other systems keep less by themselves, or have no such option.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub const fn bound_unsent<S>(_: &S) {}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;
    use tokio::net::{TcpListener, TcpStream};

    #[tokio::test]
    async fn connections_have_it_from_their_listener() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        bound_unsent(&listener);
        let address = listener.local_addr().unwrap();
        let (_client, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (socket, _) = accepted.unwrap();
        let bound = socket2::SockRef::from(&socket).tcp_notsent_lowat();
        assert_eq!(bound.unwrap(), MOST);
    }
}
