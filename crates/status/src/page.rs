//! The status page: one document, its scripts, one stylesheet, one icon. Nothing is built, and nothing comes from elsewhere.

use std::fmt::Write as _;

use crate::{
    document::{Limit, Overrides, Status, Table},
    text::shown,
};

/// The document.
const DOCUMENT: &str = include_str!("../page/index.html");
/// The scripts, in the order in which the document names them.
const SCRIPTS: [(&str, &str); 5] = [
    ("/view.js", include_str!("../page/view.js")),
    ("/changes.js", include_str!("../page/changes.js")),
    ("/dialog.js", include_str!("../page/dialog.js")),
    ("/status.js", include_str!("../page/status.js")),
    ("/stream.js", include_str!("../page/stream.js")),
];
/// The stylesheet.
const STYLE: &str = include_str!("../page/status.css");
/// The icon.
const ICON: &str = include_str!("../page/icon.svg");

/// The headers of every part. Nothing comes from elsewhere, nothing is inline, no other page may show this one, and no text becomes
/// markup.
pub const HEADERS: [(&str, &str); 6] = [
    ("cache-control", "no-store"),
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
];

/// A part of the page.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Part {
    /// The page itself: [`with_tables`].
    Document,
    /// A text that never changes, after its content type.
    Fixed(&'static str, &'static str),
    /// The status, as JSON.
    Json,
    /// The status after each sample, as server-sent events.
    Events,
}

impl Part {
    /// The part at a path.
    pub fn of(path: &str) -> Option<Self> {
        Some(match path {
            "/" => Self::Document,
            "/status.css" => Self::Fixed("text/css; charset=utf-8", STYLE),
            "/icon.svg" => Self::Fixed("image/svg+xml", ICON),
            "/status.json" => Self::Json,
            "/events" => Self::Events,
            path => {
                let (_, script) = SCRIPTS.iter().find(|(name, _)| *name == path)?;
                Self::Fixed("text/javascript; charset=utf-8", script)
            }
        })
    }

    /// Its content type.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Document => "text/html; charset=utf-8",
            Self::Fixed(kind, _) => kind,
            Self::Json => "application/json",
            Self::Events => "text/event-stream",
        }
    }
}

/// What whoever looks at the page may change on it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Rights {
    /// All, by a token that says who it is.
    Write,
    /// Nothing.
    Read,
    /// What needs no name: there is no token, and whoever is on this machine may change things.
    Local,
}

impl Rights {
    /// What the script reads.
    const fn word(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Read => "read",
            Self::Local => "local",
        }
    }
}

/// Where the rights of whoever looks belong in the document.
const RIGHTS: &str = "data-rights=\"\"";
/// Where the tables for browsers without script belong in the document.
const PLAIN: &str = "<!-- plain -->";
/// Rows of a table for browsers without script.
const ROWS: usize = 20;

/// The document for whoever has these rights, with tables for browsers without script.
pub fn with_tables(status: &Status, rights: Rights) -> String {
    let mut tables = String::new();
    let reasons = status.health.reasons.iter();
    let health = match status.health.reasons.is_empty() {
        true => "Healthy.".to_owned(),
        false => reasons
            .map(|reason| escaped(reason))
            .collect::<Vec<_>>()
            .join(" "),
    };
    let minute = &status.requests.minute;
    let _ = write!(
        tables,
        "<p>{health} Last minute: {} requests, {} refused, {} failed.</p>",
        minute.all, minute.refused, minute.failed
    );
    tables.push_str("<h2>Limits</h2><table><tr><th>Limit<th>Admitted<th>Refused<th>Near</tr>");
    for Limit {
        name,
        minute,
        near_keys,
        ..
    } in &status.limits
    {
        let name = escaped(name);
        let (admitted, refused) = (minute.admitted, minute.refused);
        let _ = write!(
            tables,
            "<tr><td>{name}<td>{admitted}<td>{refused}<td>{near_keys}</tr>"
        );
    }
    tables.push_str("</table>");
    add(
        &mut tables,
        "Refused most in the last minute",
        &status.clients.minute.refused,
    );
    add(
        &mut tables,
        "Admitted most in the last minute",
        &status.clients.minute.admitted,
    );
    if status.overrides.count > 0 {
        overrides(&mut tables, &status.overrides);
    }
    let rights = format!("data-rights=\"{}\"", rights.word());
    // The tables come last: names in them are nobody's place.
    DOCUMENT
        .replacen(RIGHTS, &rights, 1)
        .replacen(PLAIN, &tables, 1)
}

