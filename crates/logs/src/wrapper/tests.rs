use super::*;

/// For each line of a wrapped log: the line that it completes, or `None`.
fn contents(wrapper: Wrapper, lines: &[&str]) -> Vec<Option<String>> {
    let mut unwrapper = Unwrapper::new(wrapper);
    let content = |line: &&str| match unwrapper.content(line.as_bytes()) {
        Ok(Some(line)) => Some(String::from_utf8(line.to_vec()).unwrap()),
        Ok(None) | Err(_) => None,
    };
    lines.iter().map(content).collect()
}

fn some(texts: &[&str]) -> Vec<Option<String>> {
    let text = |text: &&str| Some(text.to_string()).filter(|it| it != "-");
    texts.iter().map(text).collect()
}

#[test]
fn each_wrapper_is_taken_off() {
    let time = "2026-11-25T10:00:00.123456789Z";
    for (wrapper, lines, expected) in [
        (
            Wrapper::Cri,
            vec![
                format!("{time} stdout F a | b"),
                format!("{time} stderr F  c"),
                format!("{time} stdout F"),
                format!("{time} stdout F "),
                format!("{time} stdout F:x d"),
            ],
            vec!["a | b", " c", "", "", "d"],
        ),
        (
            Wrapper::Docker,
            vec![
                r#"{"log":"a \"b\" \u003c\\n\n","stream":"stdout","time":"x"}"#.to_owned(),
                r#"{"log":"plain","stream":"stderr","attrs":{},"time":"x"}"#.to_owned(),
                r#"{"log":" end\n","stream":"stderr","time":"x"}"#.to_owned(),
            ],
            vec!["a \"b\" <\\n", "-", "plain end"],
        ),
        (
            Wrapper::Compose,
            vec![
                "caddy-1  | {\"a\":1}".to_owned(),
                "nginx-10 |   b | c".to_owned(),
                "app.x_y | ".to_owned(),
                "app |".to_owned(),
            ],
            vec!["{\"a\":1}", "  b | c", "", ""],
        ),
    ] {
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        assert_eq!(contents(wrapper, &lines), some(&expected), "{wrapper:?}");
        let bytes: Vec<&[u8]> = lines.iter().map(|line| line.as_bytes()).collect();
        assert_eq!(Wrapper::of(&bytes), Some(wrapper));
    }
}

#[test]
fn parts_of_both_streams_are_put_together() {
    let line = |stream: &str, tag: &str, text: &str| {
        format!("2026-11-25T10:00:00.000000000Z {stream} {tag} {text}")
    };
    let lines = [
        line("stdout", "P", "one "),
        line("stderr", "P", "other "),
        line("stdout", "P", "line "),
        line("stderr", "F", "stream"),
        line("stdout", "F", "whole"),
        line("stdout", "F", "next"),
    ];
    let lines = lines.each_ref().map(String::as_str);
    let expected = some(&["-", "-", "-", "other stream", "one line whole", "next"]);
    assert_eq!(contents(Wrapper::Cri, &lines), expected);
}

#[test]
fn parts_without_an_end_are_not_kept() {
    let part = format!(
        "2026-11-25T10:00:00.0Z stdout P {}",
        "x".repeat(MAX_LINE / 2)
    );
    let mut unwrapper = Unwrapper::new(Wrapper::Cri);
    let mut errors = 0;
    for _ in 0..100 {
        errors += usize::from(unwrapper.content(part.as_bytes()).is_err());
        assert!(unwrapper.parts[0].text.capacity() <= 2 * MAX_LINE);
    }
    assert_eq!(errors, 1);
    let end = "2026-11-25T10:00:00.0Z stdout F end";
    assert_eq!(unwrapper.content(end.as_bytes()), Ok(None));
    let next = "2026-11-25T10:00:00.0Z stdout F next";
    assert_eq!(unwrapper.content(next.as_bytes()), Ok(Some(&b"next"[..])));
}

#[test]
fn a_line_without_its_wrapper_is_an_error() {
    for (wrapper, line) in [
        (Wrapper::Cri, ""),
        (Wrapper::Cri, "2026-11-25T10:00:00Z stdin F a"),
        (Wrapper::Cri, "2026-11-25T10:00:00Z stdout X a"),
        (Wrapper::Cri, "2026-11-25T10:00:00Z stdout Fa"),
        (Wrapper::Cri, "192.0.2.7 stdout F a"),
        (Wrapper::Docker, r#"{"log":"a\n"}"#),
        (Wrapper::Docker, r#"{"log":"a\n,"stream":"stdout"}"#),
        (Wrapper::Docker, r#"{"log":"a\n","stream":"x"}"#),
        (Wrapper::Docker, r#"{"stream":"stdout","log":"a\n"}"#),
        (Wrapper::Compose, "| a"),
        (Wrapper::Compose, "a b | c"),
        (Wrapper::Compose, "[a] | c"),
    ] {
        assert!(wrapper.piece(line.as_bytes()).is_err(), "{line}");
    }
}
