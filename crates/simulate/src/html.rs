//! The report as one HTML page with text, tables and charts. The page needs no scripts and no other files.

mod chart;

use std::fmt::{self, Display, Write as _};

use crate::report::{ConfigurationReport, LimitReport, Report};
use crate::suggest;
use crate::terminal::{others, refused, rows, shown};
use crate::time::{number, range, wait};
use chart::chart;

const STYLE: &str = include_str!("../page/report.css");

/// Returns the report as an HTML page.
pub(crate) fn page(report: &Report) -> String {
    let mut page = String::new();
    // Writing to a String cannot fail.
    let _ = write(&mut page, report);
    page
}

fn write(page: &mut String, report: &Report) -> fmt::Result {
    let log = &report.log;
    let files = log
        .files
        .iter()
        .map(|file| format!("{} ({})", file.path, file.format));
    let files = files.collect::<Vec<_>>().join(", ");
    let style = STYLE;
    write!(
        page,
        "<!doctype html>
<html lang=\"en\">
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width\">
<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">
<title>tidegate simulate</title>
<style>
{style}</style>
<header>
<h1>What limits would have done</h1>
<p>{} requests of {}",
        number(log.requests),
        Text(&files)
    )?;
    if let (Some(from), Some(to)) = (&log.from, &log.to) {
        write!(page, ", {from} to {to} UTC")?;
    }
    writeln!(page, "</p>\n</header>")?;
    notes(page, report)?;
    if report.configurations.len() > 1 {
        side_by_side(page, &report.configurations)?;
    }
    for it in &report.configurations {
        configuration(page, it)?;
    }
    if !report.suggested.is_empty() {
        let yaml = suggest::text(&report.suggested);
        let yaml = yaml.trim_start();
        writeln!(
            page,
            "<h2>Suggested quotas</h2>\n<section class=\"panel\"><pre>{}</pre></section>",
            Text(yaml)
        )?;
    }
    Ok(())
}

fn notes(page: &mut String, report: &Report) -> fmt::Result {
    let log = &report.log;
    if report.notes.is_empty() && log.unreadable == 0 {
        return Ok(());
    }
    writeln!(page, "<ul class=\"notes\">")?;
    if log.unreadable > 0 {
        writeln!(
            page,
            "<li>{} lines could not be read.</li>",
            number(log.unreadable)
        )?;
    }
    for line in &log.first_unreadable {
        writeln!(page, "<li>{}</li>", Text(line))?;
    }
    for note in &report.notes {
        writeln!(page, "<li>{}</li>", Text(note))?;
    }
    writeln!(page, "</ul>")
}

/// Writes a table of refused requests, with a column for each configuration.
fn side_by_side(page: &mut String, all: &[ConfigurationReport]) -> fmt::Result {
    write!(
        page,
        "<h2>Refused</h2>\n<section class=\"panel scroll\"><table><thead><tr><th></th>"
    )?;
    for it in all {
        write!(page, "<th>{}</th>", Text(&it.file))?;
    }
    write!(page, "</tr></thead>")?;
    for row in rows(all) {
        let mut cells = row.iter();
        write!(
            page,
            "<tr><td>{}</td>",
            Text(cells.next().map_or("", |name| name))
        )?;
        for cell in cells {
            write!(page, "<td>{cell}</td>")?;
        }
        write!(page, "</tr>")?;
    }
    writeln!(page, "</table></section>")
}

fn configuration(page: &mut String, it: &ConfigurationReport) -> fmt::Result {
    writeln!(
        page,
        "<h2>{}</h2>\n<section class=\"panel\">",
        Text(&it.file)
    )?;
    let share = refused(it.refused, it.requests);
    let mut all = vec![
        ("admitted", range(it.admitted), false),
        ("refused", share, it.refused.high > 0),
    ];
    all.extend(others(it).map(|(count, _, what)| (what, range(count), false)));
    figures(page, &all)?;
    writeln!(page, "</section>")?;
    for limit in &it.limits {
        self::limit(page, limit)?;
    }
    top(page, it)
}

