//! A table of networks that are looked up by address. The number of steps of a lookup does not grow with the number of networks.
//!
//! All networks with the same prefix length are in one hash table. An address is looked up once per prefix length, the longest first: at
//! most 33 times for IPv4, and 129 times for IPv6.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::ops::BitAnd;

use foldhash::fast::RandomState;
use ipnet::{IpNet, Ipv4Net};

use crate::address;

/// Networks, each with a value.
#[derive(Clone, Debug)]
pub struct NetworkTable<T> {
    v4: Vec<Length<u32, T>>,
    v6: Vec<Length<u128, T>>,
    count: usize,
}

/// All networks with the same prefix length.
#[derive(Clone, Debug)]
struct Length<A, T> {
    bits: u8,
    mask: A,
    networks: HashMap<A, T, RandomState>,
}

impl<T> Default for NetworkTable<T> {
    fn default() -> Self {
        Self {
            v4: Vec::new(),
            v6: Vec::new(),
            count: 0,
        }
    }
}

impl<T> NetworkTable<T> {
    /// Adds a network. If the table already has the network, keeps the old value and returns it. An IPv4 network that is written as IPv6
    /// counts as IPv4.
    pub fn insert(&mut self, network: IpNet, value: T) -> Option<&T> {
        let previous = match folded(network) {
            IpNet::V4(network) => {
                let (bits, mask) = (network.prefix_len(), network.netmask().to_bits());
                insert(&mut self.v4, bits, mask, network.network().to_bits(), value)
            }
            IpNet::V6(network) => {
                let (bits, mask) = (network.prefix_len(), network.netmask().to_bits());
                insert(&mut self.v6, bits, mask, network.network().to_bits(), value)
            }
        };
        self.count += usize::from(previous.is_none());
        previous
    }

    /// Returns the network with the longest prefix that contains an address, with the network's value. An IPv4 address that is written as
    /// IPv6 counts as IPv4.
    pub fn find(&self, address: IpAddr) -> Option<(IpNet, &T)> {
        let address = address::network(address, 128);
        let (bits, value) = match address {
            IpAddr::V4(address) => longest(&self.v4, address.to_bits()),
            IpAddr::V6(address) => longest(&self.v6, address.to_bits()),
        }?;
        Some((IpNet::new(address, bits).ok()?.trunc(), value))
    }

    /// Returns the number of networks.
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Whether the table has no networks.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// Adds a network to the networks with its prefix length. If the table already has the network, keeps the old value and returns it.
fn insert<A: Copy + Eq + Hash, T>(
    lengths: &mut Vec<Length<A, T>>,
    bits: u8,
    mask: A,
    start: A,
    value: T,
) -> Option<&T> {
    // `lengths` is sorted by prefix length, the longest first.
    let at = lengths.partition_point(|length| length.bits > bits);
    if lengths.get(at).is_none_or(|length| length.bits != bits) {
        let networks = HashMap::default();
        lengths.insert(
            at,
            Length {
                bits,
                mask,
                networks,
            },
        );
    }
    let networks = &mut lengths[at].networks;
    let is_known = networks.contains_key(&start);
    let value: &T = networks.entry(start).or_insert(value);
    is_known.then_some(value)
}

/// Returns the network with the longest prefix that contains an address: the prefix length in bits, and the network's value.
fn longest<A, T>(lengths: &[Length<A, T>], address: A) -> Option<(u8, &T)>
where
    A: Copy + Eq + Hash + BitAnd<Output = A>,
{
    lengths.iter().find_map(|length| {
        let value = length.networks.get(&(address & length.mask))?;
        Some((length.bits, value))
    })
}

/// Returns the IPv4 network that an IPv6 network stands for, mapped or translated by NAT64. Returns other networks unchanged.
pub fn folded(network: IpNet) -> IpNet {
    // In both forms, mapped and NAT64, the IPv4 address begins after this number of bits.
    const BEFORE_V4: u8 = 96;
    let bits = network.prefix_len().checked_sub(BEFORE_V4);
    match (network, address::network(network.network(), 128), bits) {
        (IpNet::V6(_), IpAddr::V4(start), Some(bits)) => {
            Ipv4Net::new(start, bits).map_or(network, IpNet::V4)
        }
        _ => network,
    }
}

#[cfg(test)]
mod tests;
