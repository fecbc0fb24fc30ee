//! The status page: one document, its scripts, a stylesheet and an icon. There is no build step. The gateway serves all parts.

mod plain;

use crate::document::Status;

/// The document.
const DOCUMENT: &str = include_str!("../page/index.html");
/// The scripts, in the order in which the document loads them.
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

/// The headers of the answer for each part of the page. They forbid content from other origins, inline scripts and styles, and frames
/// around the page. Scripts cannot insert text as markup.
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
    /// The document, as returned by [`with_tables`].
    Document,
    /// A text that never changes: its content type, and the text.
    Fixed(&'static str, &'static str),
    /// The status, as JSON.
    Json,
    /// The status without series, as JSON. Each event of `/events` contains the same JSON.
    Live,
    /// The status after each sample, as server-sent events.
    Events,
}

impl Part {
    /// Returns the part at this path and query. `None` if the page has no such part.
    pub fn of(path: &str, query: Option<&str>) -> Option<Self> {
        Some(match path {
            "/" => Self::Document,
            "/status.css" => Self::Fixed("text/css; charset=utf-8", STYLE),
            "/icon.svg" => Self::Fixed("image/svg+xml", ICON),
            "/status.json" if query == Some("series=none") => Self::Live,
            "/status.json" => Self::Json,
            "/events" => Self::Events,
            path => {
                let (_, script) = SCRIPTS.iter().find(|(name, _)| *name == path)?;
                Self::Fixed("text/javascript; charset=utf-8", script)
            }
        })
    }

    /// Returns the content type of this part.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Document => "text/html; charset=utf-8",
            Self::Fixed(kind, _) => kind,
            Self::Json | Self::Live => "application/json",
            Self::Events => "text/event-stream",
        }
    }
}

/// The changes that a user of the page may make.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Rights {
    /// All changes: the role of the user's token is `write`.
    Write,
    /// No changes: the role of the user's token is `read`.
    Read,
    /// Resets of budgets, but no changes of overrides, because an override needs the name of a token. No token is configured, so each user
    /// of this machine has this right.
    Local,
}

impl Rights {
    /// Returns the word for these rights, which the page's script reads.
    const fn word(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Read => "read",
            Self::Local => "local",
        }
    }
}

/// The placeholder for the user's rights in the document.
const RIGHTS: &str = "data-rights=\"\"";
/// The placeholder in the document for the tables that browsers without script show.
const PLAIN: &str = "<!-- plain -->";

/// Returns the document for a user with these rights. It contains tables for browsers without script.
pub fn with_tables(status: &Status, rights: Rights) -> String {
    let tables = plain::tables(status);
    let rights = format!("data-rights=\"{}\"", rights.word());
    // The tables are inserted last, because they contain clients' names. A placeholder in a name is not replaced.
    DOCUMENT
        .replacen(RIGHTS, &rights, 1)
        .replacen(PLAIN, &tables, 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{
        Client, Event, Limit, Near, Node, Override, Overrides, Redis, Refusal, Route, Server,
        Upstream,
    };

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
    fn without_script_there_is_a_table_of_each_kind() {
        let name = || "<b>it</b>".to_owned();
        let mut status = Status {
            at: 600_000,
            ..Status::default()
        };
        let empty = with_tables(&status, Rights::Read);
        assert!(!empty.contains("<th>"), "{empty}");
        status.clients.near.push(Near {
            name: name(),
            left: 3,
            of: 20,
            ..Near::default()
        });
        status.refusals.recent.push(Refusal {
            at: 570_000,
            client: name(),
            ..Refusal::default()
        });
        status.events.push(Event {
            at: 0,
            text: name(),
            ..Event::default()
        });
        status.routes = ["/**", ""]
            .map(|path| Route {
                name: format!("route {path}"),
                path: Some(path.to_owned()).filter(|path| !path.is_empty()),
                ..Route::default()
            })
            .into();
        status.upstreams.push(Upstream {
            name: "api".to_owned(),
            servers: vec![Server {
                url: name(),
                state: "ejected".to_owned(),
                ..Server::default()
            }],
            ..Upstream::default()
        });
        status.store.memory_keys = 7;
        let html = with_tables(&status, Rights::Read);
        assert!(!html.contains("<b>"), "{html}");
        for row in [
            "<h2>Near a limit</h2>",
            "<td>&lt;b&gt;it&lt;/b&gt;<td><td>3<td>20</tr>",
            "<td>30&nbsp;s&nbsp;ago<td>&lt;b&gt;it&lt;/b&gt;",
            "<td>10&nbsp;min&nbsp;ago<td>&lt;b&gt;it&lt;/b&gt;",
            "<td>route /**<td>0",
            "<td>api<td>&lt;b&gt;it&lt;/b&gt;<td><td>ejected<td>0<td>0</tr>",
            "Memory of this process, 7 keys.",
        ] {
            assert!(html.contains(row), "{row}: {html}");
        }
        assert!(!html.contains("<td>route <td>"), "no request matched none");
        status.store.redis = Some(Redis {
            errors: 2,
            nodes: vec![Node {
                memory_bytes: Some(5),
                ..Node::default()
            }],
            ..Redis::default()
        });
        let html = with_tables(&status, Rights::Read);
        for row in [
            "Redis: cannot be reached.",
            "2 failed",
            "<td>Redis<td>5 B<td>–</tr>",
        ] {
            assert!(html.contains(row), "{row}: {html}");
        }
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
        let names: Vec<_> = DOCUMENT.split("<script src=\"").skip(1).collect();
        assert_eq!(names.len(), SCRIPTS.len());
        for ((name, _), named) in SCRIPTS.iter().zip(names) {
            assert!(named.starts_with(&format!("{name}\" defer>")), "{named}");
        }
    }
}
