//! The view: what it shows, and what keys do.

use ratatui::Frame;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style, Stylize as _};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph};
use tidegate_status::document::{State, Status};

use crate::budgets::Budgets;
use crate::merge::merged;
use crate::reader::{Latest, Reader};
use crate::table::{Row, Tab, Table, Window, clean, headline};

const HELP: [&str; 11] = [
    "1 to 5, Tab     another tab",
    "j, k, arrows    move; g, G: first, last",
    "Enter           budgets of the client",
    "s               sort by the next column",
    "r               reverse the order",
    "/               filter by name; Esc clears",
    "m               last minute, or since the start",
    "space           pause",
    "?               this help",
    "q, Ctrl-C       quit",
    "5+2: 5 at least, 7 at most",
];

/// What the view shows.
#[derive(Debug)]
pub(crate) struct View {
    tab: Tab,
    window: Window,
    column: usize,
    is_reversed: bool,
    selected: usize,
    filter: String,
    is_typing: bool,
    is_paused: bool,
    shows_help: bool,
    client: Option<(String, Option<Result<Budgets, String>>)>,
    latest: Vec<Latest>,
}

impl View {
    pub(crate) const fn new() -> Self {
        Self {
            tab: Tab::Clients,
            window: Window::Minute,
            column: 1,
            is_reversed: false,
            selected: 0,
            filter: String::new(),
            is_typing: false,
            is_paused: false,
            shows_help: false,
            client: None,
            latest: Vec::new(),
        }
    }

    /// Takes what was read, unless the view is paused.
    pub(crate) fn take(&mut self, reader: &Reader) {
        if !self.is_paused {
            self.latest = reader.latest();
        }
        if let (Some((asked, answer)), Some((client, budgets))) =
            (&mut self.client, reader.answer())
            && *asked == client
        {
            *answer = Some(budgets);
        }
    }

