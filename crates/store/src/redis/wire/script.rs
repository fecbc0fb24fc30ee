//! A script as servers run it: its text, and the name by which they know it.

/// How many scripts there can be.
pub(in crate::redis) const SCRIPTS: usize = 9 << 9;

/// One script.
#[derive(Debug)]
pub(in crate::redis) struct Script {
    index: usize,
    text: String,
    sha: String,
}

impl Script {
    /// The script with this text, as number `index` of the [`SCRIPTS`].
    pub(in crate::redis) fn new(index: usize, text: String) -> Self {
        Self {
            index,
            sha: super::client::sha1(&text),
            text,
        }
    }

    /// Which of the [`SCRIPTS`] it is.
    pub(in crate::redis) const fn index(&self) -> usize {
        self.index
    }

    /// All of it.
    pub(in crate::redis) fn text(&self) -> &str {
        &self.text
    }

    /// The name by which Redis knows it.
    pub(in crate::redis) fn sha(&self) -> &str {
        &self.sha
    }
}
