//! The address of an admin port.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::remote::Failure;

/// The longest time to connect to all addresses of a name. Each address gets an equal part of this time.
const PATIENCE: Duration = Duration::from_secs(8);

/// The address of an admin port: its text, and the addresses that the text resolves to.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    name: String,
    // At least one address.
    addresses: Vec<SocketAddr>,
}

impl Address {
    /// Resolves a URL `http://HOST:PORT`.
    ///
    /// # Errors
    ///
    /// The URL has another form, or its host name does not resolve.
    pub(crate) fn of_url(url: &str) -> Result<Self, Failure> {
        let wrong = || {
            let text = format!("{url} is no URL of an admin port; write http://HOST:PORT");
            Failure::usage(text)
        };
        let authority = url.strip_prefix("http://").ok_or_else(wrong)?;
        let authority = authority.strip_suffix('/').unwrap_or(authority);
        let (host, port) = authority.rsplit_once(':').ok_or_else(wrong)?;
        if host.is_empty()
            || port.parse::<u16>().is_err()
            || authority.contains(['/', '@', '?', '#'])
        {
            return Err(wrong());
        }
        let unknown = |error| Failure::usage(format!("{url}: {host} has no address: {error}"));
        let addresses = authority.to_socket_addrs().map_err(unknown)?;
        let addresses: Vec<_> = addresses.collect();
        match addresses.is_empty() {
            true => Err(wrong()),
            false => Ok(Self {
                name: url.to_owned(),
                addresses,
            }),
        }
    }

    /// Returns the address of an admin port that is bound to `bound`.
    pub(crate) fn of(bound: SocketAddr) -> Self {
        Self {
            name: bound.to_string(),
            addresses: vec![bound],
        }
    }

    /// Returns the address as text, in its original form.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Connects to the first address that answers. A name can have several addresses: `localhost` may be `::1` and `127.0.0.1`.
    ///
    /// # Errors
    ///
    /// None of the addresses answers.
    pub(crate) async fn connect(&self) -> Result<(TcpStream, SocketAddr), Failure> {
        let share = PATIENCE / u32::try_from(self.addresses.len()).unwrap_or(u32::MAX);
        let mut errors = Vec::new();
        for address in &self.addresses {
            let address = self.reachable(*address)?;
            let error = match timeout(share, TcpStream::connect(address)).await {
                Ok(Ok(socket)) => return Ok((socket, address)),
                Ok(Err(error)) => error.to_string(),
                Err(_) => "no answer".to_owned(),
            };
            errors.push(match self.addresses.len() {
                1 => error,
                _ => format!("{address}: {error}"),
            });
        }
        Err(Failure::failed(format!(
            "{}: no gateway answers on its admin port: {}; is it running, and is this its admin port?",
            self.name,
            errors.join(", ")
        )))
    }

    /// Returns the address at which this machine can reach a bound port.
    fn reachable(&self, mut address: SocketAddr) -> Result<SocketAddr, Failure> {
        if address.port() == 0 {
            return Err(Failure::failed(format!(
                "{} has port 0, which is any that is free; name one to find the gateway by",
                self.name
            )));
        }
        if address.ip().is_unspecified() {
            address.set_ip(match address {
                SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
                SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
            });
        }
        Ok(address)
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_all().build().unwrap().block_on(future)
    }

    #[test]
    fn each_address_of_a_name_is_tried() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let there = listener.local_addr().unwrap();
        // Bound after the listener, so that the two ports differ.
        let closed = TcpListener::bind("127.0.0.1:0").unwrap();
        let away = closed.local_addr().unwrap();
        drop(closed);
        let mut address = Address {
            name: "http://localhost:9901".to_owned(),
            addresses: vec![away, there],
        };
        let (_, connected) = block_on(address.connect()).unwrap();
        assert_eq!(connected, there);
        address.addresses = vec![away, away];
        let error = block_on(address.connect()).unwrap_err().message;
        assert!(
            error.starts_with("http://localhost:9901: no gateway answers"),
            "{error}"
        );
        assert_eq!(error.matches(&away.to_string()).count(), 2, "{error}");
    }

    #[test]
    fn a_url_names_a_host_and_a_port() {
        let error = |url: &str| Address::of_url(url).unwrap_err().message;
        for url in [
            "localhost:9901",
            "http://localhost",
            "http://:1",
            "http://a@b:1",
            "http://[::1]",
        ] {
            assert!(
                error(url).contains("write http://HOST:PORT"),
                "{}",
                error(url)
            );
        }
        // A name with a NUL is refused before any DNS lookup.
        let error = error("http://no\0host:9901");
        assert!(error.contains("no\0host has no address: "), "{error:?}");
        let local = Address::of_url("http://127.0.0.1:9901/").unwrap();
        assert_eq!(local.name(), "http://127.0.0.1:9901/");
    }
}
