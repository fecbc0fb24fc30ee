//! Numbers that an override sets for named limits: the text that the operator typed, and the limits that a configuration makes from this
//! text.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwapOption;
use tidegate_store::Limit;

use tidegate_identity::OwnLimits;

/// Makes a limit from the limit's name and the text with its numbers. Returns `None` if the text makes the client unlimited. The error
/// explains why the text cannot be used.
type Read = dyn Fn(&str, &str) -> Result<Option<Arc<Limit>>, String> + Send + Sync;

/// Reads numbers for the limits of one configuration. Clones have the same ID.
#[derive(Clone)]
pub struct NumberReader {
    id: u64,
    read: Arc<Read>,
}

impl NumberReader {
    /// Makes a reader with an ID of its own.
    pub fn new(
        read: impl Fn(&str, &str) -> Result<Option<Arc<Limit>>, String> + Send + Sync + 'static,
    ) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            read: Arc::new(read),
        }
    }

    /// Reads the text with the numbers for the limit of this name.
    ///
    /// # Errors
    ///
    /// The configuration does not define the limit, or the limit cannot have the numbers.
    pub fn read(&self, limit: &str, text: &str) -> Result<Option<Arc<Limit>>, String> {
        (self.read)(limit, text)
    }
}

impl Default for NumberReader {
    fn default() -> Self {
        Self::new(|limit, _| Err(format!("there is no limit `{limit}`")))
    }
}

impl fmt::Debug for NumberReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NumberReader").field(&self.id).finish()
    }
}

/// The numbers for each named limit, as the operator typed them.
#[derive(Debug)]
pub struct SetNumbers {
    texts: BTreeMap<String, String>,
    // The limits that a reader made from `texts`, and the ID of the reader.
    limits: ArcSwapOption<(u64, Arc<OwnLimits>)>,
}

impl SetNumbers {
    /// Makes a value from the text for each limit's name.
    pub fn new(texts: BTreeMap<String, String>) -> Self {
        Self {
            texts,
            limits: ArcSwapOption::empty(),
        }
    }

    /// Returns the text for each limit's name.
    pub const fn texts(&self) -> &BTreeMap<String, String> {
        &self.texts
    }

    /// Returns the limits with these numbers. Leaves out numbers that the configuration cannot use. Caches the limits until this function
    /// is called with the reader of another configuration.
    pub(crate) fn limits(&self, reader: &NumberReader) -> Arc<OwnLimits> {
        let entry = self.limits.load();
        if let Some((id, limits)) = entry.as_deref()
            && *id == reader.id
        {
            return limits.clone();
        }
        let texts = self.texts.iter();
        let limits = texts.filter_map(|(name, text)| {
            let limit = reader.read(name, text).ok()?;
            Some((name.as_str().into(), limit))
        });
        let limits = Arc::new(OwnLimits(limits.collect()));
        self.limits
            .store(Some(Arc::new((reader.id, limits.clone()))));
        limits
    }
}

impl PartialEq for SetNumbers {
    fn eq(&self, other: &Self) -> bool {
        self.texts == other.texts
    }
}

impl Eq for SetNumbers {}

/// Writes the numbers as the arguments of a command.
impl fmt::Display for SetNumbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (name, text)) in self.texts.iter().enumerate() {
            let gap = if at == 0 { "" } else { " " };
            write!(f, "{gap}{name} '{text}'")?;
        }
        Ok(())
    }
}
