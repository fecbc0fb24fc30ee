//! Checks that `TrustedProxies::origin` follows its rules for any headers that claim an origin.
//!
//! An input begins with three bytes, which choose the peer, the trusted networks and the trusted header. Header lines follow. A line is
//! `name: value`, or only a value of the trusted header. The lines before the line `--` are from the client. The lines after it are from
//! proxies, the nearest proxy last.
//!
//! The gateway's parser must accept each entry that [`Believed::surely`] accepts, and must refuse each entry that [`Believed::perhaps`]
//! refuses. For all other entries, both results are allowed. So this target tests trust, not the spelling of entries.

#![no_main]

#[path = "addresses/believed.rs"]
mod believed;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use http::{HeaderMap, HeaderName, HeaderValue};
use ipnet::IpNet;
use libfuzzer_sys::{Corpus, fuzz_target};
use tidegate_identity::{AddressFrom, Client, ClientSource, Clients, TrustedProxies};
use tidegate_tower::Peer;

use believed::Believed;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

const PEERS: [&str; 8] = [
    "10.0.0.1",
    "192.0.2.1",
    "::ffff:10.0.0.1",
    "2001:db8::1",
    "fd00::1",
    "::ffff:192.0.2.1",
    "127.0.0.1",
    "::1",
];

const NETWORKS: [&[&str]; 5] = [
    &["10.0.0.0/8"],
    &["10.0.0.0/8", "fd00::/8"],
    &[],
    &["0.0.0.0/0", "::/0"],
    &["127.0.0.1/32", "::1/128", "10.0.0.0/8", "192.0.2.0/25"],
];

/// An IPv4 address that only the fourth of [`NETWORKS`] contains.
const STRANGER: &str = "203.0.113.9";
/// An IPv6 address that only the fourth of [`NETWORKS`] contains.
const STRANGER_V6: &str = "2001:db8:9::9";

/// Spellings of the strangers' addresses in `X-Forwarded-For`, each with its address.
const BARE: [(&str, &str); 6] = [
    ("203.0.113.9", STRANGER),
    ("203.0.113.9:4711", STRANGER),
    ("2001:db8:9::9", STRANGER_V6),
    ("[2001:db8:9::9]", STRANGER_V6),
    ("[2001:db8:9::9]:4711", STRANGER_V6),
    ("2001:db8:9::9%eth0", STRANGER_V6),
];

/// Spellings of the strangers' addresses in `Forwarded`, each with its address.
const ELEMENTS: [(&str, &str); 6] = [
    ("for=203.0.113.9", STRANGER),
    ("For=\"203.0.113.9:4711\"", STRANGER),
    ("FOR=\"[2001:db8:9::9]\"", STRANGER_V6),
    (
        "by=_x;for=\"[2001:db8:9::9]:4711\";proto=https",
        STRANGER_V6,
    ),
    ("host=\"a,b;for=6.6.6.6,\";for=203.0.113.9", STRANGER),
    ("for=203.0.113.9;host=\"a\\\", for=6.6.6.6;\\\\\"", STRANGER),
];

type Lines<'a> = Vec<(HeaderName, &'a [u8])>;

fuzz_target!(|data: &[u8]| -> Corpus {
    let [peer, networks, from, text @ ..] = data else {
        return Corpus::Reject;
    };
    let peer = address(PEERS[usize::from(*peer) % PEERS.len()]);
    let networks = NETWORKS[usize::from(*networks) % NETWORKS.len()];
    let from = match from % 3 {
        0 => AddressFrom::XForwardedFor,
        1 => AddressFrom::Forwarded,
        _ => AddressFrom::Connection,
    };
    let trusted = Trusted::new(networks, from);
    let (client, proxies) = read(text, &trusted.believed);
    check(&trusted, peer, &client, &proxies);
    Corpus::Keep
});

/// The proxies that a gateway trusts, and their networks for the checks.
struct Trusted {
    proxies: TrustedProxies,
    networks: Vec<IpNet>,
    from: AddressFrom,
    believed: Believed,
}

