//! What examples/kubernetes promises, with processes in the place of pods. Gateways are replaced one after the other under load, as
//! its Deployment says, while its ConfigMap changes. No request is lost and no budget begins anew.

mod cluster;
mod riders;

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use tokio::task::JoinSet;

use cluster::{Cluster, Manifest};
use riders::{Ridden, Rider};

/// How long one takes: as the manifests say, or less.
struct Pace {
    /// How often the configuration changes.
    changes: usize,
    pre_stop: Duration,
    min_ready: Duration,
}

/// Riders; a quarter of them speak HTTP/2, and a quarter takes a new connection now and then.
const RIDERS: u8 = 12;
/// How long each of them waits between requests: so short that whatever ends, a request is on its way to it.
const THINKS: Duration = Duration::from_millis(1);

async fn rolls(pace: Pace) {
    let mut cluster = Cluster::start().await;
    let mut riding = JoinSet::new();
    for place in 0..RIDERS {
        let rider = Rider {
            from: IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2 + place)),
            service: cluster.service.clone(),
            is_http2: place % 4 == 0,
            changes_connections: place % 4 == 1,
            thinks: THINKS,
        };
        riding.spawn(rider.ride());
    }
    let configuration = cluster.configuration.clone();
    let service = cluster.service.clone();
    let changes = async {
        let mut version = service.until_all_have_another("").await;
        for nth in 1..=pace.changes {
            configuration.change(nth);
            version = service.until_all_have_another(&version).await;
        }
    };
    let replaced = cluster.replace_all(pace.pre_stop, pace.min_ready);
    let (replaced, ()) = tokio::join!(replaced, changes);
    service.close();
    let ridden = riding.join_all().await;

    let sum = |of: fn(&Ridden) -> usize| ridden.iter().map(of).sum::<usize>();
    let (admitted, refused) = (sum(|r| r.admitted), sum(|r| r.refused));
    report(&format!(
        "{replaced} gateways replaced, the configuration changed {} times; {} requests on {} connections: {admitted} admitted, \
         {refused} refused, {} sent again since no gateway had begun with them, {} lost",
        pace.changes,
        sum(|r| r.sent),
        sum(|r| r.connections),
        sum(|r| r.unsent),
        sum(|r| r.lost.len()),
    ));
    let lost: Vec<&String> = ridden.iter().flat_map(|r| &r.lost).collect();
    assert!(lost.is_empty(), "requests were lost: {lost:?}");
    assert_eq!(admitted + refused, sum(|r| r.sent));
    assert_eq!(admitted, cluster.upstream.count());
    // A budget that began anew would have forgotten some of what was admitted.
    for rider in &ridden {
        assert_eq!(
            cluster.used_by(rider.from).await,
            rider.admitted as u64,
            "{}",
            rider.from
        );
        let most = rider.allowed(20, 10);
        assert!(
            rider.admitted <= most,
            "{}: {} admitted, and {most} at most fit its bucket",
            rider.from,
            rider.admitted
        );
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_update_and_changes_of_the_configuration_lose_nothing() {
    rolls(Pace {
        changes: 2,
        pre_stop: Duration::from_millis(300),
        min_ready: Duration::ZERO,
    })
    .await;
}

/// With the times of the manifests: `cargo test -p tidegate --test it rolling -- --include-ignored --nocapture`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute"]
async fn a_rolling_update_as_the_manifests_say_loses_nothing() {
    let deployment = Manifest::read("deployment.yaml");
    rolls(Pace {
        changes: 20,
        pre_stop: deployment.seconds("sleep: { seconds: "),
        min_ready: deployment.seconds("minReadySeconds: "),
    })
    .await;
}

#[expect(clippy::print_stdout, reason = "--nocapture shows the counts")]
fn report(counts: &str) {
    println!("{counts}");
}
