use std::net::Ipv4Addr;

use super::*;

fn table(networks: &[&str]) -> NetworkTable<usize> {
    let mut table = NetworkTable::default();
    for (at, network) in networks.iter().enumerate() {
        assert_eq!(
            table.insert(network.parse().unwrap(), at),
            None,
            "{network}"
        );
    }
    table
}

#[track_caller]
fn find(table: &NetworkTable<usize>, address: &str) -> Option<(String, usize)> {
    let entry = table.find(address.parse().unwrap());
    entry.map(|(network, at)| (network.to_string(), *at))
}

#[test]
fn the_longest_network_that_holds_an_address_is_found() {
    let table = table(&[
        "10.0.0.0/8",
        "10.1.0.0/16",
        "10.1.2.3/32",
        "2001:db8::/32",
        "::1/128",
    ]);
    for (address, network) in [
        ("10.1.2.3", Some(("10.1.2.3/32", 2))),
        ("10.1.2.4", Some(("10.1.0.0/16", 1))),
        ("10.255.255.255", Some(("10.0.0.0/8", 0))),
        ("11.0.0.0", None),
        ("::ffff:10.1.2.3", Some(("10.1.2.3/32", 2))),
        ("2001:db8:ffff::1", Some(("2001:db8::/32", 3))),
        ("2001:db9::", None),
        ("::1", Some(("::1/128", 4))),
        ("::2", None),
    ] {
        let network = network.map(|(network, at)| (network.to_owned(), at));
        assert_eq!(find(&table, address), network, "{address}");
    }
    assert_eq!(table.len(), 5);
}

#[test]
fn everything_and_nothing_are_networks_too() {
    let all = table(&["0.0.0.0/0"]);
    assert_eq!(find(&all, "255.1.2.3").unwrap().1, 0);
    // A network of all IPv4 addresses contains no IPv6 address.
    assert_eq!(find(&all, "2001:db8::1"), None);
    let none = table(&[]);
    assert!(none.is_empty() && find(&none, "0.0.0.0").is_none());
}

#[test]
fn a_network_that_is_written_in_two_ways_is_one() {
    let mut table = table(&["::ffff:10.0.0.0/104"]);
    assert_eq!(find(&table, "10.9.9.9").unwrap().0, "10.0.0.0/8");
    assert_eq!(table.insert("10.0.0.0/8".parse().unwrap(), 7), Some(&0));
    assert_eq!((find(&table, "10.9.9.9").unwrap().1, table.len()), (0, 1));
}

/// The table finds the same network as a comparison with each network.
#[test]
fn it_finds_what_a_look_at_each_finds() {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    let mut networks: Vec<IpNet> = Vec::new();
    let mut table = NetworkTable::default();
    for _ in 0..2_000 {
        // The networks are close together, so that many networks contain other networks.
        let (bits, length) = (next() as u32 & 0x0fff_00ff, 8 + (next() % 25) as u8);
        let network = IpNet::from(Ipv4Net::new(Ipv4Addr::from_bits(bits), length).unwrap()).trunc();
        if table.insert(network, networks.len()).is_none() {
            networks.push(network);
        }
    }
    assert_eq!(table.len(), networks.len());
    for _ in 0..20_000 {
        let address = IpAddr::from(Ipv4Addr::from_bits(next() as u32 & 0x0fff_00ff));
        let holds = networks.iter().filter(|network| network.contains(&address));
        let longest = holds.max_by_key(|network| network.prefix_len());
        let entry = table
            .find(address)
            .map(|(network, at)| (network, networks[*at]));
        assert_eq!(
            entry,
            longest.map(|network| (*network, *network)),
            "{address}"
        );
    }
}

#[test]
fn addresses_that_a_nat64_translated_are_ipv4() {
    let mut table = table(&["64:ff9b::192.0.2.0/120", "64:ff9b:1::/48"]);
    for address in ["192.0.2.7", "64:ff9b::c000:207", "::ffff:192.0.2.7"] {
        assert_eq!(find(&table, address).unwrap().0, "192.0.2.0/24");
    }
    // Networks of RFC 8215 are for local translation, so their addresses do not count as IPv4.
    let own = find(&table, "64:ff9b:1::c000:207").unwrap();
    assert_eq!(own.0, "64:ff9b:1::/48");
    assert_eq!(find(&table, "192.0.3.7"), None);
    table.insert("64:ff9b::/96".parse().unwrap(), 7);
    assert_eq!(find(&table, "192.0.3.7").unwrap().0, "0.0.0.0/0");
}
