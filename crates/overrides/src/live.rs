//! Applies changes of overrides to a gateway. Replaces the table that requests read, recalls the slices and cached refusals of clients from
//! the store, publishes the numbers of limits, and adds events for the status page.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::io;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use tidegate_identity::{Client, ClientPlans, ListedClient};
use tidegate_net::text::cut;
use tidegate_status::document;
use tidegate_store::{Recall, Store};
use tidegate_tower::{Hasher, OverrideAction, OverrideTable};
use tokio::sync::watch;

use crate::api::Shown;
use crate::keeper::{Listener, Overrides};
use crate::name::{Subject, is_unlisted};
use crate::redis::Timing;
use crate::setting::{Change, Override};

/// The most events that wait for the status page. Beyond this number the oldest events are dropped.
const MOST_EVENTS: usize = 100;
/// The most plans that the status page lists.
const MOST_SHOWN: usize = 100;
/// The most changes for which only the slices and cached refusals of the changed clients are recalled. After more changes at once, the
/// gateway recalls the slices and cached refusals of all clients.
const MOST_CLIENTS: usize = 1_000;
/// The longest name or reason in an event, in bytes. A longer text is cut.
const MAX_TEXT: usize = 128;
/// The longest text of an action in an event and on the status page, in bytes. A longer text is cut.
const MAX_DOES: usize = 256;

/// The numbers that overrides give to limits, by the names of the limits, as operators wrote them.
pub type LimitNumbers = BTreeMap<Arc<str>, String>;

/// The overrides of a gateway, their table for requests, and their events.
#[derive(Clone, Debug)]
pub struct LiveOverrides {
    /// The overrides in force, and their changes.
    pub overrides: Arc<Overrides>,
    /// The overrides of clients and networks, as requests read them.
    pub table: OverrideTable,
    /// The numbers of limits. The gateway makes its limits from them.
    pub limits: watch::Receiver<LimitNumbers>,
    events: Arc<Mutex<VecDeque<String>>>,
}

/// The parts of a gateway that a change of overrides affects.
struct Applied {
    table: OverrideTable,
    limits: watch::Sender<LimitNumbers>,
    store: Store,
    hasher: Hasher,
    events: Arc<Mutex<VecDeque<String>>>,
}

impl LiveOverrides {
    /// Starts the overrides of a gateway with this store. Redis keeps the overrides if the store is in Redis. Otherwise `file` keeps them,
    /// or this process if `file` is `None`. Reads the current overrides.
    ///
    /// # Errors
    ///
    /// The file cannot be read or written.
    pub async fn start(store: &Store, hasher: &Hasher, file: Option<&Path>) -> io::Result<Self> {
        let (table, events) = (OverrideTable::default(), Arc::default());
        let (sender, limits) = watch::channel(LimitNumbers::default());
        let applied = Box::new(Applied {
            table: table.clone(),
            limits: sender,
            store: store.clone(),
            hasher: hasher.clone(),
            events: Arc::clone(&events),
        });
        let overrides = match store {
            Store::Redis(redis) => {
                let (servers, key_prefix) = redis.servers();
                let overrides =
                    Overrides::in_redis(servers, key_prefix, Timing::default(), applied);
                // An error is ignored here, because later reads repeat and log it.
                let _ = overrides.sync().await;
                overrides
            }
            Store::Memory(_) => Overrides::in_memory(file, applied)?,
        };
        Ok(Self {
            overrides,
            table,
            limits,
            events,
        })
    }

    /// Returns the overrides for the status page: their number, the latest ones, and the plans that new overrides may use.
    pub fn document(&self, plans: &ClientPlans) -> document::Overrides {
        let latest = self.overrides.latest();
        let shown = latest.iter().map(Shown::of).map(|it| document::Override {
            does: cut(&it.does(), MAX_DOES).to_string(),
            name: it.name,
            until: it.until,
            by: it.by,
            reason: it.reason,
            version: it.version,
        });
        let plans = plans.iter().take(MOST_SHOWN);
        document::Overrides {
            count: self.overrides.figures().in_force.all(),
            latest: shown.collect(),
            kept: self.overrides.kept().to_string(),
            plans: plans.map(|plan| plan.name().to_owned()).collect(),
        }
    }

    /// Takes the events that were added since the last call, for the status page.
    pub fn events(&self) -> Vec<String> {
        self.events.lock().drain(..).collect()
    }
}

impl Listener for Applied {
    fn changed(
        &self,
        changes: &[Change],
        are_news: bool,
        in_force: &mut dyn Iterator<Item = Override>,
    ) {
        let mut limits = LimitNumbers::default();
        let clients = in_force.filter_map(|it| match it.subject {
            Subject::Client(client) => Some((client, it.setting.action.clone())),
            Subject::Limit(name) => {
                limits.extend(numbers_of(&name, &it.setting.action).map(|text| (name, text)));
                None
            }
        });
        self.table.replace(clients);
        self.limits.send_if_modified(|before| {
            let is_modified = *before != limits;
            *before = limits;
            is_modified
        });
        if changes.is_empty() {
            return;
        }
        // The table is replaced before the recall, so that no request caches a refusal or borrows a slice under the old overrides again.
        if let Store::Redis(store) = &self.store {
            store.recall(self.concerned(changes));
        }
        if !are_news {
            return;
        }
        let mut events = self.events.lock();
        for change in changes.iter().rev().take(MOST_EVENTS).rev() {
            if events.len() == MOST_EVENTS {
                events.pop_front();
            }
            events.push_back(event(change));
        }
    }
}

