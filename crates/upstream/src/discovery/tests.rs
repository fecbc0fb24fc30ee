//! Tests of names whose addresses change.

use super::*;
use crate::settings::tests::server;

fn settings(authorities: &[&str]) -> UpstreamSettings {
    let mut settings = UpstreamSettings::alone(server(authorities[0]));
    settings.servers = authorities
        .iter()
        .map(|authority| server(authority))
        .collect();
    settings
}

fn at(addresses: &[&str]) -> Option<Vec<SocketAddr>> {
    let addresses = addresses.iter().map(|address| address.parse());
    Some(addresses.collect::<Result<_, _>>().unwrap())
}

#[test]
fn who_stays_keeps_all_that_is_known_of_it() {
    let settings = settings(&["one:1", "two:2"]);
    let discovery = Discovery::new(&settings);
    assert!(discovery.have_names() && discovery.current().is_empty());
    let answers = |one, two| discovery.servers.iter().zip([one, two]).collect();
    let first = regroup(
        &[],
        answers(at(&["10.0.0.1:1", "10.0.0.2:1"]), at(&["10.0.0.1:1"])),
        &settings,
    );
    // An address of two names gives two servers, because their protocols may differ.
    assert_eq!(first.len(), 3);
    let second = regroup(
        &first,
        answers(at(&["10.0.0.2:1", "10.0.0.3:1"]), None),
        &settings,
    );
    assert_eq!(second.len(), 3);
    assert!(Arc::ptr_eq(&second[0], &first[1]));
    assert_eq!(second[1].address, "10.0.0.3:1".parse().unwrap());
    assert!(
        Arc::ptr_eq(&second[2], &first[2]),
        "no answer changes nothing"
    );
    // A server that joins other servers starts slowly under `slow_start`.
    let share = |server: &Server| {
        server
            .health
            .share(Duration::from_secs(3_600), Instant::now())
    };
    assert_eq!([share(&second[0]), share(&second[1])], [1.0, 0.1]);
    // A name without addresses has no server.
    assert_eq!(regroup(&second, answers(at(&[]), None), &settings).len(), 1);
}

#[test]
fn ports_are_those_of_the_scheme_unless_they_are_written() {
    let settings = settings(&["127.0.0.1", "[::1]:81"]);
    let discovery = Discovery::new(&settings);
    assert!(!discovery.have_names());
    let addresses: Vec<_> = discovery
        .current()
        .iter()
        .map(|server| server.address)
        .collect();
    assert_eq!(Some(addresses), at(&["127.0.0.1:80", "[::1]:81"]));
}

#[tokio::test]
async fn a_name_is_not_resolved_twice_a_second() {
    let settings = settings(&["localhost:1"]);
    let discovery = Discovery::new(&settings);
    assert!(discovery.resolve(&settings).await);
    let servers = discovery.current();
    assert!(
        servers
            .iter()
            .all(|server| server.address.ip().is_loopback())
            && !servers.is_empty()
    );
    discovery.current.store(Arc::default());
    assert!(!discovery.resolve(&settings).await);
    assert!(discovery.current().is_empty());
}
