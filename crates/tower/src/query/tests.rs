use super::*;

fn one(value: &str) -> QueryValue<'_> {
    QueryValue::One(Cow::Borrowed(value.as_bytes()))
}

#[test]
fn a_value_stands_behind_its_name() {
    for (query, value) in [
        ("index=a", one("a")),
        ("x=b&index=a&y=c", one("a")),
        ("index=a=b", one("a=b")),
        ("index=", one("")),
        ("index", one("")),
        ("&&index=a&", one("a")),
        ("index=a;b", one("a;b")),
        ("", QueryValue::Missing),
        ("x=index", QueryValue::Missing),
        ("Index=a", QueryValue::Missing),
        ("index[]=a", QueryValue::Missing),
        ("indexes=a", QueryValue::Missing),
        ("x=1;index=a", QueryValue::Missing),
    ] {
        assert_eq!(QueryValue::of(query, "index"), value, "{query}");
    }
}

#[test]
fn escapes_are_decoded_once_in_names_too() {
    for (query, value) in [
        ("%69nd%65x=%61", one("a")),
        ("index=a+b", one("a b")),
        ("index=a%20b", one("a b")),
        ("index=a%2Bb", one("a+b")),
        ("index=a%2bb", one("a+b")),
        ("index=%2561", one("%61")),
        ("index=a%26x%3D", one("a&x=")),
        ("index=%", one("%")),
        ("index=%4", one("%4")),
        ("index=%zz%41", one("%zzA")),
        ("index=%+1", one("% 1")),
    ] {
        assert_eq!(QueryValue::of(query, "index"), value, "{query}");
    }
    let bytes = QueryValue::of("index=%FF%00", "index");
    assert_eq!(bytes, QueryValue::One(Cow::Borrowed(&[0xff, 0])));
    assert_eq!(QueryValue::of("user+id=7", "user id"), one("7"));
    assert_eq!(QueryValue::of("stra%C3%9Fe=7", "stra\u{df}e"), one("7"));
}

#[test]
fn a_name_that_is_repeated_has_no_value() {
    for query in [
        "index=a&index=b",
        "index=a&index=a",
        "index&x=1&index=a",
        "index=a&%69ndex=b",
    ] {
        assert_eq!(
            QueryValue::of(query, "index"),
            QueryValue::Several,
            "{query}"
        );
    }
}
