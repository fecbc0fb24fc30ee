//! Tables of figures. A figure is the cost of some work minus the cost of other work.

use crate::callgrind;
pub(crate) use crate::callgrind::Operation;

/// A table of figures of the same kind.
pub(crate) struct Table {
    pub(crate) title: &'static str,
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Row>,
    /// Whether the columns are counts of routes. If so, the costs in a row must be about equal.
    pub(crate) is_of_routes: bool,
}

/// A row of a table, with a figure for each column.
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) figures: Vec<Figure>,
}

/// A number of instructions: the cost of `work` minus the cost of `less`.
pub(crate) struct Figure {
    pub(crate) work: Box<dyn Fn() -> Operation>,
    /// The operation whose cost is subtracted from the cost of `work`.
    pub(crate) less: Box<dyn Fn() -> Operation>,
}

impl Figure {
    /// Makes a figure of the whole cost of an operation.
    pub(crate) fn of(work: impl Fn() -> Operation + 'static) -> Self {
        Self::without(work, || Box::new(|| ()))
    }

    /// Makes a figure of the cost of an operation, minus the cost of another operation.
    pub(crate) fn without(
        work: impl Fn() -> Operation + 'static,
        less: impl Fn() -> Operation + 'static,
    ) -> Self {
        Self {
            work: Box::new(work),
            less: Box::new(less),
        }
    }
}

impl Table {
    /// Counts the instructions of each figure.
    pub(crate) fn measure(&self) -> Vec<Vec<u64>> {
        let rows = (0..self.rows.len()).map(|row| {
            let figures = 0..self.rows[row].figures.len();
            let figures = figures.map(|column| {
                let of = |part| callgrind::instructions(self.title, row, column, part);
                of("work").saturating_sub(of("less"))
            });
            figures.collect()
        });
        rows.collect()
    }

    /// Formats the table and its counts as Markdown, for docs/instructions.md.
    pub(crate) fn markdown(&self, counts: &[Vec<u64>]) -> String {
        let mut text = format!("| {} |", self.title);
        for column in &self.columns {
            text += &format!(" {column} |");
        }
        text += &format!("\n|---|{}\n", "---:|".repeat(self.columns.len()));
        for (row, counts) in self.rows.iter().zip(counts) {
            text += &format!("| {} |", row.name);
            for count in counts {
                text += &format!(" {} |", grouped(*count));
            }
            text.push('\n');
        }
        text
    }
}

/// Formats a number with commas between thousands.
pub(crate) fn grouped(number: u64) -> String {
    match number {
        0..1_000 => number.to_string(),
        _ => format!("{},{:03}", grouped(number / 1_000), number % 1_000),
    }
}

/// Runs the operation `work` or `less` of a figure, in the process that `callgrind::instructions` starts under valgrind.
pub(crate) fn count(tables: &[Table], figure: &str) {
    let mut parts = figure.split('/');
    let mut next = || parts.next().expect("a figure is table/row/column/part");
    let (title, row, column, part) = (next(), next(), next(), next());
    let table = tables.iter().find(|table| table.title == title);
    let rows = &table.expect("a table has this title").rows;
    let number = |text: &str| text.parse::<usize>().expect("a number");
    let figure = &rows[number(row)].figures[number(column)];
    callgrind::count(match part {
        "less" => (figure.less)(),
        _ => (figure.work)(),
    });
}

#[cfg(test)]
mod tests {
    /// Runs each operation without valgrind, and so without counting, to check that it does not fail.
    #[test]
    fn every_figure_can_be_measured() {
        for table in crate::tables() {
            for row in &table.rows {
                assert_eq!(row.figures.len(), table.columns.len(), "{}", row.name);
                // Without optimisation, parsing many routes takes long.
                let few = if table.is_of_routes { 1 } else { 2 };
                for figure in row.figures.iter().take(few) {
                    for make in [&figure.work, &figure.less] {
                        let mut operation = make();
                        (0..20).for_each(|_| operation());
                    }
                }
            }
        }
    }
}
