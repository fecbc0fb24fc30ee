//! The table of clients, with their refusals, use and nearness to limits.

use std::collections::HashMap;

use tidegate_status::document::{Client, Hits, Near, Table as Listed};

use crate::table::{Row, Table, count};

/// The figures of one client in the document.
#[derive(Default)]
struct Figures<'a> {
    refused: Option<&'a Client>,
    admitted: Option<&'a Client>,
    near: Option<&'a Near>,
}

/// The rows of the table, in the order of the document. A complete name stands for one client, which has one row. A cut name (`is_cut`) may
/// stand for several clients, so each figure under this name has its own row.
#[derive(Default)]
struct Rows<'a> {
    list: Vec<(&'a str, bool, Figures<'a>)>,
    whole: HashMap<&'a str, usize>,
}

impl<'a> Rows<'a> {
    /// Returns the row for a figure of this client. Adds the row if necessary.
    fn at(&mut self, name: &'a str, is_cut: bool) -> &mut Figures<'a> {
        let next = self.list.len();
        let at = match is_cut {
            true => next,
            false => *self.whole.entry(name).or_insert(next),
        };
        if at == next {
            self.list.push((name, is_cut, Figures::default()));
        }
        &mut self.list[at].2
    }
}

/// Returns the table: first the refused clients, then other admitted clients, then other clients near a limit.
pub(crate) fn clients(hits: &Hits, near: &[Near]) -> Table {
    let mut rows = Rows::default();
    for client in &hits.refused.top {
        rows.at(&client.name, client.is_cut)
            .refused
            .get_or_insert(client);
    }
    for client in &hits.admitted.top {
        rows.at(&client.name, client.is_cut)
            .admitted
            .get_or_insert(client);
    }
    for near in near {
        // Keeps only the first limit of a client, which is the nearest.
        rows.at(&near.name, near.is_cut).near.get_or_insert(near);
    }
    let mut before: HashMap<(&str, bool), usize> = HashMap::new();
    let rows = rows.list.iter().map(|(name, is_cut, figures)| {
        let refused = figure(figures.refused, &hits.refused, name, *is_cut);
        let admitted = figure(figures.admitted, &hits.admitted, name, *is_cut);
        let is_refused = refused.1 > 0;
        let mut row = Row::new(
            name,
            [refused, admitted, nearness(figures.near)],
            is_refused,
        );
        let before = before.entry((name, *is_cut)).or_default();
        row.identity.is_cut = *is_cut;
        row.identity.before = *before;
        *before += 1;
        row
    });
    Table {
        elastic: Some(3),
        ..Table::new(["CLIENT", "REFUSED", "ADMITTED", "NEAR"], rows)
    }
}

/// Formats a figure with its error. If the client is not listed, formats an upper bound: `others_at_most`, the bound for all unlisted
/// clients. If the client's name is cut, the bound is at least the `at_most` of every listed client with the same cut name.
fn figure(client: Option<&Client>, listed: &Listed, name: &str, is_cut: bool) -> (String, u64) {
    if let Some(it) = client {
        let error = it.at_most.saturating_sub(it.at_least);
        let text = match error {
            0 => count(it.at_least),
            error => format!("{}+{}", count(it.at_least), count(error)),
        };
        return (text, it.at_least);
    }
    let same = listed.top.iter();
    let same = same.filter(|it| is_cut && it.is_cut && it.name == name);
    let most = same.map(|it| it.at_most).max().unwrap_or_default();
    match most.max(listed.others_at_most) {
        0 => (count(0), 0),
        most => (format!("<={}", count(most)), 0),
    }
}

/// Formats the limit that a client is nearest to. The returned number, by which rows are sorted, is greater if a smaller share of the limit
/// is left.
fn nearness(near: Option<&Near>) -> (String, u64) {
    let Some(near) = near else {
        return (String::new(), 0);
    };
    let text = format!("{} {}/{}", near.limit, count(near.left), count(near.of));
    let millionths = u128::from(near.left) * 1_000_000 / u128::from(near.of.max(1));
    let left = u64::try_from(millionths).unwrap_or(u64::MAX);
    (text, 1_000_001_u64.saturating_sub(left).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(name: &str, is_cut: bool, at_least: u64, at_most: u64) -> Client {
        Client {
            name: name.to_owned(),
            is_cut,
            at_least,
            at_most,
        }
    }

    #[test]
    fn a_clients_name_does_not_reach_the_terminal_as_it_is() {
        let mut hits = Hits::default();
        let hostile = "user_id:\u{1b}[2J\u{7}\u{202e}evil\r\n";
        hits.refused.top = vec![client(hostile, false, 5, 7)];
        let text = clients(&hits, &[]).text(9);
        assert!(
            text.chars().all(|char| char == '\n' || !char.is_control()),
            "{text:?}"
        );
        assert!(text.contains("5+2"), "{text}");
    }

    #[test]
    fn names_that_are_cut_are_not_taken_for_one_client() {
        let mut hits = Hits::default();
        hits.refused.top = vec![client("user_id:xx…", true, 9, 9), client("w", false, 2, 2)];
        hits.admitted.top = vec![client("user_id:xx…", true, 5, 6), client("w", false, 3, 3)];
        hits.admitted.others_at_most = 1;
        let rows = clients(&hits, &[]).rows;
        let rows: Vec<_> = rows.iter().map(|row| row.cells[..3].join(" ")).collect();
        assert_eq!(rows, ["user_id:xx… 9 <=6", "w 2 3", "user_id:xx… <=9 5+1"]);
    }

    #[test]
    fn who_is_nearest_has_the_greatest_number() {
        let near = |name: &str, left, of| Near {
            name: name.to_owned(),
            limit: "few".to_owned(),
            left,
            of,
            ..Near::default()
        };
        let all = [near("b", 1, 10), near("a", 0, 5), near("c", 1_000, 5_000)];
        let mut hits = Hits::default();
        hits.admitted.top = vec![client("far", false, 9, 9)];
        let mut rows = clients(&hits, &all).rows;
        rows.sort_by_key(|row| std::cmp::Reverse(row.numbers[3]));
        let rows: Vec<_> = rows.iter().map(|row| row.cells.join(" ")).collect();
        assert_eq!(
            rows,
            [
                "a 0 0 few 0/5",
                "b 0 0 few 1/10",
                "c 0 0 few 1,000/5,000",
                "far 0 9 "
            ]
        );
    }
}