    /// Takes a key; whether it is the last one.
    pub(crate) fn press(&mut self, key: KeyEvent, reader: &Reader) -> bool {
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return true;
        }
        if self.is_typing {
            match key.code {
                KeyCode::Char(char) if self.filter.len() < 64 => self.filter.push(char),
                KeyCode::Backspace => drop(self.filter.pop()),
                KeyCode::Enter => self.is_typing = false,
                KeyCode::Esc => {
                    self.is_typing = false;
                    self.filter.clear();
                }
                _ => {}
            }
            self.selected = 0;
            return false;
        }
        let rows = self
            .status()
            .map_or(0, |status| self.table(&status).rows.len());
        match key.code {
            KeyCode::Char('q') => return true,
            KeyCode::Esc if self.client.is_some() || self.shows_help => {
                self.client = None;
                self.shows_help = false;
            }
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char('?') => self.shows_help = !self.shows_help,
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Char(' ') => self.is_paused = !self.is_paused,
            KeyCode::Char('r') => self.is_reversed = !self.is_reversed,
            KeyCode::Char('s') => self.column += 1,
            KeyCode::Char('m') => {
                self.window = match self.window {
                    Window::Minute => Window::Start,
                    Window::Start => Window::Minute,
                };
            }
            KeyCode::Char('j') | KeyCode::Down => {
                self.selected = (self.selected + 1).min(rows.saturating_sub(1));
            }
            KeyCode::Char('k') | KeyCode::Up => self.selected = self.selected.saturating_sub(1),
            KeyCode::Char('g') | KeyCode::Home => self.selected = 0,
            KeyCode::Char('G') | KeyCode::End => self.selected = rows.saturating_sub(1),
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

    fn turn(&mut self, by: usize) {
        let at = Tab::ALL.iter().position(|tab| *tab == self.tab);
        self.show(Tab::ALL[(at.unwrap_or_default() + by) % Tab::ALL.len()]);
    }

    fn show(&mut self, tab: Tab) {
        (self.tab, self.column, self.selected, self.client) = (tab, 1, 0, None);
    }

    fn ask(&mut self, reader: &Reader) {
        let Some(status) = self.status() else { return };
        let table = self.table(&status);
        if let Some(row) = table.rows.get(self.selected) {
            let clients = [&status.clients.minute, &status.clients.start];
            let mut all = clients
                .iter()
                .flat_map(|hits| hits.refused.top.iter().chain(&hits.admitted.top));
            // The cell is shown without control characters; the gateway is asked for the name itself.
            if let Some(client) = all.find(|client| clean(&client.name) == row.cells[0]) {
                reader.ask(&client.name);
                self.client = Some((client.name.clone(), None));
            }
        }
    }

    /// All gateways that answered, as one.
    fn status(&self) -> Option<Status> {
        let answers = self
            .latest
            .iter()
            .filter_map(|latest| latest.answer.clone());
        merged(answers.filter_map(Result::ok))
    }

    /// The rows of the tab that pass the filter, sorted.
    fn table(&self, status: &Status) -> Table {
        let mut table = self.tab.table(status, self.window);
        table.rows.retain(|row| row.cells[0].contains(&self.filter));
        let column = self.column % table.heads.len().max(1);
        let order = |one: &Row, other: &Row| match column {
            0 => one.cells[0].cmp(&other.cells[0]),
            _ => other.numbers[column].cmp(&one.numbers[column]),
        };
        // Stable: what is equal stays in the order of the gateway.
        table.rows.sort_by(order);
        if self.is_reversed {
            table.rows.reverse();
        }
        table
    }

    pub(crate) fn draw(&self, frame: &mut Frame<'_>) {
        let [head, tabs, body, foot] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(1),
            Constraint::Min(1),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        let status = self.status();
        let gateways = self.latest.iter();
        let gateways = gateways.filter(|latest| matches!(latest.answer, Some(Ok(_))));
        match &status {
            Some(status) => {
                let style = match status.health.state {
                    State::Ok => Style::new().green(),
                    State::Warning => Style::new().yellow(),
                    State::Failing => Style::new().red(),
                };
                let line = headline(status, gateways.count());
                frame.render_widget(Line::styled(line, style.bold()), head);
            }
            None => frame.render_widget(Line::from("tidegate top").bold(), head),
        }
        frame.render_widget(self.tabs(), tabs);
        if let Some(status) = &status {
            self.draw_table(frame, &self.table(status), body, Some(self.selected));
        } else if self.latest.iter().all(|latest| latest.answer.is_none()) {
            frame.render_widget("  asking…", body);
        }
        frame.render_widget(self.foot(), foot);
        if let Some((client, answer)) = &self.client {
            self.draw_client(frame, client, answer.as_ref());
        }
        if self.shows_help {
            let area = popup(frame.area(), 52, HELP.len() as u16 + 2);
            frame.render_widget(Clear, area);
            let lines: Vec<Line<'_>> = HELP
                .iter()
                .map(|line| Line::from(format!(" {line}")))
                .collect();
            frame.render_widget(
                Paragraph::new(lines).block(Block::bordered().title(" Keys ")),
                area,
            );
        }
    }

    fn tabs(&self) -> Line<'_> {
        let mut line = Line::default();
        for (number, tab) in (1..).zip(Tab::ALL) {
            let style = match tab == self.tab {
                true => Style::new().add_modifier(Modifier::REVERSED),
                false => Style::new(),
            };
            line.push_span(Span::styled(format!(" {number} {} ", tab.title()), style));
        }
        if self.tab == Tab::Clients {
            line.push_span(match self.window {
                Window::Minute => "   last minute",
                Window::Start => "   since the start",
            });
        }
        line
    }

