use super::*;
use crate::tests::{bad, good};

#[test]
fn networks_are_addresses_or_have_a_prefix_that_fits() {
    assert_eq!(good::<Network>("10.0.0.0/8").0.to_string(), "10.0.0.0/8");
    assert_eq!(good::<Network>("192.0.2.1").0.to_string(), "192.0.2.1/32");
    assert_eq!(good::<Network>("::1").0.to_string(), "::1/128");
    bad::<Network>(&[
        "",
        "10.0.0.0/33",
        "10.0.0.1/8",
        "10/8",
        "example.com",
        "[::1]",
    ]);
}

#[test]
fn prefixes_have_1_to_128_bits() {
    bad::<PrefixLength>(&["0", "129", "256"]);
}
