//! Draws the view.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style, Stylize as _};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph};
use tidegate_status::document::State;

use super::View;
use crate::budgets::Budgets;
use crate::headline::{headline, reason};
use crate::table::Table;
use crate::tabs::{Tab, Window};
use crate::text::{clean, cut, wrapped};

/// The most lines for one reason or one error.
const LINES: usize = 3;

const HELP: [&str; 14] = [
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
    "<=3: 3 at most",
    "In budgets: j, k scroll; Left, Right: another",
    "gateway; Esc closes",
];

impl View {
    pub(crate) fn draw(&self, frame: &mut Frame<'_>) {
        let columns = usize::from(frame.area().width);
        let (head, foot) = (self.head(columns), self.foot(columns));
        let [head_area, tabs, body, foot_area] = Layout::vertical([
            Constraint::Length(lines(head.len())),
            Constraint::Length(1),
            Constraint::Min(1),
            Constraint::Length(lines(foot.len())),
        ])
        .areas(frame.area());
        frame.render_widget(Paragraph::new(head), head_area);
        frame.render_widget(self.tabs(), tabs);
        if self.status.is_some() {
            draw_table(self, frame, &self.table(), body);
        } else {
            frame.render_widget(Paragraph::new(self.nothing(columns)), body);
        }
        frame.render_widget(Paragraph::new(foot), foot_area);
        if let Some(client) = &self.client {
            draw_client(frame, client);
        }
        if self.shows_help {
            let area = popup(frame.area(), 52, lines(HELP.len() + 2));
            frame.render_widget(Clear, area);
            let text = HELP.iter().map(|line| Line::from(format!(" {line}")));
            let help = Paragraph::new(text.collect::<Vec<_>>());
            frame.render_widget(help.block(Block::bordered().title(" Keys ")), area);
        }
    }

    /// Returns the lines with the state, and with the reason for it.
    fn head(&self, columns: usize) -> Vec<Line<'static>> {
        let Some(status) = &self.status else {
            return vec![Line::from("tidegate top").bold()];
        };
        let style = match status.health.state {
            State::Ok => Style::new().green(),
            State::Warning => Style::new().yellow(),
            State::Failing => Style::new().red(),
        };
        let line = headline(status, self.gateways());
        let mut lines: Vec<_> = wrapped(&line, columns)
            .into_iter()
            .map(|line| Line::styled(line, style.bold()))
            .collect();
        if let Some(reason) = reason(status) {
            let reason = bounded(&reason, columns);
            lines.extend(reason.into_iter().map(|line| Line::styled(line, style)));
        }
        lines
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

    /// Returns the errors of gateways that do not answer.
    fn errors(&self) -> impl Iterator<Item = &String> {
        let answers = self.latest.iter().flatten();
        answers.filter_map(|answer| answer.as_ref().err())
    }

    /// Returns the text that replaces the table until a gateway has answered.
    fn nothing(&self, columns: usize) -> Vec<Line<'static>> {
        let errors = self.errors().flat_map(|error| bounded(error, columns));
        let mut lines: Vec<_> = errors.map(|line| Line::from(line).red()).collect();
        if self.latest.iter().any(Option::is_none) {
            lines.push(Line::from("  asking…"));
        }
        lines
    }

    /// Returns the lines at the bottom: the first error of a gateway, and the filter or the list of keys.
    fn foot(&self, columns: usize) -> Vec<Line<'static>> {
        let mut lines = Vec::new();
        let mut errors = self.errors();
        if self.status.is_some()
            && let Some(first) = errors.next()
        {
            let text = match errors.count() {
                0 => first.clone(),
                more => format!("{first} (and {more} more gateways do not answer)"),
            };
            let text = bounded(&text, columns);
            lines.extend(text.into_iter().map(|line| Line::from(line).red()));
        }
        if self.is_typing {
            lines.push(Line::from(format!("/{}", clean(&self.filter))));
            return lines;
        }
        let mut text =
            "? help  q quit  Enter budgets  s sort  r reverse  / filter  m span".to_owned();
        if !self.filter.is_empty() {
            text = format!("filter: {}   Esc clears it", clean(&self.filter));
        }
        if self.is_paused {
            text.insert_str(0, "PAUSED  ");
        }
        lines.push(Line::from(text).dim());
        lines
    }
}

