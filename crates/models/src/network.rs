//! Messages that are under way. Any message may arrive next, arrive twice, or never arrive.

/// The messages. The list is sorted, so that networks with the same messages are equal states.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Network<M>(Vec<M>);

impl<M: Copy + Ord> Network<M> {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn send(&mut self, message: M) {
        let place = self.0.partition_point(|other| *other < message);
        self.0.insert(place, message);
    }

    /// Removes a message, which has arrived or is lost.
    pub(crate) fn take(&mut self, message: M) {
        if let Ok(place) = self.0.binary_search(&message) {
            self.0.remove(place);
        }
    }

    /// Removes all messages that match.
    pub(crate) fn drop_all(&mut self, which: impl Fn(&M) -> bool) {
        self.0.retain(|message| !which(message));
    }

    /// Changes the content of all messages.
    pub(crate) fn change(&mut self, mut how: impl FnMut(&mut M)) {
        self.0.iter_mut().for_each(&mut how);
        self.0.sort_unstable();
    }

    pub(crate) fn has(&self, which: impl Fn(&M) -> bool) -> bool {
        self.0.iter().any(which)
    }

    pub(crate) fn count(&self, which: impl Fn(&M) -> bool) -> usize {
        self.0.iter().filter(|message| which(message)).count()
    }

    /// Returns each message once, even if it is under way twice.
    pub(crate) fn each(&self) -> impl Iterator<Item = M> {
        let mut last = None;
        let distinct = self.0.iter().copied();
        distinct.filter(move |message| last.replace(*message) != Some(*message))
    }
}
