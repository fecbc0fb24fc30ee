//! The budgets of one client, from `/clients/{name}` of each gateway.

use std::cell::Cell;
use std::fmt::Write as _;

use tidegate_status::client::Report;

use crate::client::{after, before, budget, title};
use crate::table::{Row, Table};
use crate::text::{clean, wrapped};

/// The budgets of one client, with one answer from each gateway.
#[derive(Debug, Default)]
pub(crate) struct Budgets {
    /// The client's name. It is incomplete if `is_cut`.
    pub(crate) client: String,
    /// Whether gateways keep only the start of the name. If so, no gateway is called.
    is_cut: bool,
    /// The answers, in the order in which they arrived.
    answers: Vec<Answer>,
    /// The number of gateways that were called.
    calls: usize,
    /// The index in `answers` of the answer in view.
    shown: usize,
    /// The first line in view.
    first: usize,
    /// The first line of the last page, as computed when the view was last drawn.
    last: Cell<usize>,
}

/// A gateway's answer about a client.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The client's name, as it was sent to the gateway.
    pub(crate) client: String,
    /// The name of the gateway.
    pub(crate) gateway: String,
    /// The client's budgets, or an error.
    pub(crate) report: Result<Report, String>,
}

impl Budgets {
    /// Returns an empty view of a client's budgets. `calls` is the number of gateways that were called.
    pub(crate) fn new(client: String, calls: usize) -> Self {
        Self {
            client,
            calls,
            ..Self::default()
        }
    }

    /// Returns the view for a client whose name is cut.
    pub(crate) fn cut(client: String) -> Self {
        Self {
            client,
            is_cut: true,
            ..Self::default()
        }
    }

    /// Adds an answer, or replaces the gateway's earlier answer. The view shows the first answer with a report. Later answers do not switch
    /// the view to another gateway.
    pub(crate) fn take(&mut self, answer: Answer) {
        if self.is_cut || answer.client != self.client {
            return;
        }
        let is_first = !self.answers.iter().any(|it| it.report.is_ok());
        let mut gateways = self.answers.iter().map(|it| &it.gateway);
        let place = gateways.position(|gateway| *gateway == answer.gateway);
        let at = place.unwrap_or(self.answers.len());
        if is_first && answer.report.is_ok() {
            self.shown = at;
        }
        match self.answers.get_mut(at) {
            Some(entry) => *entry = answer,
            None => self.answers.push(answer),
        }
    }

    /// Shows the next or the previous answer.
    pub(crate) fn turn(&mut self, forward: bool) {
        let count = self.answers.len().max(1);
        let by = if forward { 1 } else { count - 1 };
        (self.shown, self.first) = ((self.shown + by) % count, 0);
    }

    /// Returns the first line in view.
    pub(crate) fn first(&self) -> usize {
        self.first.min(self.last.get())
    }

    /// Shows the lines from this line on, but never beyond the last page.
    pub(crate) fn scroll_to(&mut self, line: usize) {
        self.first = line.min(self.last.get());
    }

    /// Stores the first line of the last page. Returns the first line to draw.
    pub(crate) fn visible_from(&self, last: usize) -> usize {
        self.last.set(last);
        self.first()
    }

    /// Returns the text in view as lines of at most `columns`.
    pub(crate) fn lines(&self, columns: usize) -> Vec<String> {
        if self.is_cut {
            let text = "This name is longer than what the gateway keeps of a name, so its budgets cannot be asked for here. \
                        `tidegate client NAME show` with the whole name shows them.";
            return wrapped(text, columns);
        }
        let Some(answer) = self.answers.get(self.shown) else {
            return vec!["asking…".to_owned()];
        };
        let mut lines = Vec::new();
        if self.calls > 1 {
            let (at, all) = (self.shown + 1, self.calls);
            let text = format!("of {} ({at} of {all}; Left, Right)", answer.gateway);
            lines.extend(wrapped(&clean(&text), columns));
        }
        match &answer.report {
            Ok(report) => lines.extend(text_of(report, columns)),
            Err(error) => lines.extend(wrapped(&clean(error), columns)),
        }
        lines
    }
}

/// Formats a report as lines of at most `columns`.
fn text_of(report: &Report, columns: usize) -> Vec<String> {
    let rows = report.limits.iter().map(|limit| {
        let [name, figures @ ..] = budget(limit);
        Row::new(&name, figures.map(|figure| (figure, 0)), false)
    });
    let table = Table::new(["LIMIT", "LEFT", "OF", "ALL BACK", "NEXT"], rows);
    let wrapped = |text: String| wrapped(&clean(&text), columns);
    let mut lines = Vec::new();
    if report.plan.is_some() {
        lines.extend(wrapped(title(report)));
    }
    lines.extend(before(report).into_iter().flat_map(wrapped));
    if !table.rows.is_empty() {
        let heads: Vec<String> = table.heads.iter().map(|it| (*it).to_owned()).collect();
        lines.extend(table.lines(&heads, &table.rows, Some(columns)));
    }
    lines.extend(after(report, false).into_iter().flat_map(wrapped));
    lines
}

/// Percent-encodes a client's name for one segment of a path: every byte except letters, digits and `-._~:`.
pub fn escaped(name: &str) -> String {
    name.bytes().fold(String::new(), |mut text, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte) {
            text.push(char::from(byte));
        } else {
            // A write to a String cannot fail.
            let _ = write!(text, "%{byte:02X}");
        }
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_that_is_asked_twice_has_one_answer() {
        let mut budgets = Budgets::new("a".to_owned(), 2);
        for (gateway, error) in [
            ("one", "the first"),
            ("one", "the second"),
            ("other", "the first"),
            ("other", "the second"),
        ] {
            budgets.take(Answer {
                client: "a".to_owned(),
                gateway: gateway.to_owned(),
                report: Err(error.to_owned()),
            });
        }
        for first in [
            "of one (1 of 2; Left, Right)",
            "of other (2 of 2; Left, Right)",
            "of one (1 of 2; Left, Right)",
        ] {
            assert_eq!(budgets.lines(80), [first, "the second"]);
            budgets.turn(true);
        }
    }
}
