//! A request that is not answered: what hyper is told instead.

use h2::Reason;

/// Why there is no answer. With it as a service's error hyper closes an HTTP/1 connection without a word, and resets an
/// HTTP/2 stream with the code that stands below it, which no client takes for an invitation to try again.
#[derive(Debug, thiserror::Error)]
#[error("a limit dropped the request")]
pub(crate) struct Dropped(#[source] h2::Error);

impl Default for Dropped {
    fn default() -> Self {
        Self(Reason::ENHANCE_YOUR_CALM.into())
    }
}
