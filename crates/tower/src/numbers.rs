//! Numbers that an override gives to named limits: as they were typed, and as a configuration reads them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwapOption;
use tidegate_store::Limit;

use tidegate_identity::OwnLimits;

/// Reads the numbers of a limit by its name, or returns why they cannot be used. No limit: unlimited.
type Read = dyn Fn(&str, &str) -> Result<Option<Arc<Limit>>, String> + Send + Sync;

/// The reader of numbers by one configuration. Clones are the same reader.
#[derive(Clone)]
pub struct NumberReader {
    id: u64,
    read: Arc<Read>,
}

impl NumberReader {
    /// Makes a reader that differs from all others.
    pub fn new(
        read: impl Fn(&str, &str) -> Result<Option<Arc<Limit>>, String> + Send + Sync + 'static,
    ) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            read: Arc::new(read),
        }
    }

    /// Reads the numbers that the limit of this name gets.
    ///
    /// # Errors
    ///
    /// The configuration does not define the limit, or the numbers do not fit it.
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

/// Numbers by the names of limits, as they were typed.
#[derive(Debug)]
pub struct SetNumbers {
    texts: BTreeMap<String, String>,
    // The limits with these numbers, and the ID of the reader that made them.
    limits: ArcSwapOption<(u64, Arc<OwnLimits>)>,
}

impl SetNumbers {
    /// Takes texts by the names of limits.
    pub fn new(texts: BTreeMap<String, String>) -> Self {
        Self {
            texts,
            limits: ArcSwapOption::empty(),
        }
    }

    /// Returns the texts by the names of limits.
    pub const fn texts(&self) -> &BTreeMap<String, String> {
        &self.texts
    }

    /// Returns the limits with these numbers. Each configuration reads them once, and leaves out numbers that it cannot use.
    pub(crate) fn limits(&self, reader: &NumberReader) -> Arc<OwnLimits> {
        let known = self.limits.load();
        if let Some((id, limits)) = known.as_deref()
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

/// Writes the numbers as arguments of a command.
impl fmt::Display for SetNumbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (name, text)) in self.texts.iter().enumerate() {
            let gap = if at == 0 { "" } else { " " };
            write!(f, "{gap}{name} '{text}'")?;
        }
        Ok(())
    }
}
