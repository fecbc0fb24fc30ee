//! Tests every tab on 80 columns and 24 lines.

use std::time::{Duration, Instant};

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent};

use super::*;
use crate::Source;

/// The longest wait for an event, on a busy machine.
const LONG: Duration = Duration::from_secs(20);

const DOCUMENT: &str = r#"{
    "version": 1,
    "requests": { "minute": { "all": 1200, "refused": 300, "mean_ms": 4.2 } },
    "limits": [
        { "name": "per-client", "minute": { "admitted": 900, "refused": 300 }, "near_keys": 2 },
        { "name": "trial", "observed": true, "minute": { "admitted": 1100, "would_refuse": 100 }, "used": 0.5 }
    ],
    "clients": {
        "minute": {
            "refused": { "total": 300, "top": [
                { "name": "user_id:greedy", "at_least": 290, "at_most": 292 },
                { "name": "user_id:\u001b[31mred", "at_least": 8, "at_most": 8 }
            ] },
            "admitted": { "total": 900, "others_at_most": 3, "top": [
                { "name": "api_key:a-client-with-a-name-that-is-too-long-for-this-column", "at_least": 880, "at_most": 880 }
            ] }
        },
        "near": [{ "name": "user_id:greedy", "limit": "per-client", "left": 0, "of": 20 }]
    },
    "routes": [{ "name": "rides", "path": "/**", "total": 5000, "minute": { "all": 1200, "refused": 300, "mean_ms": 4.2 } }],
    "upstreams": [{ "name": "api", "servers": [
        { "url": "http://10.0.0.1:9000", "address": "10.0.0.1:9000", "state": "healthy", "in_flight": 3 },
        { "url": "http://10.0.0.2:9000", "address": "10.0.0.2:9000", "state": "ejected", "failures": 5 }
    ] }],
    "store": { "kind": "redis", "redis": { "is_up": true, "nodes": [
        { "address": "10.0.0.9:6379", "memory_bytes": 1500000, "operations_per_second": 800 }
    ] } }
}"#;

const BUDGETS: &str = r#"{ "client": "user_id:greedy", "plan": "gold", "overridden": { "by": "user_id:greedy", "does": "plan gold" },
    "limits": [{ "name": "per-client", "algorithm": "token_bucket", "per": ["client"], "limit": 20, "remaining": 0, "reset": 0,
        "allowed": false, "retry_after": 2 }],
    "unlimited": ["daily"], "unlisted": [{ "name": "per-path", "per": ["path:id"] }], "shared": ["all"] }"#;

/// Returns a gateway that gives this answer for each path.
fn gateway(
    name: &str,
    answer: impl Fn(&str) -> Result<String, String> + Send + Sync + 'static,
) -> Source {
    Source {
        name: name.to_owned(),
        read: Box::new(move |path| answer(path).map(String::into_bytes)),
    }
}

/// Returns a gateway with this document and one client's budgets.
fn with_document(document: &'static str) -> Source {
    gateway("127.0.0.1:9901", move |path| {
        let text = match path {
            "/status.json?series=none" => document,
            _ => BUDGETS,
        };
        Ok(text.to_owned())
    })
}

/// Returns a view of these gateways after each has answered.
fn view_of(gateways: Vec<Source>) -> (View, Reader) {
    let reader = Reader::start(gateways, Duration::from_millis(1));
    let mut view = View::new();
    let is_asked = |view: &View| view.latest.iter().all(Option::is_some);
    while view.latest.is_empty() || !is_asked(&view) {
        view.take(&reader);
        std::thread::yield_now();
    }
    (view, reader)
}

/// Returns a view of one gateway that has answered, and its reader.
fn view() -> (View, Reader) {
    view_of(vec![with_document(DOCUMENT)])
}

/// Waits until the screen has this text.
fn until(view: &mut View, reader: &Reader, text: &str) -> Vec<String> {
    let deadline = Instant::now() + LONG;
    loop {
        view.take(reader);
        let lines = screen(view);
        if has(&lines, text) {
            return lines;
        }
        assert!(Instant::now() < deadline, "no {text} in {lines:#?}");
        std::thread::yield_now();
    }
}

fn has(screen: &[String], text: &str) -> bool {
    screen.iter().any(|line| line.contains(text))
}

/// Asserts that the screen has these texts.
fn assert_shows(view: &View, texts: &[&str]) {
    let shown = screen(view);
    for text in texts {
        assert!(has(&shown, text), "no {text} in {shown:#?}");
    }
}

