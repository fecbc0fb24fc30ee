//! The choice of a server by the hash of a request, with a bound on each server's load.

use std::sync::Arc;

use crate::server::Server;
use crate::sticky::score;

/// The most requests in flight that a server takes, as a multiple of its fair share.
const BOUND: f64 = 1.25;

/// A server with fewer requests in flight than this number always takes another request. With few clients the fair share is small, but a
/// single browser sends six requests at once. Without this minimum, [`BOUND`] would move some of the six to another server.
const ALWAYS: usize = 8;

/// Chooses the server that `hash` prefers among the servers below the bound.
pub(super) fn choose<'a>(
    servers: impl Iterator<Item = &'a Arc<Server>> + Clone,
    hash: u64,
    weight: impl Fn(&Server) -> i64,
) -> Option<&'a Arc<Server>> {
    let weight = |server: &Server| weight(server).max(1) as f64;
    // The count starts at 1, for this request.
    let (open, weights) = servers.clone().fold((1, 0.0), |(open, weights), server| {
        (open + server.places.taken(), weights + weight(server))
    });
    let has_room = |server: &&Arc<Server>| {
        let taken = server.places.taken();
        let most = (BOUND * open as f64 * weight(server) / weights).ceil();
        taken < ALWAYS || (taken + 1) as f64 <= most
    };
    let first = |servers: &mut dyn Iterator<Item = &'a Arc<Server>>| {
        let scored = servers.map(|server| (score(hash, server.seed, weight(server)), server));
        let first = scored.max_by(|(one, _), (other, _)| one.total_cmp(other));
        first.map(|(_, server)| server)
    };
    // Concurrent requests may change the numbers, so perhaps no server is below its bound. In this case, all servers are candidates.
    first(&mut servers.clone().filter(has_room)).or_else(|| first(&mut servers.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::UpstreamSettings;
    use crate::settings::tests::server as server_at;
    use crate::sticky::hash;

    fn servers(count: u16) -> Vec<Arc<Server>> {
        let server = |nth: u16| {
            let settings = server_at(&format!("127.0.0.1:{}", nth + 1));
            let upstream = UpstreamSettings::alone(settings.clone());
            let address = ([127, 0, 0, 1], nth + 1).into();
            Arc::new(Server::new(Arc::new(settings), address, &upstream))
        };
        (0..count).map(server).collect()
    }

    #[test]
    fn a_hot_key_fills_its_server_to_the_bound_and_then_the_next_choice() {
        let servers = servers(4);
        let hash = hash(b"hot");
        let mut places = Vec::new();
        let mut chosen = Vec::new();
        for _ in 0..200 {
            let server = choose(servers.iter(), hash, |_| 100).unwrap();
            places.push(server.places.take(None));
            chosen.push(server.address);
        }
        assert!(chosen[..ALWAYS].iter().all(|address| *address == chosen[0]));
        let mut taken: Vec<_> = servers.iter().map(|server| server.places.taken()).collect();
        taken.sort_unstable();
        // The bound is a quarter more than the fair share of 50 requests. The first three choices reach the bound.
        let is_full = |taken: &usize| (61..=63).contains(taken);
        assert!(taken[1..].iter().all(is_full), "{taken:?}");
        // Without load, the first choice gets the request again.
        places.clear();
        let again = choose(servers.iter(), hash, |_| 100).unwrap();
        assert_eq!(again.address, chosen[0]);
    }

    #[test]
    fn load_by_many_keys_moves_few_of_them() {
        let servers = servers(4);
        let mut places = Vec::new();
        let mut moved = 0;
        for number in 0..1_000 {
            let hash = hash(format!("{number}").as_bytes());
            let alone = |server: &&Arc<Server>| score(hash, server.seed, 1.0);
            let first = servers
                .iter()
                .max_by(|one, other| alone(one).total_cmp(&alone(other)));
            let server = choose(servers.iter(), hash, |_| 100).unwrap();
            moved += u32::from(!Arc::ptr_eq(server, first.unwrap()));
            places.push(server.places.take(None));
        }
        let most = servers.iter().map(|server| server.places.taken()).max();
        assert!(most.unwrap() <= 313, "{most:?}");
        assert!(moved < 100, "{moved}");
    }
}
