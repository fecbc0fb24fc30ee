//! A cache of the hashes of the clients that a thread saw most recently.
//!
//! Most requests come from clients whose hash the thread has just computed. A lookup in the cache takes a tenth of the time of a keyed
//! hash.

use std::cell::RefCell;
use std::hash::BuildHasher as _;

use foldhash::fast::RandomState;

use tidegate_identity::Client;

/// The number of clients that a thread caches. The table takes 30 KB, and each name at most [`MAX_NAME`] bytes more.
const CELLS: usize = 512;

/// The longest cached name in bytes, which bounds the memory of the cache. A client with a longer name is hashed at every request.
const MAX_NAME: usize = 128;

thread_local! {
    static RECENT: RefCell<Recent> = RefCell::default();
}

/// A table in which each client has one cell. A new client replaces the previous client of its cell.
#[derive(Default)]
struct Recent {
    random: RandomState,
    /// Empty until the thread hashes its first client.
    cells: Vec<Option<Entry>>,
}

struct Entry {
    /// The number of the secret that made the hash.
    secret: u64,
    client: Client,
    hash: [u8; 16],
}

/// Returns the hash of `client` under the secret with this number, from this thread's cache or from `compute`.
pub(super) fn hash(secret: u64, client: &Client, compute: impl FnOnce() -> [u8; 16]) -> [u8; 16] {
    if name_length(client) > MAX_NAME {
        return compute();
    }
    RECENT.with_borrow_mut(|recent| {
        if recent.cells.is_empty() {
            recent.cells.resize_with(CELLS, || None);
        }
        // `random` is seeded per thread, so that a client cannot choose its cell.
        let at = recent.random.hash_one(client) as usize % CELLS;
        match &recent.cells[at] {
            Some(cell) if cell.secret == secret && cell.client == *client => cell.hash,
            _ => {
                let (client, hash) = (client.clone(), compute());
                recent.cells[at] = Some(Entry {
                    secret,
                    client,
                    hash,
                });
                hash
            }
        }
    })
}

fn name_length(client: &Client) -> usize {
    match client {
        Client::ApiKey(name) | Client::Certificate(name) => name.len(),
        Client::UserId(id) => id.len(),
        Client::UnlistedKey(_) | Client::Ip(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHER: [u8; 16] = [9; 16];

    fn address(last: u8) -> Client {
        Client::Ip([192, 0, 2, last].into())
    }

    fn never() -> [u8; 16] {
        panic!("the hash was not remembered")
    }

    #[test]
    fn a_client_is_hashed_once_per_secret() {
        assert_eq!(hash(1, &address(1), || [1; 16]), [1; 16]);
        assert_eq!(hash(1, &address(1), never), [1; 16]);
        assert_eq!(hash(2, &address(1), || OTHER), OTHER);
        assert_eq!(hash(2, &address(1), never), OTHER);
    }

    #[test]
    fn a_name_that_looks_alike_is_another_client() {
        let (key, user) = (Client::ApiKey("192.0.2.1".into()), "192.0.2.1".into());
        for (client, own) in [
            (address(1), [1; 16]),
            (key, [2; 16]),
            (Client::UserId(user), [3; 16]),
        ] {
            assert_eq!(hash(3, &client, || own), own);
        }
    }

    #[test]
    fn more_clients_than_slots_have_their_own_hashes() {
        for client in (0..=255)
            .chain(0..=255)
            .map(|n| Client::Ip([10, 0, n, n].into()))
        {
            let own = client.to_string().len() as u8;
            assert_eq!(hash(4, &client, || [own; 16]), [own; 16]);
        }
        for n in 0..5_000_u32 {
            let own = n.to_be_bytes().repeat(4).try_into().unwrap();
            assert_eq!(hash(5, &Client::Ip(n.to_be_bytes().into()), || own), own);
        }
    }

    #[test]
    fn a_long_name_is_not_kept() {
        let long = Client::UserId("a".repeat(MAX_NAME + 1).into());
        assert_eq!(hash(6, &long, || [1; 16]), [1; 16]);
        assert_eq!(hash(6, &long, || OTHER), OTHER);
    }
}