/// Replaces the view's document.
fn give(view: &mut View, document: &str) {
    let status = serde_json::from_str(document).unwrap();
    view.latest = vec![Some(Ok(std::sync::Arc::new(status)))];
    view.merge();
}

/// Returns the lines of the screen.
fn screen(view: &View) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
    terminal.draw(|frame| view.draw(frame)).unwrap();
    let cells = terminal.backend().buffer().content().chunks(80);
    cells
        .map(|line| line.iter().map(|cell| cell.symbol()).collect::<String>())
        .map(|line| line.trim_end().to_owned())
        .collect()
}

/// Returns the words of the first line that contains `text`.
fn words<'a>(screen: &'a [String], text: &str) -> Vec<&'a str> {
    let mut lines = screen.iter().filter(|line| line.contains(text));
    let line = lines.next();
    let line = line.unwrap_or_else(|| panic!("no {text} in {screen:#?}"));
    line.split_whitespace().collect()
}

/// Returns the lines below the heads of the table of clients.
fn rows(screen: &[String]) -> &[String] {
    let heads = screen.iter().position(|line| line.contains("CLIENT"));
    &screen[heads.unwrap() + 1..]
}

fn press(view: &mut View, reader: &Reader, keys: &str) {
    for key in keys.chars() {
        let code = match key {
            '\n' => KeyCode::Enter,
            '\u{1b}' => KeyCode::Esc,
            key => KeyCode::Char(key),
        };
        assert!(!view.press(KeyEvent::from(code), reader), "{key} is no end");
    }
}

#[test]
fn every_tab_fits_on_80_columns() {
    let (mut view, reader) = view();
    let clients = screen(&view);
    assert!(clients[0].starts_with("healthy  last minute: 1,200 requests, 300 refused (25.0 %)"));
    assert_eq!(
        words(&clients, "CLIENT"),
        ["CLIENT", "REFUSEDv", "ADMITTED", "NEAR"]
    );
    assert_eq!(
        words(&clients, "greedy"),
        ["user_id:greedy", "290+2", "<=3", "per-client", "0/20"]
    );
    assert!(words(&clients, "api_key:a-client-with").ends_with(&["880"]));
    assert_eq!(words(&clients, "red")[0], "user_id:\u{fffd}[31mred");
    assert!(clients[23].contains("? help  q quit"), "{clients:#?}");

    press(&mut view, &reader, "2");
    let limits = screen(&view);
    assert_eq!(
        words(&limits, "per-client"),
        ["per-client", "300", "900", "2", "0"]
    );
    assert!(words(&limits, "trial").starts_with(&["trial", "(observed)", "100", "1,100"]));
    press(&mut view, &reader, "3");
    let routes = screen(&view);
    assert_eq!(
        words(&routes, "rides"),
        ["rides", "1,200", "300", "0", "4.2", "ms", "5,000"]
    );
    press(&mut view, &reader, "4");
    let upstreams = screen(&view);
    assert_eq!(
        words(&upstreams, "10.0.0.2"),
        ["api", "10.0.0.2:9000", "ejected", "0", "5"]
    );
    press(&mut view, &reader, "5");
    let redis = screen(&view);
    assert!(words(&redis, "10.0.0.9").starts_with(&["10.0.0.9:6379", "1.5", "MB", "800"]));
}

#[test]
fn keys_sort_reverse_filter_and_open_a_client() {
    let (mut view, reader) = view();
    press(&mut view, &reader, "s");
    assert!(words(&screen(&view), "CLIENT").contains(&"ADMITTEDv"));
    assert!(
        rows(&screen(&view))[0].contains("api_key:"),
        "most use stands first"
    );
    press(&mut view, &reader, "r");
    assert!(words(&screen(&view), "CLIENT").contains(&"ADMITTED^"));
    press(&mut view, &reader, "/greedy\n");
    assert!(rows(&screen(&view))[1].is_empty(), "one row is left");
    press(&mut view, &reader, "\n");
    until(&mut view, &reader, "in 2s");
    press(&mut view, &reader, "\u{1b}?");
    assert!(
        screen(&view)
            .iter()
            .any(|line| line.contains("reverse the order"))
    );
    assert!(view.press(KeyEvent::from(KeyCode::Char('q')), &reader));
}

/// Returns a document with these clients: name, whether it is cut, and refusals.
fn refused(clients: &[(&str, bool, u64)]) -> String {
    let top: Vec<_> = clients
        .iter()
        .map(|(name, is_cut, count)| {
            serde_json::json!({ "name": name, "is_cut": is_cut, "at_least": count, "at_most": count })
        })
        .collect();
    serde_json::json!({ "version": 1, "clients": { "minute": { "refused": { "top": top } } } })
        .to_string()
}