fn figures(page: &mut String, all: &[(&str, String, bool)]) -> fmt::Result {
    writeln!(page, "<dl class=\"figures\">")?;
    for (what, shown, hot) in all {
        let class = if *hot { " class=\"hot\"" } else { "" };
        writeln!(page, "<div{class}><dt>{what}</dt><dd>{shown}</dd></div>")?;
    }
    writeln!(page, "</dl>")
}

fn limit(page: &mut String, it: &LimitReport) -> fmt::Result {
    let observes = if it.observes { ", observes" } else { "" };
    let per = match it.per.is_empty() {
        true => "nothing: one budget for all".to_owned(),
        false => it.per.join(", "),
    };
    writeln!(
        page,
        "<section class=\"panel limit\">\n<h3>{} <small>{}: {}; per {}{observes}</small></h3>",
        Text(&it.name),
        it.algorithm,
        Text(&it.quota),
        Text(&per)
    )?;
    if it.asked > 0 {
        let share = refused(it.refused, it.asked);
        let clients = format!("{} of {}", range(it.clients_refused), number(it.keys));
        let mut all = vec![
            ("asked", number(it.asked), false),
            ("admitted", range(it.admitted), false),
            ("refused", share, it.refused.high > 0),
            ("clients refused", clients, false),
        ];
        if it.delayed.high > 0 {
            let waits = format!("{}, up to {}", range(it.delayed), wait(it.longest_delay_ms));
            all.push(("delayed", waits, false));
        }
        if let Some(worst) = &it.worst_minute {
            let worst = format!("{} ({})", worst.at, number(worst.refused));
            all.push(("worst minute", worst, false));
        }
        figures(page, &all)?;
        chart(page, &it.series)?;
        quotas(page, it)?;
    } else if it.not_computable.is_empty() {
        writeln!(page, "<p class=\"soft\">No request met it.</p>")?;
    }
    for lack in &it.not_computable {
        writeln!(
            page,
            "<p class=\"lack\">Not computable for {} requests, for the log has no {}.</p>",
            number(lack.requests),
            Text(&lack.log_lacks)
        )?;
    }
    writeln!(page, "</section>")
}

fn quotas(page: &mut String, it: &LimitReport) -> fmt::Result {
    if it.needed.iter().all(|needed| needed.of == 0) {
        return Ok(());
    }
    write!(
        page,
        "<div class=\"scroll\"><table><thead><tr><th>capacity that refuses at most</th>"
    )?;
    for needed in &it.needed {
        write!(page, "<th>{} %</th>", needed.percent)?;
    }
    write!(
        page,
        "</tr></thead><tr><td>alone, as if there were no other limit</td>"
    )?;
    for needed in &it.needed {
        write!(page, "<td>{}</td>", shown(needed))?;
    }
    writeln!(page, "</tr></table></div>")
}

fn top(page: &mut String, it: &ConfigurationReport) -> fmt::Result {
    if it.top.is_empty() {
        return Ok(());
    }
    writeln!(
        page,
        "<section class=\"panel scroll\"><table><thead><tr><th>client</th><th>limit</th><th>refused</th></tr></thead>"
    )?;
    for top in &it.top {
        writeln!(
            page,
            "<tr><td>{}</td><td>{}</td><td>{}</td></tr>",
            Text(&top.client),
            Text(&top.limit),
            range(top.refused)
        )?;
    }
    writeln!(page, "</table></section>")
}

/// Text that its `Display` escapes for HTML.
struct Text<'a>(&'a str);

impl Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                c if c.is_control() && c != '\n' => f.write_char(' ')?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_becomes_markup() {
        let text = Text("<script>\"a\" & 'b'\u{1b}").to_string();
        assert_eq!(text, "&lt;script&gt;&quot;a&quot; &amp; &#39;b&#39; ");
    }
}