    /// What does not answer, what is typed, or the keys.
    fn foot(&self) -> Line<'_> {
        if self.is_typing {
            return Line::from(format!("/{}", clean(&self.filter)));
        }
        for latest in &self.latest {
            if let Some(Err(error)) = &latest.answer {
                return Line::from(clean(&format!("{}: {error}", latest.name))).red();
            }
        }
        let mut text =
            "? help  q quit  Enter budgets  s sort  r reverse  / filter  m span".to_owned();
        if !self.filter.is_empty() {
            text = format!("filter: {}   Esc clears it", clean(&self.filter));
        }
        if self.is_paused {
            text.insert_str(0, "PAUSED  ");
        }
        Line::from(text).dim()
    }

    fn draw_table(
        &self,
        frame: &mut Frame<'_>,
        table: &Table,
        area: Rect,
        selected: Option<usize>,
    ) {
        let room = usize::from(area.height.saturating_sub(1)).max(1);
        let first = selected.map_or(0, |selected| selected.saturating_sub(room - 1));
        let mut shown = table.clone();
        shown.rows = table.rows.iter().skip(first).take(room).cloned().collect();
        let sorted = selected.map(|_| self.column % table.heads.len().max(1));
        let marked = |(column, head): (usize, &&'static str)| match sorted == Some(column) {
            true if self.is_reversed => format!("{head}^"),
            true => format!("{head}v"),
            false => (*head).to_owned(),
        };
        let heads: Vec<String> = shown.heads.iter().enumerate().map(marked).collect();
        let width = |column: usize| {
            let cells = shown
                .rows
                .iter()
                .map(|row| row.cells[column].chars().count());
            cells.chain([heads[column].len()]).max().unwrap_or_default()
        };
        let mut widths: Vec<usize> = (0..heads.len()).map(width).collect();
        // The names get what the numbers leave.
        let others: usize = widths.iter().skip(1).map(|width| width + 2).sum();
        if let Some(name) = widths.first_mut() {
            *name = usize::from(area.width).saturating_sub(others + 2).max(8);
        }
        let line = |cells: &[String]| {
            let mut text = String::from(" ");
            for (column, (cell, width)) in cells.iter().zip(&widths).enumerate() {
                let cell: String = cell.chars().take(*width).collect();
                match column {
                    0 => text.push_str(&format!("{cell:<width$}")),
                    _ => text.push_str(&format!("  {cell:>width$}")),
                }
            }
            text
        };
        let mut lines = vec![Line::from(line(&heads)).bold()];
        for (at, row) in shown.rows.iter().enumerate() {
            let mut style = if row.is_bad {
                Style::new().yellow()
            } else {
                Style::new()
            };
            if selected == Some(first + at) {
                style = style.add_modifier(Modifier::REVERSED);
            }
            lines.push(Line::styled(line(&row.cells), style));
        }
        if shown.rows.is_empty() {
            lines.push(Line::from("  none").dim());
        }
        frame.render_widget(Paragraph::new(lines), area);
    }

    fn draw_client(
        &self,
        frame: &mut Frame<'_>,
        client: &str,
        answer: Option<&Result<Budgets, String>>,
    ) {
        let area = popup(frame.area(), 76, 18);
        frame.render_widget(Clear, area);
        let block = Block::bordered().title(format!(" {} ", clean(client)));
        let inner = block.inner(area);
        frame.render_widget(block, area);
        match answer {
            None => frame.render_widget(" asking…", inner),
            Some(Err(error)) => frame.render_widget(Line::from(clean(error)).red(), inner),
            Some(Ok(budgets)) => {
                let [table, note] =
                    Layout::vertical([Constraint::Min(1), Constraint::Length(1)]).areas(inner);
                self.draw_table(frame, &budgets.table(), table, None);
                frame.render_widget(Line::from(clean(&budgets.note())).dim(), note);
            }
        }
    }
}

/// An area in the middle, no larger than there is room.
fn popup(area: Rect, width: u16, height: u16) -> Rect {
    let (width, height) = (width.min(area.width), height.min(area.height));
    Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    }
}

#[cfg(test)]
mod tests;