impl Applied {
    /// Returns the clients whose slices and cached refusals must be recalled.
    fn concerned(&self, changes: &[Change]) -> Recall {
        if changes.len() > MOST_CLIENTS {
            return Recall::All;
        }
        let mut tags = HashSet::new();
        for change in changes {
            let client = match &change.subject {
                // The gateway changes the limit as at a reload, without a recall.
                Subject::Limit(_) => continue,
                Subject::Client(client) => client,
            };
            let client = match client {
                // The name has only the start of the API key's hash. The client's keys in Redis depend on the whole hash, so the recall
                // concerns all clients.
                subject if is_unlisted(subject) => return Recall::All,
                ListedClient::ApiKey(name) => Client::ApiKey(name.clone()),
                ListedClient::UserId(id) => Client::UserId((&**id).into()),
                ListedClient::Certificate(name) => Client::Certificate(name.clone()),
                // A network may contain many clients whose addresses are unknown, so the recall concerns all clients.
                ListedClient::Network(_) => return Recall::All,
            };
            tags.insert(self.hasher.tag(&client));
        }
        Recall::Clients(tags)
    }
}

/// Returns the numbers of an override for a limit. `None` if the override has another action, which only another version sets.
fn numbers_of(limit: &str, action: &OverrideAction) -> Option<String> {
    match action {
        OverrideAction::Set(numbers) => numbers.texts().get(limit).cloned(),
        _ => None,
    }
}

fn event(change: &Change) -> String {
    let name = change.subject.to_string();
    let name = cut(&name, MAX_TEXT);
    let by = |before: &str, by: &str| match by {
        "" => String::new(),
        by => format!("{before}by {by}"),
    };
    let because = |reason: &str| match reason {
        "" => String::new(),
        reason => format!(" ({})", cut(reason, MAX_TEXT)),
    };
    let does = |it: &Override| cut(&it.setting.action.to_string(), MAX_DOES).to_string();
    match (&change.before, &change.after, &change.cleared) {
        (_, Some(after), _) => {
            let setting = &after.setting;
            let (by, reason) = (by(", ", &setting.by), because(&setting.reason));
            format!("Override for {name}: {}{by}{reason}.", does(after))
        }
        (Some(before), None, None) => {
            format!("The override for {name} has ended: {}.", does(before))
        }
        (Some(before), None, Some(clearing)) => {
            let action = does(before);
            let (by, reason) = (by(" ", &clearing.by), because(&clearing.reason));
            format!("The override for {name} was cleared{by}{reason}: {action}.")
        }
        (None, None, _) => format!("The override for {name} has changed."),
    }
}

#[cfg(test)]
mod tests {
    use tidegate_store::MemoryStore;

    use super::*;
    use crate::name::read_name;
    use crate::setting::{Clearing, Setting};

    fn applied() -> Applied {
        Applied {
            table: OverrideTable::default(),
            limits: watch::channel(LimitNumbers::default()).0,
            store: Store::Memory(Arc::new(MemoryStore::new(1))),
            hasher: Hasher::new(""),
            events: Arc::default(),
        }
    }

    #[test]
    fn what_is_recalled_is_of_the_client_or_of_all_that_it_may_be() {
        let applied = applied();
        let change = |name: &str| Change {
            subject: read_name(name, 64).unwrap(),
            before: None,
            after: None,
            cleared: None,
        };
        let tag = |client| applied.hasher.tag(&client);
        let acme = tag(Client::ApiKey("acme".into()));
        let user = tag(Client::UserId("acme".into()));
        let clients = |tags: &[_]| Recall::Clients(tags.iter().copied().collect());
        for (names, expected) in [
            (&["api_key:acme"][..], clients(&[acme])),
            (&["api_key:acme", "limit:burst"], clients(&[acme])),
            (&["api_key:acme", "user_id:acme"], clients(&[acme, user])),
            (
                &["user_id:unlisted-1"],
                clients(&[tag(Client::UserId("unlisted-1".into()))]),
            ),
            (&["api_key:acme", "10.0.0.0/8"], Recall::All),
            // The name has only the start of the hash, so the client's tag is unknown.
            (&["api_key:unlisted-0123456789abcdef"], Recall::All),
            (&["user_id:1"; MOST_CLIENTS + 1], Recall::All),
        ] {
            let changes: Vec<_> = names.iter().map(|name| change(name)).collect();
            assert_eq!(applied.concerned(&changes), expected, "{names:?}");
        }
    }

    #[test]
    fn what_was_in_force_before_is_no_event() {
        let applied = applied();
        let change = Change {
            subject: read_name("user_id:42", 64).unwrap(),
            before: None,
            after: None,
            cleared: None,
        };
        for (are_news, events) in [(false, 0), (true, 1)] {
            applied.changed(
                std::slice::from_ref(&change),
                are_news,
                &mut std::iter::empty(),
            );
            assert_eq!(applied.events.lock().len(), events);
        }
    }

    #[test]
    fn an_event_says_who_cleared_an_override_and_which_ended_by_itself() {
        let subject = read_name("user_id:42", 64).unwrap();
        let before = Override {
            subject: subject.clone(),
            version: 1,
            ends: None,
            setting: Arc::new(Setting::new(OverrideAction::Block, "why", "alice").unwrap()),
        };
        let text = |cleared: Option<Clearing>| {
            event(&Change {
                subject: subject.clone(),
                before: Some(before.clone()),
                after: None,
                cleared: cleared.map(Arc::new),
            })
        };
        assert_eq!(text(None), "The override for user_id:42 has ended: block.");
        let by = Clearing::new("it is over", "bob").unwrap();
        assert_eq!(
            text(Some(by)),
            "The override for user_id:42 was cleared by bob (it is over): block."
        );
        assert_eq!(
            text(Some(Clearing::default())),
            "The override for user_id:42 was cleared: block."
        );
    }
}
