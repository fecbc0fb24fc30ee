use super::*;

#[test]
fn pairs_are_read_as_the_standard_has_them() {
    let owned = |pairs: &[(&str, &str)]| {
        let pairs = pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Some(pairs.collect::<Vec<_>>())
    };
    assert_eq!(pairs(""), owned(&[]));
    assert_eq!(pairs("a=b"), owned(&[("a", "b")]));
    let read = pairs(" authorization = Basic%20YTpi== , x=,");
    assert_eq!(read, owned(&[("authorization", "Basic YTpi=="), ("x", "")]));
    for wrong in ["a", "=b", "a=%4", "a=%zz", "a=%ff"] {
        assert_eq!(pairs(wrong), None, "{wrong}");
    }
}
