//! Values of headers.

use http::HeaderValue;

use crate::values::value::{Fault, Value};

/// The value of a header, which may be a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HeaderText(pub(crate) HeaderValue);

impl Value for HeaderText {
    const NAME: &'static str = "HeaderText";
    const WHAT: &'static str = "the value of a header";
    const ALLOWED: &'static str = "text of one line";
    const SHOWN: bool = false;
    /// The longest value of a header, in bytes. The bound is large, because a `Content-Security-Policy` may have some thousand bytes.
    const MAX_BYTES: usize = 8 << 10;

    fn read(text: &str) -> Result<Self, Fault> {
        let mut value = HeaderValue::from_str(text.trim()).map_err(|_| Fault::Form)?;
        value.set_sensitive(true);
        Ok(Self(value))
    }
}
