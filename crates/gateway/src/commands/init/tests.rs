use super::*;

fn options() -> Options {
    Options {
        upstream: Some("http://127.0.0.1:9000".into()),
        listen: "127.0.0.1:8080".into(),
        trusted_proxies: "none".into(),
        burst: "20".into(),
        rate: "10/s".into(),
    }
}

/// Asks the questions with these answers. Returns the resulting options, and the output.
fn dialog(answers: &str) -> (Result<Options, Failure>, String) {
    let mut output = Vec::new();
    let given = ask(&options(), &mut answers.as_bytes(), &mut output);
    (given, String::from_utf8(output).unwrap())
}

#[test]
fn empty_answers_are_the_defaults() {
    let (given, output) = dialog("\n\n\n\n\n");
    assert_eq!(text(&given.unwrap()), text(&options()));
    assert!(
        output.starts_with("URL of your API [http://127.0.0.1:9000]: "),
        "{output}"
    );
}

#[test]
fn a_wrong_answer_is_asked_for_again_with_the_reason() {
    let (given, output) = dialog(
        "127.0.0.1:7000\nhttp://127.0.0.1:7000\n0.0.0.0:80\nnginx\n10.1.0.0/16, fd00:1::/64\nmany\n50\n100/m\n",
    );
    let given = given.unwrap();
    let values = [&given.listen, &given.burst, &given.rate];
    assert_eq!(values, ["0.0.0.0:80", "50", "100/m"]);
    assert_eq!(given.upstream.as_deref(), Some("http://127.0.0.1:7000"));
    let hint = "  `127.0.0.1:7000` has no scheme: write http://127.0.0.1:7000; allowed here: ";
    assert!(output.contains(hint), "{output}");
    assert_eq!(output.matches("URL of your API").count(), 2, "{output}");
    assert_eq!(output.matches("Load balancers").count(), 2, "{output}");
    let line = "\ntrusted_proxies: [10.1.0.0/16, fd00:1::/64]\n";
    assert!(text(&given).contains(line), "{}", text(&given));
}

#[test]
fn an_end_of_the_input_and_wrong_answers_without_end_are_failures() {
    let (given, _) = dialog("http://127.0.0.1:7000\n");
    assert!(given.unwrap_err().message.contains("no file was written"));
    let (given, _) = dialog(&"wrong\n".repeat(100));
    let failure = given.unwrap_err();
    assert_eq!(failure.status, 2);
}

#[test]
fn the_commented_parts_are_right_too() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("keys.yaml"), "[]").unwrap();
    let name = folder.path().join("gateway.yaml");
    let whole = text(&options()).lines().fold(String::new(), |whole, line| {
        let is_yaml =
            |line: &str| line.starts_with("  ") || line.contains(':') && !line.contains(". ");
        let line = line
            .strip_prefix("# ")
            .filter(|line| is_yaml(line))
            .unwrap_or(line);
        whole + line + "\n"
    });
    assert!(
        whole.contains("\nsecret:") && whole.contains("\nclients:"),
        "{whole}"
    );
    let env = |_: &str| Some("a-secret-of-the-test".to_owned());
    let parsed = tidegate_config::parse(&name.display().to_string(), &whole, env);
    let (_, warnings) = parsed.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(warnings, []);
}

#[test]
fn values_do_not_change_the_form_of_the_file() {
    let hostile = Options {
        rate: "10/s\nadmin: 0.0.0.0:1".into(),
        ..options()
    };
    let text = text(&hostile);
    assert!(
        !text.lines().any(|line| line.starts_with("admin: 0.0.0.0")),
        "{text}"
    );
    assert!(tidegate_config::parse("", &text, |_| None).is_err());
}