fn draw_table(view: &View, frame: &mut Frame<'_>, table: &Table, area: Rect) {
    let mut lines = Vec::new();
    if let Some(note) = &table.note {
        let text = format!(" {}", clean(&note.text));
        lines.push(Line::styled(text, warning(note.is_bad)));
    }
    let room = usize::from(area.height)
        .saturating_sub(lines.len() + 1)
        .max(1);
    let first = view.selected.saturating_sub(room - 1);
    let sorted = view.column % table.heads.len().max(1);
    let mut heads: Vec<String> = table.heads.iter().map(|head| (*head).to_owned()).collect();
    if let Some(head) = heads.get_mut(sorted) {
        head.push(if view.is_reversed { '^' } else { 'v' });
    }
    let shown = table.rows.iter().skip(first).take(room);
    let rows: Vec<_> = shown.cloned().collect();
    let columns = usize::from(area.width).saturating_sub(2);
    let mut texts = table.lines(&heads, &rows, Some(columns)).into_iter();
    if !rows.is_empty() || !table.none.is_empty() {
        let heads = texts.next().unwrap_or_default();
        lines.push(Line::from(format!(" {heads}")).bold());
    }
    for ((at, row), text) in (first..).zip(&rows).zip(texts) {
        let mut style = warning(row.is_bad);
        if view.selected == at {
            style = style.add_modifier(Modifier::REVERSED);
        }
        lines.push(Line::styled(format!(" {text}"), style));
    }
    if rows.is_empty() {
        lines.push(Line::from(format!("  {}", table.none)).dim());
    }
    frame.render_widget(Paragraph::new(lines), area);
}

/// Returns the style of a text, with a colour if `is_bad`.
fn warning(is_bad: bool) -> Style {
    match is_bad {
        true => Style::new().yellow(),
        false => Style::new(),
    }
}

fn draw_client(frame: &mut Frame<'_>, client: &Budgets) {
    let area = popup(frame.area(), 76, 18);
    frame.render_widget(Clear, area);
    let columns = usize::from(area.width).saturating_sub(4);
    let title = cut(&clean(&client.client), columns.saturating_sub(2));
    let mut block = Block::bordered().title(format!(" {title} "));
    let inner = block.inner(area);
    let text = client.lines(columns);
    let room = usize::from(inner.height);
    let first = client.visible_from(text.len().saturating_sub(room));
    if text.len() > room {
        let (from, to, all) = (first + 1, first + room, text.len());
        block = block.title_bottom(format!(" lines {from} to {to} of {all}; j, k "));
    }
    frame.render_widget(block, area);
    let shown = text.iter().skip(first).take(room);
    let shown: Vec<_> = shown.map(|line| Line::from(format!(" {line}"))).collect();
    frame.render_widget(Paragraph::new(shown), inner);
}

/// Wraps a text into lines that are shorter than `columns`. Cuts it after [`LINES`] lines.
fn bounded(text: &str, columns: usize) -> Vec<String> {
    let mut lines = wrapped(&clean(text), columns.saturating_sub(1));
    if lines.len() > LINES {
        let rest = lines.split_off(LINES - 1).join(" ");
        lines.push(cut(&rest, columns));
    }
    lines
}

fn lines(count: usize) -> u16 {
    u16::try_from(count).unwrap_or(u16::MAX)
}

/// Returns an area in the middle of the screen, no larger than the screen.
fn popup(area: Rect, width: u16, height: u16) -> Rect {
    let (width, height) = (width.min(area.width), height.min(area.height));
    Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    }
}
