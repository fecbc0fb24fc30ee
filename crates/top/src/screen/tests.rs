//! Every tab on 80 columns and 24 lines.

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent};

use super::*;
use crate::Source;

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

const BUDGETS: &str =
    r#"{ "limits": [{ "name": "per-client", "limit": 20, "remaining": 0, "retry_after": 2 }] }"#;

/// A view of one gateway that has answered, and what asks that gateway.
fn view() -> (View, Reader) {
    let read = |path: &str| {
        let text = if path == "/status.json" {
            DOCUMENT
        } else {
            BUDGETS
        };
        Ok(text.as_bytes().to_vec())
    };
    let gateway = Source {
        name: "127.0.0.1:9901".to_owned(),
        read: Box::new(read),
    };
    let reader = Reader::start(vec![gateway], std::time::Duration::from_millis(1));
    let mut view = View::new();
    while view.status().is_none() {
        view.take(&reader);
        std::thread::yield_now();
    }
    (view, reader)
}

/// What is on the screen, line by line.
fn screen(view: &View) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
    terminal.draw(|frame| view.draw(frame)).unwrap();
    let cells = terminal.backend().buffer().content().chunks(80);
    cells
        .map(|line| line.iter().map(|cell| cell.symbol()).collect::<String>())
        .map(|line| line.trim_end().to_owned())
        .collect()
}

/// The words of the first line that has this.
fn words<'a>(screen: &'a [String], text: &str) -> Vec<&'a str> {
    let mut lines = screen.iter().filter(|line| line.contains(text));
    let line = lines.next();
    let line = line.unwrap_or_else(|| panic!("no {text} in {screen:#?}"));
    line.split_whitespace().collect()
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
        screen(&view)[3].contains("api_key:"),
        "most use stands first"
    );
    press(&mut view, &reader, "r");
    assert!(words(&screen(&view), "CLIENT").contains(&"ADMITTED^"));
    press(&mut view, &reader, "/greedy\n");
    assert!(screen(&view)[4].trim().is_empty(), "one row is left");
    press(&mut view, &reader, "\n");
    while !screen(&view).iter().any(|line| line.contains("in 2 s")) {
        view.take(&reader);
        std::thread::yield_now();
    }
    press(&mut view, &reader, "\u{1b}?");
    assert!(
        screen(&view)
            .iter()
            .any(|line| line.contains("reverse the order"))
    );
    assert!(view.press(KeyEvent::from(KeyCode::Char('q')), &reader));
}