impl Trusted {
    fn new(networks: &[&str], from: AddressFrom) -> Self {
        let networks = networks.iter().map(|text| text.parse().expect("a network"));
        let networks: Vec<_> = networks.collect();
        Self {
            proxies: TrustedProxies::new(networks.clone()),
            networks,
            from,
            believed: match from {
                AddressFrom::Forwarded => Believed::Forwarded,
                AddressFrom::XForwardedFor | AddressFrom::Connection => Believed::XForwardedFor,
            },
        }
    }

    fn origin(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        self.proxies.origin(peer, headers, self.from)
    }

    /// Whether a trusted network contains the address. An IPv4-mapped IPv6 address counts as IPv4.
    fn contains(&self, address: IpAddr) -> bool {
        let v4 = match address {
            IpAddr::V6(address) => address.to_ipv4_mapped().map(IpAddr::V4),
            IpAddr::V4(_) => None,
        };
        let address = v4.unwrap_or(address);
        self.networks
            .iter()
            .any(|network| network.contains(&address))
    }
}

fn check(trusted: &Trusted, peer: IpAddr, client: &Lines<'_>, proxies: &Lines<'_>) {
    let believed = &trusted.believed;
    let all = [client.as_slice(), proxies].concat();
    let headers = map(&all);
    let origin = trusted.origin(peer, &headers);
    is_one_client(trusted, peer, &headers, origin);
    if !trusted.contains(peer) {
        assert_eq!(origin, peer, "a stranger speaks for nobody");
        return;
    }
    if trusted.from == AddressFrom::Connection {
        assert_eq!(origin, peer, "no header counts");
        return;
    }
    is_the_end_of_a_walk(trusted, peer, &believed.entries(&all), origin);

    // The client cannot choose its origin. If the proxies' lines have an untrusted address or an entry that `Believed::perhaps` refuses,
    // the client's lines have no effect.
    let by_proxies = trusted.origin(peer, &map(proxies));
    let by_proxies_entries = believed.entries(proxies);
    let are_addresses = by_proxies_entries
        .iter()
        .all(|entry| believed.perhaps(entry).is_some());
    if !trusted.contains(by_proxies) || !are_addresses {
        assert_eq!(origin, by_proxies, "what comes first changes nothing");
    }

    // A proxy may add a line, or continue the client's last line, even if the client left a quote open in it. The origin must be the same
    // in both cases.
    let (theirs, ours) = (believed.lines(client), believed.lines(proxies));
    if let ([before @ .., last], [first, after @ ..]) = (theirs.as_slice(), ours.as_slice())
        && believed.is_whole(first)
    {
        let joined = [last, &b", "[..], first].concat();
        let lines = [before, &[joined.as_slice()], after].concat();
        let headers = map(&believed.named(&lines));
        let appended = trusted.origin(peer, &headers);
        assert_eq!(appended, origin, "{:?}", joined.escape_ascii().to_string());
    }

    // All lines form a single list, so joining the lines must not change the origin. Inputs with a line that begins inside an entry are
    // excluded.
    let lines = believed.lines(&all);
    if lines.iter().skip(1).all(|line| believed.is_whole(line)) {
        let joined = lines.join(&b","[..]);
        let one = if lines.is_empty() {
            vec![]
        } else {
            vec![joined.as_slice()]
        };
        let in_one = trusted.origin(peer, &map(&believed.named(&one)));
        assert_eq!(
            in_one, origin,
            "lines are one list, and nothing else counts"
        );
    }

    // The last entry comes from the nearest proxy, so it decides. Each spelling of an untrusted address is tested, in a line of its own and
    // at the end of another line.
    for (text, stranger) in believed.strangers() {
        let stranger = address(stranger);
        if trusted.contains(stranger) {
            continue;
        }
        let mut lines = lines.clone();
        lines.push(text.as_bytes());
        let headers = map(&believed.named(&lines));
        assert_eq!(trusted.origin(peer, &headers), stranger, "{text}");
        if let [before @ .., last, _] = lines.as_slice() {
            let joined = [last, &b","[..], text.as_bytes()].concat();
            let lines = [before, &[joined.as_slice()]].concat();
            let headers = map(&believed.named(&lines));
            assert_eq!(trusted.origin(peer, &headers), stranger, "{text}");
        }
    }
}

