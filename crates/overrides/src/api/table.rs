//! Overrides as a text table, with a row for each override.

use tidegate_status::shown;

use super::Shown;

/// Returns a table with a header row.
pub fn table(overrides: &[Shown]) -> String {
    let head = ["name", "does", "until", "by", "set", "reason"];
    let mut rows = vec![head.map(str::to_owned)];
    rows.extend(overrides.iter().map(row));
    let widths: [usize; 6] = std::array::from_fn(|column| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or_default()
    });
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(widths);
        let line: String = cells.map(|(it, width)| format!("{it:width$}  ")).collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn row(it: &Shown) -> [String; 6] {
    let does = it.does();
    // Special characters are escaped. A name may contain marks that change the writing direction, and may so look like another name. An
    // answer that is not from a gateway may contain control characters.
    let plain = |text: &str| -> String { text.chars().map(shown).collect() };
    let by = if it.by.is_empty() { "-" } else { &it.by };
    [&*it.name, &does, &it.until, by, &it.set, &it.reason].map(plain)
}

#[cfg(test)]
mod tests {
    use super::super::Verb;
    use super::*;

    #[test]
    fn columns_stand_under_each_other() {
        let of = |name: &str, action, plan: Option<&str>, reason: &str| Shown {
            name: name.to_owned(),
            action,
            plan: plan.map(str::to_owned),
            limits: None,
            until: "never".to_owned(),
            reason: reason.to_owned(),
            by: String::new(),
            set: "2026-11-28T08:30:00Z".to_owned(),
            version: 1,
            note: None,
            kept: None,
        };
        let rows = [
            of(
                "api_key:acme",
                Verb::Plan,
                Some("gold"),
                "a \u{1b}[2J \u{202e}b",
            ),
            of("10.0.0.0/8", Verb::Block, None, ""),
        ];
        assert_eq!(
            table(&rows),
            "name          does       until  by  set                   reason\n\
             api_key:acme  plan gold  never  -   2026-11-28T08:30:00Z  a \u{fffd}[2J \u{fffd}b\n\
             10.0.0.0/8    block      never  -   2026-11-28T08:30:00Z\n"
        );
    }
}
