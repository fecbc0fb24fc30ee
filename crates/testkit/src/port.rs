//! Ports that stay reserved while no server listens on them.
//!
//! A test that finds a free port by a bind and a close races with all other tests. Here the socket that found the port stays bound, and
//! never listens. Linux lets a second socket with `SO_REUSEADDR` listen there, and gives the port to no other socket. The port refuses
//! connections until a socket listens on it.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, TcpStream},
};

use tokio::net::{TcpListener, TcpSocket};

/// A port of 127.0.0.1, reserved until this is dropped. Connections are refused until a server listens.
///
/// A server in another process can use the port, too, if it sets `SO_REUSEADDR`, as nearly all servers do.
#[derive(Debug)]
pub struct Port {
    #[expect(dead_code, reason = "held for its port alone")]
    held: TcpSocket,
    addr: SocketAddr,
}

impl Port {
    /// Reserves a free port.
    pub fn reserve() -> Self {
        let held = bound((Ipv4Addr::LOCALHOST, 0).into()).expect("no free port");
        let addr = held.local_addr().unwrap();
        Self { held, addr }
    }

    /// Returns the address to connect to.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Returns the port's number.
    pub fn number(&self) -> u16 {
        self.addr.port()
    }

    /// Listens on the port, from within a tokio runtime. Only one listener at a time is possible.
    pub fn listen(&self) -> TcpListener {
        self.listen_with(1024)
    }

    fn listen_with(&self, backlog: u32) -> TcpListener {
        let listener = bound(self.addr).and_then(|socket| socket.listen(backlog));
        listener.unwrap_or_else(|e| panic!("cannot listen on {}: {e}", self.addr))
    }
}

/// An address where connections are neither accepted nor refused, as behind a firewall that drops packets.
#[derive(Debug)]
pub struct Silent {
    port: Port,
    #[expect(dead_code, reason = "held so that its queue stays full")]
    full: (TcpListener, TcpStream),
}

impl Silent {
    /// Starts a listener that accepts no connections, from within a tokio runtime. Its queue of one connection is full.
    pub fn start() -> Self {
        let port = Port::reserve();
        let listener = port.listen_with(0);
        let taken = TcpStream::connect(port.addr()).unwrap();
        Self {
            port,
            full: (listener, taken),
        }
    }

    /// Returns the address to connect to.
    pub fn addr(&self) -> SocketAddr {
        self.port.addr()
    }
}

fn bound(addr: SocketAddr) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(addr)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::{io::ErrorKind, net::TcpListener as StdListener, time::Duration};

    use super::*;

    #[tokio::test]
    async fn a_reserved_port_refuses_until_listened_on_and_again_after() {
        let port = Port::reserve();
        let refused = || TcpStream::connect(port.addr()).unwrap_err().kind();
        assert_eq!(refused(), ErrorKind::ConnectionRefused);

        let listener = port.listen();
        TcpStream::connect(port.addr()).unwrap();
        drop(listener);
        assert_eq!(refused(), ErrorKind::ConnectionRefused);

        let others: Vec<_> = (0..200)
            .map(|_| StdListener::bind("127.0.0.1:0").unwrap())
            .collect();
        assert!(
            others
                .iter()
                .all(|other| other.local_addr().unwrap() != port.addr())
        );
    }

    #[tokio::test]
    async fn a_silent_address_neither_accepts_nor_refuses() {
        let silent = Silent::start();
        let waited = TcpStream::connect_timeout(&silent.addr(), Duration::from_millis(200));
        assert_eq!(waited.unwrap_err().kind(), ErrorKind::TimedOut);
    }
}
