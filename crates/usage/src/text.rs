//! A short text in JSON, such as the name of a model, read byte by byte.

/// The longest text that is kept, in bytes.
const MAX_BYTES: usize = 128;

/// The text at a path. The same text may come several times, as in an event stream.
#[derive(Debug)]
pub(crate) struct Text {
    /// The text that is being read. `None` if it is too long or written in a way that is not read.
    current: Option<Vec<u8>>,
    first: First,
}

#[derive(Debug)]
enum First {
    None,
    One(Box<str>),
    /// Different texts, or a text that cannot be read.
    Unclear,
}

impl Text {
    /// The state before the first byte.
    pub(crate) const NONE: Self = Self {
        current: None,
        first: First::None,
    };

    /// Begins a text.
    pub(crate) fn begin(&mut self) {
        self.current = Some(Vec::new());
    }

    /// Adds a byte of the text.
    pub(crate) fn add(&mut self, byte: u8) {
        match &mut self.current {
            Some(current) if current.len() < MAX_BYTES => current.push(byte),
            _ => self.current = None,
        }
    }

    /// Marks the current text as unreadable.
    pub(crate) fn spoil(&mut self) {
        self.current = None;
    }

    /// Ends the text.
    pub(crate) fn end(&mut self) {
        let current = self.current.take();
        let text = current.and_then(|bytes| String::from_utf8(bytes).ok());
        self.first = match (&self.first, text) {
            (First::None, Some(text)) => First::One(text.into()),
            (First::One(first), Some(text)) if **first == *text => return,
            _ => First::Unclear,
        };
    }

    /// Whether there was a text.
    pub(crate) const fn was_read(&self) -> bool {
        !matches!(self.first, First::None)
    }

    /// Returns the text. `None` if there was none, if there were different ones, or if one has more than 128 bytes or an escape `\u`.
    pub(crate) fn get(&self) -> Option<&str> {
        match &self.first {
            First::One(text) => Some(text),
            First::None | First::Unclear => None,
        }
    }
}
