//! Tables whose cells are text.

use crate::text::{clean, cut_before_last, left, right, width};

/// Names up to this width take precedence over an elastic column, in columns of the terminal.
const NAME: usize = 24;
/// The least width of an elastic column, in columns of the terminal.
const ELASTIC: usize = 12;

/// A table with heads and rows. Cells of the first column are aligned left, other cells right.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    pub(crate) heads: Vec<&'static str>,
    pub(crate) rows: Vec<Row>,
    /// A line above the rows.
    pub(crate) note: Option<Note>,
    /// The text that replaces the rows of an empty table.
    pub(crate) none: &'static str,
    /// The index of the elastic column, which shrinks so that names fit. Its cells keep their last word when they are cut.
    pub(crate) elastic: Option<usize>,
}

/// A line above a table.
#[derive(Clone, Debug)]
pub(crate) struct Note {
    pub(crate) text: String,
    /// Whether it reports a problem.
    pub(crate) is_bad: bool,
}

/// The identity of a row. It does not depend on the order of the rows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    /// The name in the document.
    pub(crate) name: String,
    /// Whether the document has only a part of the name.
    pub(crate) is_cut: bool,
    /// The number of rows with the same name above this row in the document.
    pub(crate) before: usize,
}

/// A row of a table. Rows are sorted by their names, or by the number that belongs to each further cell.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) identity: Identity,
    pub(crate) cells: Vec<String>,
    pub(crate) numbers: Vec<u64>,
    /// Whether the row shows a problem.
    pub(crate) is_bad: bool,
}

impl Row {
    /// Returns a row with this name and these cells. Each cell is a text and its number.
    pub(crate) fn new<const N: usize>(name: &str, cells: [(String, u64); N], is_bad: bool) -> Self {
        let mut row = Self {
            identity: Identity {
                name: name.to_owned(),
                ..Identity::default()
            },
            cells: vec![clean(name)],
            numbers: vec![0],
            is_bad,
        };
        for (cell, number) in cells {
            row.cells.push(clean(&cell));
            row.numbers.push(number);
        }
        row
    }
}

impl Table {
    /// Returns a table with these rows.
    pub(crate) fn new<const N: usize>(
        heads: [&'static str; N],
        rows: impl IntoIterator<Item = Row>,
    ) -> Self {
        Self {
            heads: heads.to_vec(),
            rows: rows.into_iter().collect(),
            note: None,
            none: "none",
            elastic: None,
        }
    }

    /// Formats the table as lines of text, with at most `most` rows.
    pub(crate) fn text(&self, most: usize) -> String {
        let mut text = String::new();
        if let Some(note) = &self.note {
            text.push_str(&format!("  {}\n", clean(&note.text)));
        }
        let heads: Vec<String> = self.heads.iter().map(|head| (*head).to_owned()).collect();
        let rows = &self.rows[..self.rows.len().min(most)];
        let lines = match rows.is_empty() {
            true => vec![self.none.to_owned()],
            false => self.lines(&heads, rows, None),
        };
        for line in lines.iter().filter(|line| !line.is_empty()) {
            text.push_str(&format!("  {}\n", line.trim_end()));
        }
        text
    }

    /// Formats the heads and the rows as lines. If `columns` is set, names and the elastic column are cut so that a line fits.
    pub(crate) fn lines(
        &self,
        heads: &[String],
        rows: &[Row],
        columns: Option<usize>,
    ) -> Vec<String> {
        let mut widths: Vec<usize> = heads.iter().map(|head| width(head)).collect();
        for row in rows {
            for (widest, cell) in widths.iter_mut().zip(&row.cells) {
                *widest = width(cell).max(*widest);
            }
        }
        if let Some(columns) = columns {
            self.fit(&mut widths, columns);
        }
        let cells = std::iter::once(heads).chain(rows.iter().map(|row| &*row.cells));
        cells.map(|cells| self.line(cells, &widths)).collect()
    }

    /// Reduces widths so that a line fits into `columns`.
    fn fit(&self, widths: &mut [usize], columns: usize) {
        let others = |widths: &[usize]| widths.iter().skip(1).map(|width| width + 2).sum::<usize>();
        let Some(names) = widths.first().copied() else {
            return;
        };
        if let Some(elastic) = self.elastic.filter(|column| *column < widths.len()) {
            let rest = others(widths) - widths[elastic] + names.min(NAME);
            let room = columns.saturating_sub(rest).max(ELASTIC);
            widths[elastic] = widths[elastic].min(room);
        }
        widths[0] = columns.saturating_sub(others(widths)).max(8);
    }

    fn line(&self, cells: &[String], widths: &[usize]) -> String {
        let mut line = String::new();
        for (column, (cell, width)) in cells.iter().zip(widths).enumerate() {
            match column {
                0 => line.push_str(&left(cell, *width)),
                _ => {
                    line.push_str("  ");
                    let cell = match self.elastic == Some(column) {
                        true => cut_before_last(cell, *width),
                        false => cell.clone(),
                    };
                    line.push_str(&right(&cell, *width));
                }
            }
        }
        line
    }
}

/// Formats a number with [`count`]. Returns it as a cell.
pub(crate) fn plain(number: u64) -> (String, u64) {
    (count(number), number)
}

/// Formats a number with a comma between thousands.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_easy_to_read() {
        let texts = [0, 999, 1_000, 12_345_678].map(count);
        assert_eq!(texts, ["0", "999", "1,000", "12,345,678"]);
    }

    #[test]
    fn a_long_limit_leaves_room_for_names() {
        let near = format!("{} 0/20", "l".repeat(50));
        let name = "user_id:a-name-of-twenty";
        let mut table = Table::new(
            ["CLIENT", "REFUSED", "NEAR"],
            [Row::new(name, [plain(7), (near, 1)], false)],
        );
        table.elastic = Some(2);
        let heads = table.heads.clone();
        let heads: Vec<String> = heads.into_iter().map(str::to_owned).collect();
        let lines = table.lines(&heads, &table.rows, Some(78));
        assert!(lines[1].starts_with(name), "{lines:#?}");
        assert!(lines[1].ends_with("l… 0/20"), "{lines:#?}");
        assert!(lines.iter().all(|line| width(line) == 78), "{lines:#?}");
    }
}
