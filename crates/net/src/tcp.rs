//! Options of TCP sockets, and the number of sent bytes that the peer has acknowledged.

use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};

/// The most unsent bytes in the system's buffer of a connection (`TCP_NOTSENT_LOWAT`). Bytes in transit do not count, so a fast peer is not
/// slowed down.
///
/// Without a bound the buffer grows to megabytes per connection. Two thousand slow readers would use up the machine's socket memory, and
/// the system would drop packets of other clients.
#[cfg(any(target_os = "linux", target_os = "android"))]
const MOST_UNSENT: u32 = 128 * 1024;
/// The silence of a peer after which the system sends keep-alive probes.
const SILENCE: Duration = Duration::from_secs(30);
#[cfg(any(target_os = "linux", target_os = "android"))]
/// The time between two keep-alive probes.
const PROBE_EVERY: Duration = Duration::from_secs(10);
#[cfg(any(target_os = "linux", target_os = "android"))]
/// The number of keep-alive probes without an answer after which the system closes the connection.
const PROBES: u32 = 3;
/// A peer with unacknowledged bytes is gone if it has sent no acknowledgement for this time.
const GONE_AFTER: Duration = Duration::from_secs(60);
/// A peer is gone only after this many consecutive unacknowledged segments. A single segment is not enough, because the system may probe a
/// peer with a full buffer only every two minutes.
const LOST_IN_A_ROW: u8 = 2;

/// Sets the options of a connection, or of a listener, whose connections inherit them.
///
/// With these options the system probes a silent peer, and ends the connection if the peer is gone.
pub fn set_options<'a, S>(socket: &'a S)
where
    SockRef<'a>: From<&'a S>,
{
    let socket = SockRef::from(socket);
    let probes = TcpKeepalive::new().with_time(SILENCE);
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let probes = probes.with_interval(PROBE_EVERY).with_retries(PROBES);
    // If the option cannot be set, the system's default applies.
    let _ = socket.set_tcp_keepalive(&probes);
    // Other systems buffer fewer bytes, or have no such option.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let _ = socket.set_tcp_notsent_lowat(MOST_UNSENT);
}

/// The sending side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The bytes that the peer has acknowledged since the connection began. Includes selectively acknowledged bytes after a lost segment.
    pub acknowledged: u64,
    /// Whether more bytes wait to be sent or acknowledged.
    pub is_waiting: bool,
    /// Whether the peer no longer acknowledges segments, not even window probes.
    pub is_gone: bool,
}

impl Sent {
    fn new(acknowledged: u64, waiting: u32, last_ack: Duration, lost_in_a_row: u8) -> Self {
        Self {
            acknowledged,
            is_waiting: waiting > 0,
            is_gone: waiting > 0 && last_ack >= GONE_AFTER && lost_in_a_row >= LOST_IN_A_ROW,
        }
    }
}

/// Returns the state of the sending side, or `None` if the system does not report it.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub fn sent(socket: &impl std::os::fd::AsFd) -> Option<Sent> {
    use nix::sys::socket::getsockopt;

    let info = getsockopt(socket, info::TcpInfo).ok()?;
    let selective = u64::from(info.sacked) * u64::from(info.snd_mss);
    Some(Sent::new(
        info.bytes_acked + selective,
        info.unacked.saturating_add(info.notsent_bytes),
        Duration::from_millis(info.last_ack_recv.into()),
        info.retransmits.saturating_add(info.probes),
    ))
}

/// Returns `None`, because only Linux reports the sending side.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub const fn sent<S>(_: &S) -> Option<Sent> {
    None
}

/// `TCP_INFO` of Linux 4.6 and later.
#[cfg(any(target_os = "linux", target_os = "android"))]
mod info {
    use nix::libc;

    /// The beginning of the system's `struct tcp_info`. The system copies only this many bytes of the whole struct, whose size differs
    /// between versions.
    #[repr(C)]
    #[derive(Clone, Copy, Debug)]
    pub(super) struct Info {
        _states: [u8; 2],
        pub(super) retransmits: u8,
        pub(super) probes: u8,
        _options: [u8; 4],
        _timeouts: [u32; 2],
        pub(super) snd_mss: u32,
        _rcv_mss: u32,
        pub(super) unacked: u32,
        pub(super) sacked: u32,
        _segments: [u32; 3],
        _times: [u32; 3],
        pub(super) last_ack_recv: u32,
        _windows: [u32; 11],
        _pacing: [u64; 2],
        pub(super) bytes_acked: u64,
        _bytes_received: u64,
        _counts: [u32; 2],
        pub(super) notsent_bytes: u32,
        _min_rtt: u32,
    }

    /// The socket option that reads [`Info`].
    #[derive(Clone, Copy, Debug)]
    pub(super) struct TcpInfo;

    nix::getsockopt_impl!(
        TcpInfo,
        libc::IPPROTO_TCP,
        libc::TCP_INFO,
        Info,
        nix::sys::socket::sockopt::GetStruct<Info>
    );
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// Returns the client's and the server's end of a connection.
    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        set_options(&listener);
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    }

    #[test]
    fn connections_have_the_options_of_their_listener() {
        let (_client, accepted) = pair();
        let socket = SockRef::from(&accepted);
        assert_eq!(socket.tcp_notsent_lowat().unwrap(), MOST_UNSENT);
        assert!(socket.keepalive().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), SILENCE);
        assert_eq!(socket.tcp_keepalive_retries().unwrap(), PROBES);
    }

    #[test]
    fn acknowledged_bytes_are_counted_and_others_wait() {
        let (mut client, mut accepted) = pair();
        let idle = sent(&accepted).unwrap();
        assert!(!idle.is_waiting && !idle.is_gone);
        accepted.write_all(&[0; 10_000]).unwrap();
        client.read_exact(&mut [0; 10_000]).unwrap();
        let read = std::iter::repeat_with(|| sent(&accepted).unwrap())
            .find(|sent| sent.acknowledged >= idle.acknowledged + 10_000);
        assert_eq!(read.unwrap().acknowledged, idle.acknowledged + 10_000);
        accepted.set_nonblocking(true).unwrap();
        while accepted.write(&[0; 65_536]).is_ok() {}
        let full = sent(&accepted).unwrap();
        assert!(full.is_waiting && !full.is_gone, "the client has no room");
    }

    #[test]
    fn a_peer_is_gone_if_it_owes_acknowledgements_and_sends_none() {
        let is_gone = |waiting, seconds, lost| {
            Sent::new(0, waiting, Duration::from_secs(seconds), lost).is_gone
        };
        assert!(is_gone(1, 60, 2));
        assert!(!is_gone(0, 600, 2), "an idle peer");
        assert!(!is_gone(1, 59, 8), "a short interruption");
        assert!(!is_gone(1, 110, 1), "a probe that is on its way");
    }
}