fn add(tables: &mut String, title: &str, table: &Table) {
    let _ = write!(
        tables,
        "<h2>{title}</h2><table><tr><th>Client<th>At least<th>At most</tr>"
    );
    for client in table.top.iter().take(ROWS) {
        let name = escaped(&client.name);
        let (least, most) = (client.at_least, client.at_most);
        let _ = write!(tables, "<tr><td>{name}<td>{least}<td>{most}</tr>");
    }
    tables.push_str("</table>");
}

fn overrides(tables: &mut String, overrides: &Overrides) {
    let _ = write!(
        tables,
        "<h2>Overrides: {}</h2><table><tr><th>Name<th>Does<th>Until<th>By<th>Reason</tr>",
        overrides.count
    );
    for it in overrides.latest.iter().take(ROWS) {
        let cells = [&it.name, &it.does, &it.until, &it.by, &it.reason];
        tables.push_str("<tr>");
        for cell in cells {
            let _ = write!(tables, "<td>{}", escaped(cell));
        }
        tables.push_str("</tr>");
    }
    tables.push_str("</table>");
}

/// As text in HTML.
fn escaped(text: &str) -> String {
    text.chars().fold(String::new(), |mut html, char| {
        match char {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            char => html.push(shown(char)),
        }
        html
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{Client, Override};

    #[test]
    fn names_are_text_in_the_tables() {
        let mut status = Status::default();
        status.limits.push(Limit {
            name: "<script>".to_owned(),
            ..Limit::default()
        });
        let name = "user_id:\"><img src=x onerror='alert(1)'>\u{7}\u{202e}".to_owned();
        status.clients.minute.refused.top.push(Client {
            name,
            ..Client::default()
        });
        status.overrides = Overrides {
            count: 1,
            latest: vec![Override {
                name: "user_id:<b>".to_owned(),
                reason: "<i>why</i>".to_owned(),
                ..Override::default()
            }],
            ..Overrides::default()
        };
        let html = with_tables(&status, Rights::Read);
        assert!(html.contains("<body data-rights=\"read\">"), "{html}");
        assert!(html.contains("<td>user_id:&lt;b&gt;<td>"), "{html}");
        assert!(html.contains("<td>&lt;i&gt;why&lt;/i&gt;</tr>"), "{html}");
        let tables = html.len() - DOCUMENT.len() + PLAIN.len();
        assert!(tables > 0 && !html.contains(PLAIN));
        assert!(
            !html.contains("<img") && !html.contains("<script>"),
            "{html}"
        );
        let escaped =
            "user_id:&quot;&gt;&lt;img src=x onerror=&#39;alert(1)&#39;&gt;\u{fffd}\u{fffd}";
        assert!(html.contains(escaped), "{html}");
    }

    #[test]
    fn everything_is_of_the_page_itself() {
        let scripts = SCRIPTS.map(|(_, script)| script);
        for text in [DOCUMENT, STYLE].into_iter().chain(scripts) {
            for elsewhere in ["http:", "https:", "//cdn", "@import", "innerHTML", "eval("] {
                let text = text.replace("http://www.w3.org/2000/svg", "");
                assert!(!text.contains(elsewhere), "{elsewhere}");
            }
        }
        assert!(!DOCUMENT.contains("style=") && !DOCUMENT.contains(" onclick"));
    }
}
