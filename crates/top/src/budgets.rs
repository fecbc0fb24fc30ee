//! One client's budgets, as `/clients/{name}` of each gateway that was asked has them.

use std::cell::Cell;
use std::fmt::Write as _;

use tidegate_status::client::Report;

use crate::client::{after, before, budget, title};
use crate::table::{Row, Table};
use crate::text::{clean, wrapped};

/// A client whose budgets are asked for.
#[derive(Debug, Default)]
pub(crate) struct Budgets {
    /// Its name; cut if `is_cut`.
    pub(crate) client: String,
    /// Its name is longer than what the gateway keeps, so nothing is asked.
    is_cut: bool,
    /// In the order in which they came.
    answers: Vec<Answer>,
    /// Gateways that were asked.
    asked: usize,
    /// Which answer is shown.
    shown: usize,
    /// The first line that is shown.
    first: usize,
    /// The first line of the last page, as it was drawn last.
    last: Cell<usize>,
}

/// What a gateway said of a client.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The client that was asked for.
    pub(crate) client: String,
    /// The gateway.
    pub(crate) gateway: String,
    /// How the client stands, or why that is not known.
    pub(crate) report: Result<Report, String>,
}

impl Budgets {
    /// Of a client that this many gateways were asked for.
    pub(crate) fn asked(client: String, asked: usize) -> Self {
        Self {
            client,
            asked,
            ..Self::default()
        }
    }

    /// Of a client whose name is not known to its end.
    pub(crate) fn cut(client: String) -> Self {
        Self {
            client,
            is_cut: true,
            ..Self::default()
        }
    }

    /// Takes an answer, in place of an earlier one of the same gateway. The first that knows the client stays in view.
    pub(crate) fn take(&mut self, answer: Answer) {
        if self.is_cut || answer.client != self.client {
            return;
        }
        let is_first = !self.answers.iter().any(|it| it.report.is_ok());
        let mut gateways = self.answers.iter().map(|it| &it.gateway);
        let known = gateways.position(|gateway| *gateway == answer.gateway);
        let at = known.unwrap_or(self.answers.len());
        if is_first && answer.report.is_ok() {
            self.shown = at;
        }
        match self.answers.get_mut(at) {
            Some(known) => *known = answer,
            None => self.answers.push(answer),
        }
    }

    /// Shows the next answer, or the one before.
    pub(crate) fn turn(&mut self, forward: bool) {
        let count = self.answers.len().max(1);
        let by = if forward { 1 } else { count - 1 };
        (self.shown, self.first) = ((self.shown + by) % count, 0);
    }

    /// The first line that is shown.
    pub(crate) fn first(&self) -> usize {
        self.first.min(self.last.get())
    }

    /// Shows the lines from this one on, or the last page.
    pub(crate) fn scroll_to(&mut self, line: usize) {
        self.first = line.min(self.last.get());
    }

    /// The first line to draw, where the last page begins with this one.
    pub(crate) fn visible_from(&self, last: usize) -> usize {
        self.last.set(last);
        self.first()
    }

    /// What is shown, in lines of so many columns.
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
        if self.asked > 1 {
            let (at, all) = (self.shown + 1, self.asked);
            let text = format!("of {} ({at} of {all}; Left, Right)", answer.gateway);
            lines.extend(wrapped(&clean(&text), columns));
        }
        match &answer.report {
            Ok(report) => lines.extend(said(report, columns)),
            Err(error) => lines.extend(wrapped(&clean(error), columns)),
        }
        lines
    }
}

/// How a client stands, in lines of so many columns.
fn said(report: &Report, columns: usize) -> Vec<String> {
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

/// A client's name as one segment of a path. All but letters, digits and a few signs is escaped.
pub fn escaped(name: &str) -> String {
    name.bytes().fold(String::new(), |mut text, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte) {
            text.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
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
        let mut budgets = Budgets::asked("a".to_owned(), 2);
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