/// Returns the client of the selected row.
fn selected(view: &View) -> String {
    view.table().rows[view.selected].identity.name.clone()
}

#[test]
fn a_selection_stays_with_its_client_and_on_a_row() {
    let (mut view, reader) = view();
    press(&mut view, &reader, " ");
    let clients = [("a", false, 9), ("b", false, 5), ("c", false, 3)];
    give(&mut view, &refused(&clients));
    press(&mut view, &reader, "jj");
    assert_eq!(selected(&view), "c");
    let clients = [("c", false, 20), ("a", false, 9), ("b", false, 5)];
    give(&mut view, &refused(&clients));
    assert_eq!(selected(&view), "c", "it moved up");
    press(&mut view, &reader, "r");
    assert_eq!(
        (selected(&view).as_str(), view.selected),
        ("c", 2),
        "and down"
    );
    // The selected row is gone, and there are fewer rows.
    give(&mut view, &refused(&[("a", false, 9)]));
    assert_eq!(selected(&view), "a");
    assert!(!has(&screen(&view), "none"), "{:#?}", screen(&view));
    press(&mut view, &reader, "rg");
    give(&mut view, &refused(&[("z", false, 10), ("a", false, 9)]));
    assert_eq!(selected(&view), "z", "the first line is no client");
}

#[test]
fn the_client_of_the_row_is_asked_for_and_no_other() {
    let requests = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let paths = requests.clone();
    let one = gateway("one", move |path| {
        if path == "/status.json?series=none" {
            return Ok(refused(&[
                ("user_id:a\u{200b}", false, 9),
                ("user_id:a\u{202e}", false, 5),
                ("user_id:xxx…", true, 3),
            ]));
        }
        paths.lock().unwrap().push(path.to_owned());
        Ok(BUDGETS.to_owned())
    });
    let (mut view, reader) = view_of(vec![one]);
    press(&mut view, &reader, "j\n");
    until(&mut view, &reader, "in 2s");
    assert_eq!(*requests.lock().unwrap(), ["/clients/user_id:a%E2%80%AE"]);
    press(&mut view, &reader, "\u{1b}j\n");
    assert_shows(&view, &["longer than what the gateway keeps"]);
    assert_eq!(requests.lock().unwrap().len(), 1, "nothing is asked");
}

#[test]
fn gateways_that_answer_are_asked_for_budgets() {
    let away = gateway("http://away:9901", |_| {
        Err("http://away:9901: no gateway answers".to_owned())
    });
    let with_quota = |name: &str, of: u64| {
        gateway(name, move |path| {
            let budgets = BUDGETS.replace("\"limit\": 20", &format!("\"limit\": {of}"));
            Ok(match path {
                "/status.json?series=none" => DOCUMENT.to_owned(),
                _ => budgets,
            })
        })
    };
    let (mut view, reader) = view_of(vec![
        away,
        with_quota("http://one:9901", 41),
        with_quota("http://other:9901", 42),
    ]);
    let away = "http://away:9901: no gateway answers";
    assert_shows(&view, &["2 of 3 gateways", away]);
    press(&mut view, &reader, "\n");
    let shown = until(&mut view, &reader, "of 2; Left, Right");
    let of = |quota: &str| {
        if quota == "41" {
            "of http://one:9901"
        } else {
            "of http://other:9901"
        }
    };
    let quota = words(&shown, "in 2s")[3].to_owned();
    assert!(has(&shown, of(&quota)), "{shown:#?}");
    // The answer of the other gateway comes, with its own figures.
    let other = if quota == "41" { "42" } else { "41" };
    let deadline = Instant::now() + LONG;
    loop {
        assert!(Instant::now() < deadline, "{:#?}", screen(&view));
        view.take(&reader);
        view.press(KeyEvent::from(KeyCode::Right), &reader);
        let shown = screen(&view);
        if has(&shown, of(other)) {
            assert_eq!(words(&shown, "in 2s")[3], other, "{shown:#?}");
            break;
        }
    }
}

#[test]
fn all_that_is_known_of_a_client_is_shown() {
    let (mut view, reader) = view();
    press(&mut view, &reader, "\n");
    until(&mut view, &reader, "in 2s");
    let texts = [
        "of the plan gold",
        "override for user_id:greedy: plan gold",
        "unlimited under this plan: daily",
        "per-path (per path:id)",
        "shared with others: all",
    ];
    assert_shows(&view, &texts);
}

