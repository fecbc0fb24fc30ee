//! Sticky sessions: the part of a request that chooses its server, and the cookie that names a server.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use aws_lc_rs::hmac;
use http::HeaderName;

/// The rule that keeps a client at one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sticky {
    /// The hash of a part of the request chooses the server.
    Hash(HashedPart),
    /// A cookie that the gateway sets names the server.
    Cookie(Arc<str>, MarkKey),
}

/// The part of a request whose hash chooses the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HashedPart {
    /// The client of the request.
    Client,
    /// The value of a header.
    Header(HeaderName),
    /// The value of a cookie that the upstream sets.
    Cookie(Arc<str>),
}

/// The server that a request prefers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Affinity {
    /// The server that this hash chooses.
    Hash(u64),
    /// The server with this mark.
    Mark(ServerMark),
}

/// The key of the hashes that name servers in cookies.
#[derive(Clone, PartialEq, Eq)]
pub struct MarkKey([u8; 32]);

/// The name of a server in cookies. It is the start of a keyed hash, so that clients cannot see the address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerMark([u8; 12]);

impl Affinity {
    /// Prefers a server by the hash of this part of a request. All gateways prefer the same server for the same part.
    pub fn of(part: &[u8]) -> Self {
        Self::Hash(hash(part))
    }
}

impl MarkKey {
    /// Derives the key from the secret of the gateways.
    pub fn new(secret: &str) -> Self {
        Self(hmac_of(secret.as_bytes(), b"names of servers in cookies"))
    }

    /// Returns the mark of the server at an address.
    pub(crate) fn mark(&self, address: SocketAddr) -> ServerMark {
        let hash = hmac_of(&self.0, address.to_string().as_bytes());
        let mut mark = [0; 12];
        mark.copy_from_slice(&hash[..12]);
        ServerMark(mark)
    }
}

impl ServerMark {
    /// Reads a mark from the value of a cookie.
    pub fn read(value: &[u8]) -> Option<Self> {
        let mut mark = [0; 12];
        if value.len() != 2 * mark.len() || !value.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        for (byte, digits) in mark.iter_mut().zip(value.chunks_exact(2)) {
            let digits = std::str::from_utf8(digits).ok()?;
            *byte = u8::from_str_radix(digits, 16).ok()?;
        }
        Some(Self(mark))
    }
}

impl fmt::Display for ServerMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for MarkKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MarkKey(***)")
    }
}

impl fmt::Display for Sticky {
    /// Writes the rule as in YAML.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hash(HashedPart::Client) => f.write_str("hash: client"),
            Self::Hash(HashedPart::Header(name)) => write!(f, "hash: header:{name}"),
            Self::Hash(HashedPart::Cookie(name)) => write!(f, "hash: cookie:{name}"),
            Self::Cookie(name, _) => write!(f, "cookie: {name}"),
        }
    }
}

/// Returns the hash of an address, for [`score`].
pub(crate) fn seed(address: SocketAddr) -> u64 {
    let mut bytes = match address.ip() {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    bytes.extend(address.port().to_be_bytes());
    hash(&bytes)
}

/// Returns how strongly a request prefers a server: the highest score wins (rendezvous hashing). Each server wins a share of all hashes in
/// proportion to its weight. If a server leaves or joins, only the requests of its own share move.
pub(crate) fn score(request: u64, seed: u64, weight: f64) -> f64 {
    let mixed = mix(request ^ seed);
    // A number strictly between 0 and 1, from 53 bits.
    let uniform = ((mixed >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    weight / -uniform.ln()
}

/// Returns the FNV-1a hash of `bytes`, spread by [`mix`]. The hash is the same in all versions of the gateway, so gateways of different
/// versions choose the same server.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    let add = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    mix(bytes.iter().fold(0xcbf2_9ce4_8422_2325, add))
}

/// Spreads a change of one bit over all bits (the finaliser of splitmix64).
const fn mix(hash: u64) -> u64 {
    let hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ hash >> 31
}

fn hmac_of(key: &[u8], message: &[u8]) -> [u8; 32] {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    let mut hash = [0; 32];
    hash.copy_from_slice(hmac::sign(&key, message).as_ref());
    hash
}

#[cfg(test)]
mod tests;
