//! The view: its contents, and the keys that change it.

mod draw;
#[cfg(test)]
mod tests;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use tidegate_status::document::Status;

use crate::budgets::Budgets;
use crate::headline::Gateways;
use crate::merge::merged;
use crate::reader::{Latest, Reader};
use crate::table::{Identity, Table};
use crate::tabs::{Tab, Window};

/// The number of lines of budgets by which a page key scrolls.
const PAGE: usize = 10;

/// The state of the view.
#[derive(Debug, Default)]
pub(crate) struct View {
    tab: Tab,
    window: Window,
    column: usize,
    is_reversed: bool,
    selected: usize,
    /// The identity of the row that stays selected when rows change places. If `None`, the top place stays selected, whichever row is
    /// there.
    followed: Option<Identity>,
    filter: String,
    is_typing: bool,
    is_paused: bool,
    shows_help: bool,
    client: Option<Budgets>,
    latest: Vec<Latest>,
    /// The number of answers that the reader had received when `latest` was taken.
    changes: u64,
    /// The merged documents of all gateways that answered.
    status: Option<Status>,
}

impl View {
    pub(crate) fn new() -> Self {
        Self {
            column: 1,
            ..Self::default()
        }
    }

    /// Takes new documents of the gateways, unless the view is paused. Takes answers about a client's budgets even while the view is
    /// paused.
    pub(crate) fn take(&mut self, reader: &Reader) {
        if !self.is_paused
            && let Some((changes, latest)) = reader.latest(self.changes)
        {
            (self.changes, self.latest) = (changes, latest);
            self.merge();
        }
        while let Some(answer) = reader.answer() {
            if let Some(client) = &mut self.client {
                client.take(answer);
            }
        }
    }

    fn merge(&mut self) {
        let up = self.latest.iter().flatten().flatten();
        self.status = merged(up.map(|status| Status::clone(status)));
        self.select_again();
    }

    /// Processes a key. Returns whether the program is to end.
    pub(crate) fn press(&mut self, key: KeyEvent, reader: &Reader) -> bool {
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return true;
        }
        if self.is_typing {
            self.type_filter(key.code);
            return false;
        }
        if self.client.is_some() && self.press_in_budgets(key.code) {
            return false;
        }
        match key.code {
            KeyCode::Char('q') => return true,
            KeyCode::Esc if self.shows_help => self.shows_help = false,
            KeyCode::Esc => {
                self.filter.clear();
                self.select_again();
            }
            KeyCode::Char('?') => self.shows_help = !self.shows_help,
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Char(' ') => self.is_paused = !self.is_paused,
            KeyCode::Char('r') => {
                self.is_reversed = !self.is_reversed;
                self.select_again();
            }
            KeyCode::Char('s') => {
                self.column += 1;
                self.select_again();
            }
            KeyCode::Char('m') => {
                self.window = match self.window {
                    Window::Minute => Window::Start,
                    Window::Start => Window::Minute,
                };
                self.select_again();
            }
            KeyCode::Char('j') | KeyCode::Down => self.select(self.selected + 1),
            KeyCode::Char('k') | KeyCode::Up => self.select(self.selected.saturating_sub(1)),
            KeyCode::Char('g') | KeyCode::Home => (self.selected, self.followed) = (0, None),
            KeyCode::Char('G') | KeyCode::End => self.select(usize::MAX),
            KeyCode::Tab | KeyCode::Right => self.turn(1),
            KeyCode::BackTab | KeyCode::Left => self.turn(Tab::ALL.len() - 1),
            KeyCode::Char(digit @ '1'..='5') => {
                self.show(Tab::ALL[digit as usize - '1' as usize]);
            }
            KeyCode::Enter if self.tab == Tab::Clients => self.ask(reader),
            _ => {}
        }
        false
    }

    fn type_filter(&mut self, key: KeyCode) {
        match key {
            KeyCode::Char(char) if self.filter.len() < 64 => self.filter.push(char),
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.is_typing = false;
                self.filter.clear();
            }
            _ => {}
        }
        (self.selected, self.followed) = (0, None);
    }

    /// Processes a key while budgets are shown. Returns false if the view of budgets does not use the key.
    fn press_in_budgets(&mut self, key: KeyCode) -> bool {
        let Some(client) = &mut self.client else {
            return false;
        };
        match key {
            KeyCode::Esc => self.client = None,
            KeyCode::Char('j') | KeyCode::Down => client.scroll_to(client.first() + 1),
            KeyCode::Char('k') | KeyCode::Up => {
                client.scroll_to(client.first().saturating_sub(1));
            }
            KeyCode::PageDown => client.scroll_to(client.first() + PAGE),
            KeyCode::PageUp => client.scroll_to(client.first().saturating_sub(PAGE)),
            KeyCode::Char('g') | KeyCode::Home => client.scroll_to(0),
            KeyCode::Char('G') | KeyCode::End => client.scroll_to(usize::MAX),
            KeyCode::Right => client.turn(true),
            KeyCode::Left => client.turn(false),
            _ => return false,
        }
        true
    }

    fn turn(&mut self, by: usize) {
        self.show(Tab::ALL[(self.tab as usize + by) % Tab::ALL.len()]);
    }

    fn show(&mut self, tab: Tab) {
        (self.tab, self.column, self.client) = (tab, 1, None);
        (self.selected, self.followed) = (0, None);
    }

    /// Selects the row at this index. If the index is too large, selects the last row.
    fn select(&mut self, at: usize) {
        let rows = self.table().rows;
        self.selected = at.min(rows.len().saturating_sub(1));
        self.followed = rows.get(self.selected).map(|row| row.identity.clone());
    }

    /// Finds the selected row again after the rows have changed. If that row is gone, selects the row that is now at its index.
    fn select_again(&mut self) {
        let rows = self.table().rows;
        let identity = self.followed.as_ref();
        let place = identity.and_then(|it| rows.iter().position(|row| row.identity == *it));
        match (place, identity) {
            (Some(place), _) => self.selected = place,
            (None, Some(_)) => self.select(self.selected),
            (None, None) => self.selected = 0,
        }
    }

    fn ask(&mut self, reader: &Reader) {
        let Some(row) = self.table().rows.into_iter().nth(self.selected) else {
            return;
        };
        let Identity { name, is_cut, .. } = row.identity;
        self.client = Some(match is_cut {
            true => Budgets::cut(name),
            false => {
                let calls = reader.ask(&name);
                Budgets::new(name, calls)
            }
        });
    }

    /// Counts all gateways, and the gateways whose last answer is a valid `/status.json`.
    fn gateways(&self) -> Gateways {
        Gateways {
            answering: self.latest.iter().flatten().filter(|it| it.is_ok()).count(),
            all: self.latest.len(),
        }
    }

    /// Returns the rows of the tab that match the filter, sorted.
    fn table(&self) -> Table {
        let Some(status) = &self.status else {
            return Table::default();
        };
        let mut table = self.tab.table(status, self.window);
        table.rows.retain(|row| row.cells[0].contains(&self.filter));
        let column = self.column % table.heads.len().max(1);
        // The sort is stable, so equal rows keep the order of the document.
        table.rows.sort_by(|one, other| match column {
            0 => one.cells[0].cmp(&other.cells[0]),
            _ => other.numbers[column].cmp(&one.numbers[column]),
        });
        if self.is_reversed {
            table.rows.reverse();
        }
        table
    }
}