#[test]
fn many_budgets_scroll() {
    let limits = (0..40).map(|n| {
        format!(
            r#"{{ "name": "limit-{n:02}", "algorithm": "fixed_window", "per": ["client"], "limit": 5, "remaining": 5, "reset": 0,
                "allowed": true, "retry_after": 0 }}"#
        )
    });
    let limits = limits.collect::<Vec<_>>().join(",");
    let one = gateway("one", move |path| {
        Ok(match path {
            "/status.json?series=none" => DOCUMENT.to_owned(),
            _ => format!(
                r#"{{ "client": "a", "limits": [{limits}], "unlisted": [], "shared": ["all"] }}"#
            ),
        })
    });
    let (mut view, reader) = view_of(vec![one]);
    press(&mut view, &reader, "\n");
    let first = until(&mut view, &reader, "limit-00");
    assert!(!has(&first, "limit-39"), "{first:#?}");
    press(&mut view, &reader, "j");
    assert!(has(&screen(&view), "limit-15") && !has(&first, "limit-15"));
    press(&mut view, &reader, "G");
    assert_shows(&view, &["limit-39", "shared with others"]);
    press(&mut view, &reader, "k");
    assert!(!has(&screen(&view), "shared with others"));
    press(&mut view, &reader, "g");
    assert_shows(&view, &["limit-00"]);
}

#[test]
fn a_warning_says_why() {
    let (mut view, reader) = view();
    press(&mut view, &reader, " ");
    let document = |reasons: &str| {
        format!(r#"{{ "version": 1, "health": {{ "state": "failing", "reasons": [{reasons}] }} }}"#)
    };
    give(&mut view, &document(r#""Redis does not answer.""#));
    assert_shows(&view, &["FAILING"]);
    assert_eq!(screen(&view)[1].trim(), "Redis does not answer.");
    give(
        &mut view,
        &document(r#""Redis does not answer.", "A key ends.", "More.""#),
    );
    assert_eq!(
        screen(&view)[1].trim(),
        "Redis does not answer. (and 2 more)"
    );
}

#[test]
fn redis_is_said_to_be_up_down_or_not_used() {
    let (mut view, reader) = view();
    press(&mut view, &reader, " 5");
    assert_shows(
        &view,
        &["up   last minute: 0 calls, mean 0.00 ms, 0 errors"],
    );
    let redis = |redis: &str| format!(r#"{{ "version": 1, "store": {redis} }}"#);
    let down = r#"{ "kind": "redis", "redis": { "is_up": false, "calls": 1200, "mean_ms": 0.25, "errors": 7 } }"#;
    give(&mut view, &redis(down));
    let calls = "DOWN   last minute: 1,200 calls, mean 0.25 ms, 7 errors";
    assert_shows(&view, &[calls, "no server has answered INFO"]);
    let memory = r#"{ "kind": "memory", "memory_keys": 3 }"#;
    give(&mut view, &redis(memory));
    assert_shows(&view, &["store: memory, 3 keys"]);
}

#[test]
fn who_is_nearest_can_stand_first() {
    let (mut view, reader) = view();
    press(&mut view, &reader, " sss");
    assert!(words(&screen(&view), "CLIENT").contains(&"CLIENTv"));
    press(&mut view, &reader, "sss");
    assert!(words(&screen(&view), "CLIENT").contains(&"NEARv"));
    assert!(
        rows(&screen(&view))[0].contains("greedy"),
        "{:#?}",
        screen(&view)
    );
}

#[test]
fn an_error_is_shown_to_its_end() {
    let error = "http://gateway.internal.example.com:9901 answered 401 Unauthorized: a token is needed. The variable \
                 TIDEGATE_ADMIN_TOKEN gives the token to this command.";
    let closed = || gateway("closed", move |_| Err(error.to_owned()));
    let (view, _reader) = view_of(vec![closed()]);
    let alone = screen(&view).join(" ");
    let (view, _reader) = view_of(vec![with_document(DOCUMENT), closed()]);
    let beside = screen(&view).join(" ");
    for shown in [alone, beside] {
        let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(shown.contains(error), "{shown}");
    }
}

#[test]
fn wide_names_keep_their_columns() {
    let (mut view, reader) = view();
    press(&mut view, &reader, " ");
    give(
        &mut view,
        &refused(&[(&format!("user_id:{}", "名".repeat(60)), false, 7)]),
    );
    let shown = screen(&view);
    let words = words(&shown, "user_id");
    assert!(words.ends_with(&["…", "7", "0"]), "{shown:#?}");
}
