use super::*;

fn met(
    query: &[(&str, &str)],
    headers: &[(&'static str, &'static str)],
    uri: &str,
    sent: &[(&'static str, &'static str)],
) -> Met {
    let header = |(name, value): &(&'static str, &'static str)| {
        let value = HeaderValue::from_static(value);
        (HeaderName::from_static(name), value)
    };
    let parameter = |(name, value): &(&str, &str)| ((*name).into(), (*value).into());
    let conditions = Conditions {
        query: query.iter().map(parameter).collect(),
        headers: headers.iter().map(header).collect(),
    };
    let mut map = HeaderMap::new();
    for (name, value) in sent.iter().map(header) {
        map.append(name, value);
    }
    let query = uri.split_once('?').map(|(_, query)| query);
    meets(&conditions, query, &map, false)
}

#[test]
fn a_parameter_must_be_there_once_and_equal() {
    let live = |uri| met(&[("mode", "live")], &[], uri, &[]);
    for uri in ["/?mode=live", "/?a=b&mode=live", "/?%6dode=liv%65"] {
        assert_eq!(live(uri), Met::Yes, "{uri}");
    }
    for uri in [
        "/",
        "/?",
        "/?mode",
        "/?mode=Live",
        "/?Mode=live",
        "/?mode=test",
        "/?mode=a&mode=b",
    ] {
        assert_eq!(live(uri), Met::No, "{uri}");
    }
    for uri in [
        "/?mode=live&mode=test",
        "/?mode=test&mode=live",
        "/?mode=live&mode=live",
    ] {
        assert_eq!(live(uri), Met::Unclear, "{uri}");
    }
    assert_eq!(met(&[("debug", "")], &[], "/?debug", &[]), Met::Yes);
}

#[test]
fn a_header_must_be_there_once_and_equal() {
    const NAME: &str = "x-api-version";
    let two = |sent| met(&[], &[(NAME, "2")], "/", sent);
    assert_eq!(two(&[(NAME, "2")]), Met::Yes);
    assert_eq!(two(&[(NAME, " 2 ")]), Met::Yes);
    assert_eq!(two(&[]), Met::No);
    assert_eq!(two(&[(NAME, "2, 1")]), Met::No);
    assert_eq!(two(&[(NAME, "1"), (NAME, "3")]), Met::No);
    assert_eq!(two(&[(NAME, "1"), (NAME, "2")]), Met::Unclear);
}

#[test]
fn all_conditions_must_be_met() {
    const NAME: &str = "x-api-version";
    let both = |uri, sent| met(&[("mode", "live")], &[(NAME, "2")], uri, sent);
    assert_eq!(both("/?mode=live", &[(NAME, "2")]), Met::Yes);
    assert_eq!(both("/?mode=live", &[]), Met::No);
    assert_eq!(both("/", &[(NAME, "2")]), Met::No);
    assert_eq!(both("/?mode=live&mode=live", &[(NAME, "2")]), Met::Unclear);
    assert_eq!(both("/?mode=live&mode=live", &[(NAME, "1")]), Met::No);
}