/// Requires that the origin is the peer or an entry, and that all entries to its right are trusted proxies. The origin itself may be
/// trusted only if the next entry to the left is missing or unreadable.
fn is_the_end_of_a_walk(trusted: &Trusted, peer: IpAddr, entries: &[&[u8]], origin: IpAddr) {
    let mut here = Some(peer);
    for entry in entries.iter().rev() {
        let goes_on = trusted.believed.surely(entry).is_some();
        if here == Some(origin) && !(trusted.contains(origin) && goes_on) {
            return;
        }
        assert!(
            here.is_some_and(|here| trusted.contains(here)),
            "{origin} stands to the left of somebody who is not trusted"
        );
        here = trusted.believed.perhaps(entry);
    }
    assert_eq!(here, Some(origin), "an address that nobody named");
}

/// Requires that all spellings of an address give the same client: the IPv4 address, or the prefix of the IPv6 address.
fn is_one_client(trusted: &Trusted, peer: IpAddr, headers: &HeaderMap, origin: IpAddr) {
    let clients = |trusted, address_from| Clients {
        sources: vec![ClientSource::Ip],
        trusted,
        address_from,
        ipv6_prefix: 64,
        forward_client: None,
        members: Default::default(),
    };
    let at = |peer| Peer::connected(SocketAddr::new(peer, 4711));
    let caller = clients(trusted.proxies.clone(), trusted.from).identify(at(peer), headers);
    assert_eq!(caller.client, caller.ip);
    let others = (caller.api_key, caller.user_id, caller.refused);
    assert_eq!(others, (None, None, None), "an address is nobody else");
    let Client::Ip(network) = caller.ip else {
        panic!("{:?}", caller.ip);
    };
    let spellings = match (unfolded(origin), network) {
        (IpAddr::V4(origin), IpAddr::V4(network)) => {
            assert_eq!(origin, network);
            let translated = Ipv6Addr::from_bits((0x64_ff9b << 96) | u128::from(origin.to_bits()));
            vec![
                origin.into(),
                origin.to_ipv6_mapped().into(),
                translated.into(),
            ]
        }
        (IpAddr::V6(origin), IpAddr::V6(network)) => {
            assert_eq!(origin.to_bits() >> 64, network.to_bits() >> 64);
            assert_eq!(network.to_bits() << 64, 0);
            vec![origin.into()]
        }
        _ => panic!("{origin} is not in {network}"),
    };
    for spelling in spellings {
        let directly = clients(TrustedProxies::default(), AddressFrom::default());
        let directly = directly.identify(at(spelling), &HeaderMap::new());
        assert_eq!(directly.client, caller.client, "a proxy makes nobody else");
    }
}

/// Returns the IPv4 address of an IPv6 address that is IPv4-mapped or translated by NAT64. Returns all other addresses unchanged.
fn unfolded(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else {
        return address;
    };
    match v6.segments() {
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            Ipv4Addr::from_bits((u32::from(high) << 16) | u32::from(low)).into()
        }
        _ => address,
    }
}

/// Returns the lines before and after `--`, without lines whose value is invalid in a header.
fn read<'a>(text: &'a [u8], believed: &Believed) -> (Lines<'a>, Lines<'a>) {
    let (mut client, mut proxies) = (Vec::new(), Vec::new());
    let mut divided = false;
    for line in text.split(|byte| *byte == b'\n') {
        if line == b"--" {
            divided = true;
            continue;
        }
        let colon = line.windows(2).position(|two| two == b": ");
        let named = colon.and_then(|colon| {
            let name = HeaderName::from_bytes(&line[..colon]).ok()?;
            Some((name, &line[colon + 2..]))
        });
        let (name, value) = named.unwrap_or_else(|| (believed.name(), line));
        if HeaderValue::from_bytes(value).is_ok() {
            let lines = if divided { &mut proxies } else { &mut client };
            lines.push((name, value));
        }
    }
    (client, proxies)
}

fn map(lines: &[(HeaderName, &[u8])]) -> HeaderMap {
    let value = |value| HeaderValue::from_bytes(value).expect("read lets no others through");
    let lines = lines.iter().map(|(name, text)| (name.clone(), value(text)));
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        headers.append(name, value);
    }
    headers
}

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}
