use super::*;

fn expand(text: &str) -> Result<Cow<'_, str>, Unfilled<'_>> {
    super::expand(text, &|name| match name {
        "PORT" => Some("8080".into()),
        "ODD" => Some("${PORT}: {a}".into()),
        "EMPTY" => Some(String::new()),
        _ => None,
    })
}

#[test]
fn a_variable_is_filled_in_and_its_value_is_not_read_again() {
    assert_eq!(expand("a${PORT}b${PORT}").unwrap(), "a8080b8080");
    assert_eq!(expand("${ODD}").unwrap(), "${PORT}: {a}");
    assert_eq!(expand("no $PORT, $ or {}").unwrap(), "no $PORT, $ or {}");
}

#[test]
fn a_default_stands_in_for_what_is_unset_or_empty() {
    assert_eq!(expand("${PORT:-1}").unwrap(), "8080");
    assert_eq!(expand("${NONE:-127.0.0.1:1}").unwrap(), "127.0.0.1:1");
    assert_eq!(expand("${EMPTY:-1}").unwrap(), "1");
    assert_eq!(expand("${EMPTY:-}").unwrap(), "");
}

#[test]
fn two_dollars_are_one_of_the_value_itself() {
    assert_eq!(expand("$${PORT} ${PORT}").unwrap(), "${PORT} 8080");
}

#[test]
fn what_is_unset_or_of_another_form_is_named() {
    let unset = |reference, name| Unfilled {
        reference,
        why: Why::Unset(name),
    };
    assert_eq!(expand("a${NONE}b").unwrap_err(), unset("${NONE}", "NONE"));
    assert_eq!(expand("${EMPTY}").unwrap_err(), unset("${EMPTY}", "EMPTY"));
    for reference in ["${PORT", "${}", "${1A}", "${PORT?no}", "${A B}", "${:-a}"] {
        let why = Why::Form;
        assert_eq!(expand(reference).unwrap_err(), Unfilled { reference, why });
    }
}
