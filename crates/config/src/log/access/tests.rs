use super::*;
use crate::tests::bad;

#[test]
fn a_template_is_text_and_fields() {
    use AccessPiece::{Field, Text};
    let read = |text| AccessFormat::read(text);
    let pieces = vec![
        Field(AccessField::Peer),
        Text(" [".into()),
        Field(AccessField::Status),
        Text("x] $".into()),
        Field(AccessField::Path),
    ];
    let template = AccessFormat::Template(pieces);
    assert_eq!(read("$peer [${status}x] $$$path"), Ok(template));
    assert_eq!(read("common"), Ok(AccessFormat::Common));
    bad::<AccessFormat>(&["", "jason", "$", "$peers", "${peer", "$peer\n", "$Peer"]);
}

#[test]
fn a_share_has_up_to_four_decimals() {
    for (text, millionths) in [
        ("0%", 0),
        ("1%", 10_000),
        ("0.1%", 1_000),
        ("12.0005%", 120_005),
        ("100%", 1_000_000),
    ] {
        assert_eq!(Sample::read(text), Ok(Sample(millionths)), "{text}");
    }
    bad::<Sample>(&[
        "", "%", "1", "101%", "100.1%", "1.%", ".1%", "0.12345%", "-1%", "01%", "1.x%",
    ]);
}

#[test]
fn a_status_is_one_or_a_class() {
    assert_eq!(StatusRange::read("404"), Ok(StatusRange(404, 404)));
    assert_eq!(StatusRange::read("5xx"), Ok(StatusRange(500, 599)));
    bad::<StatusRange>(&["", "xx", "6xx", "0xx", "99", "600", "4x", "4XX"]);
}
