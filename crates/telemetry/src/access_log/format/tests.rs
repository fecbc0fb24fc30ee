//! Tests the formats of the access log, and the templates that are refused.

use super::*;

/// A request with a hostile user agent.
struct Hostile;

impl Fields for Hostile {
    fn value(&self, field: AccessField) -> Option<Value<'_>> {
        Some(match field {
            AccessField::TimeLocal => Value::Local,
            AccessField::Method => Value::Text(b"GET", 64),
            AccessField::Path => Value::Text(b"/\"x", 64),
            AccessField::Status => Value::Number(200),
            AccessField::UserAgent => Value::Text(b"\" 500\n{", 64),
            AccessField::Protocol => Value::Word("HTTP/1.1"),
            _ => return None,
        })
    }
}

fn lines(format: &AccessFormat) -> [String; 2] {
    let format = Format::new(format);
    let (mut line, mut lost) = (Vec::new(), Vec::new());
    let mut clock = Clock::default();
    format.line(&mut line, &mut clock, &Hostile);
    format.lost(&mut lost, &mut clock, 12);
    [line, lost].map(|line| String::from_utf8(line).unwrap())
}

#[test]
fn a_text_line_is_what_tracing_writes() {
    use AccessField::{Client, Method, Path, Protocol, Status, UserAgent};
    let fields = vec![Method, Path, Status, Client, Protocol, UserAgent];
    let [line, lost] = lines(&AccessFormat::Text(fields));
    let time = "1970-01-01T00:00:00.000000Z";
    let text = r#"method="GET" path="/\"x" status=200 protocol="HTTP/1.1" user_agent="\" 500\n{""#;
    assert_eq!(line, format!("{time}  INFO access: {text}\n"));
    assert_eq!(
        lost,
        format!("{time}  WARN access: 12 lines lost lost=12\n")
    );
}

#[test]
fn a_json_line_is_an_object_with_the_same_values() {
    use AccessField::{Client, Path, Status, UserAgent};
    let [line, lost] = lines(&AccessFormat::Json(vec![Path, Status, Client, UserAgent]));
    assert!(line.ends_with("}\n") && line.lines().count() == 1);
    let read = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap();
    let time = "1970-01-01T00:00:00.000000Z";
    let expected = serde_json::json!({
        "timestamp": time, "level": "INFO", "path": "/\"x", "status": 200, "user_agent": "\" 500\n{",
        "target": "access",
    });
    assert_eq!(read(&line), expected);
    let expected = serde_json::json!({
        "timestamp": time, "level": "WARN", "message": "12 lines lost", "lost": 12, "target": "access",
    });
    assert_eq!(read(&lost), expected);
}

#[test]
fn combined_lines_have_all_their_fields() {
    let [line, lost] = lines(&AccessFormat::Combined);
    let time = "[01/Jan/1970:00:00:00 +0000]";
    let request = r#""GET /\x22x HTTP/1.1" 200 -"#;
    assert_eq!(
        line,
        format!("- - - {time} {request} \"-\" \"\\x22 500\\x0A{{\"\n")
    );
    let request = "\"- /12-lines-lost -\" 599 0";
    assert_eq!(lost, format!("0.0.0.0 - - {time} {request} \"-\" \"-\"\n"));
    let [line, _] = lines(&AccessFormat::Common);
    assert_eq!(
        line,
        format!("- - - {time} {}\n", r#""GET /\x22x HTTP/1.1" 200 -"#)
    );
}

#[test]
fn a_template_says_how_many_lines_were_lost_whatever_its_fields_are() {
    let template = |field| {
        let text = AccessPiece::Text("a ".into());
        AccessFormat::Template(vec![text, AccessPiece::Field(field)])
    };
    let [line, lost] = lines(&template(AccessField::Lost));
    assert_eq!((&*line, &*lost), ("a -\n", "a 12\n"));
    let [line, lost] = lines(&template(AccessField::Client));
    assert_eq!((&*line, &*lost), ("a -\n", "a - 12 lines lost\n"));
}

#[test]
fn the_name_of_each_field_has_room() {
    let all = AccessField::ALL;
    for format in [
        AccessFormat::Text(all.into()),
        AccessFormat::Json(all.into()),
    ] {
        assert_eq!(Format::new(&format).pieces.len(), all.len());
    }
}
