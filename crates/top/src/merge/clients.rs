//! Clients of several gateways. In the merged tables, each client's count is between `at_least` and `at_most`.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use tidegate_status::by_turns;
use tidegate_status::document::{Client, Clients, Near, Table};

use super::add;

/// The most clients in a table of a document.
const MOST: usize = 100;

/// Adds the clients of another gateway. After this, tables may have more than [`MOST`] clients, until [`bound`] cuts them.
pub(super) fn join(all: &mut Clients, one: Clients) {
    table(&mut all.minute.admitted, one.minute.admitted);
    table(&mut all.minute.refused, one.minute.refused);
    table(&mut all.start.admitted, one.start.admitted);
    table(&mut all.start.refused, one.start.refused);
    all.near.extend(one.near);
}

/// Cuts each table to [`MOST`] clients, and raises its `others_at_most` to the upper bounds of the dropped clients.
pub(super) fn bound(all: &mut Clients) {
    for hits in [&mut all.minute, &mut all.start] {
        for table in [&mut hits.admitted, &mut hits.refused] {
            let order = |client: &Client| Reverse((client.at_least, client.at_most));
            table.top.sort_by_key(order);
            for client in table.top.iter().skip(MOST) {
                table.others_at_most = table.others_at_most.max(client.at_most);
            }
            table.top.truncate(MOST);
        }
    }
    near(&mut all.near);
}

/// Keeps the smallest share left for each client and limit, and sorts by this share. Cut names are not joined, because they may stand for
/// several clients. Limits take turns, so that many clients near one limit do not hide the clients near another limit.
fn near(near: &mut Vec<Near>) {
    let share = |it: &Near| (u128::from(it.left) << 32) / u128::from(it.of.max(1));
    near.sort_by_key(share);
    let mut seen = HashSet::new();
    near.retain(|it| it.is_cut || seen.insert((it.name.clone(), it.limit.clone())));
    let all = std::mem::take(near);
    near.extend(by_turns(all, MOST, |it| it.limit.clone()));
}

/// The name of a client in a document, and whether it is cut.
type Name = (String, bool);

fn name(client: &Client) -> Name {
    (client.name.clone(), client.is_cut)
}

/// The figures that a table has for a name.
#[derive(Clone, Copy, Default)]
struct Figures {
    rows: usize,
    at_least: u64,
    /// The greatest upper bound of the clients with this name.
    at_most: u64,
}

/// Returns the figures for each name in a table.
fn figures(table: &Table) -> HashMap<Name, Figures> {
    let mut figures: HashMap<Name, Figures> = HashMap::new();
    for client in &table.top {
        let entry = figures.entry(name(client)).or_default();
        entry.rows += 1;
        entry.at_least = client.at_least;
        entry.at_most = entry.at_most.max(client.at_most);
    }
    figures
}

/// Joins two tables. If each table lists a whole name once, both rows are the same client, and their figures are added up. If only one
/// table lists a client, the other table's `others_at_most` is added to its upper bound.
///
/// A name that is cut or listed twice may be another client in the other table. Rows with such a name stay separate. The upper bound of
/// each row grows by the name's greatest `at_most` in the other table, or by the other table's `others_at_most` if this is greater.
fn table(all: &mut Table, one: Table) {
    let (ours, theirs) = (figures(all), figures(&one));
    let is_one = |name: &Name| {
        let rows = |figures: &HashMap<Name, Figures>| figures.get(name).map_or(1, |it| it.rows);
        !name.1 && rows(&ours) == 1 && rows(&theirs) == 1
    };
    let at_most =
        |figures: Option<&Figures>, others: u64| figures.map_or(0, |it| it.at_most).max(others);
    for client in &mut all.top {
        let name = name(client);
        match theirs.get(&name) {
            Some(same) if is_one(&name) => {
                add(&mut client.at_least, same.at_least);
                add(&mut client.at_most, same.at_most);
            }
            same => add(&mut client.at_most, at_most(same, one.others_at_most)),
        }
    }
    for mut client in one.top {
        let name = name(&client);
        let same = ours.get(&name);
        if same.is_none() || !is_one(&name) {
            add(&mut client.at_most, at_most(same, all.others_at_most));
            all.top.push(client);
        }
    }
    add(&mut all.total, one.total);
    add(&mut all.others_at_most, one.others_at_most);
}
