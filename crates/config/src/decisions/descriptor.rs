//! The values of domains: their names, and the keys and values of descriptors.

use tidegate_doors::ValuePattern;

use crate::value::word::name;
use crate::value::{Fault, Value};

name!(
    /// The name of a domain.
    pub(crate) DomainName,
    "the name of a domain",
    "1 to 128 characters, without control characters",
    |c| !c.is_control()
);

name!(
    /// A key of a descriptor.
    pub(crate) DescriptorKey,
    "a key of a descriptor",
    "1 to 128 characters, without `*` and control characters",
    |c| c != '*' && !c.is_control()
);

/// The values of a key that match.
#[derive(Debug)]
pub(crate) struct DescriptorValue(pub(crate) ValuePattern);

impl Value for DescriptorValue {
    const NAME: &'static str = "DescriptorValue";
    const WHAT: &'static str = "the value of a descriptor";
    const ALLOWED: &'static str =
        "a value, `*` for any value, or the start of a value and `*`, such as `foo*`";

    fn read(text: &str) -> Result<Self, Fault> {
        let start = text.strip_suffix('*').unwrap_or(text);
        match start.contains('*') {
            true => Err(Fault::Form),
            false => Ok(Self(ValuePattern::new(text))),
        }
    }
}
