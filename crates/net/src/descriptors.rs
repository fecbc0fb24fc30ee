//! File descriptors: how many the process may have open, and how clients and upstreams share them.
//!
//! The limit is the process's, so the count of connections to upstreams is, too. A client that was accepted may need a connection
//! to an upstream at any time. So each side gets half of what the process does not need for itself.

use std::error::Error;
use std::io;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What a gateway has open that serves nobody yet: its ports, its timers, its log.
const OWN: usize = 24;
/// The share of the limit that is kept for Redis, the admin port, names and files. It is at least this part of the limit, and at
/// most so many.
const RESERVED_PART: usize = 8;
const MOST_RESERVED: usize = 128;
/// The connections of clients, unless the configuration sets another number.
pub const DEFAULT_CONNECTIONS: usize = 10_000;
/// The least number of these that must fit without a warning.
const LEAST_CONNECTIONS: usize = 1_000;
/// How often the log says that there are none left.
const SAY_AGAIN: Duration = Duration::from_secs(60);

/// Connections to upstreams that are open, and when the log last said that there is no room for another.
static UPSTREAMS: AtomicUsize = AtomicUsize::new(0);
static SAID: Mutex<Option<Instant>> = Mutex::new(None);
/// How the descriptors are shared. The limit is read when this is first asked for, so it is raised before.
static SHARES: LazyLock<Shares> = LazyLock::new(|| Shares::of(soft_limit(), open_now().max(OWN)));

/// How many connections of each kind fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// The process's limit; none: there is none.
    pub limit: Option<usize>,
    /// Connections of clients.
    pub clients: usize,
    /// Connections to upstreams.
    upstreams: usize,
    /// Connections to the admin port.
    pub admin: usize,
}

impl Shares {
    /// The shares of a limit, for a process that has so many open for itself.
    fn of(limit: Option<usize>, own: usize) -> Self {
        let Some(most) = limit else {
            return Self {
                limit,
                clients: usize::MAX,
                upstreams: usize::MAX,
                admin: usize::MAX,
            };
        };
        let reserved = (most / RESERVED_PART).min(MOST_RESERVED);
        let half = most.saturating_sub(own + reserved) / 2;
        Self {
            limit,
            clients: half.max(1),
            upstreams: half.max(1),
            admin: (reserved / 2).max(1),
        }
    }

    /// Returns a warning if fewer clients fit than `max_connections`. None: the configuration does not set it, so most systems fit.
    pub fn misfit(&self, max_connections: Option<usize>) -> Option<String> {
        let least = max_connections.unwrap_or(LEAST_CONNECTIONS);
        let limit = self.limit.filter(|_| self.clients < least)?;
        let wanted = max_connections.unwrap_or(DEFAULT_CONNECTIONS);
        let Self { clients, .. } = self;
        Some(format!(
            "max_connections is {wanted}, but with {limit} file descriptors only {clients} connections fit, as each may \
             need one to an upstream; raise the limit (ulimit -n, LimitNOFILE=) or lower max_connections"
        ))
    }
}

/// How this process's descriptors are shared.
pub fn shares() -> Shares {
    *SHARES
}

/// How those of a gateway would be shared that is started as this process was.
pub fn shares_at_start() -> Shares {
    Shares::of(getrlimit(Resource::Nofile).maximum.map(number), OWN)
}

/// Raises the process's soft limit to the hard one. A system that does not let it keeps the one that it has.
pub fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    let current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, Rlimit { current, ..limit });
}

/// The descriptor of a connection to an upstream, counted until this is dropped.
#[derive(Debug)]
pub struct UpstreamDescriptor(());

impl UpstreamDescriptor {
    /// One more, or the error that the system itself would give.
    ///
    /// # Errors
    ///
    /// The process has no more file descriptors for upstreams.
    pub fn take() -> io::Result<Self> {
        let most = SHARES.upstreams;
        let more = |open: usize| (open < most).then_some(open + 1);
        let taken = UPSTREAMS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.map(|_| Self(())).map_err(|_| Errno::MFILE.into())
    }

    /// Whether so many are open that none should be kept for later.
    pub fn are_scarce() -> bool {
        UPSTREAMS.load(Ordering::Relaxed) >= SHARES.upstreams / 4 * 3
    }
}

impl Drop for UpstreamDescriptor {
    fn drop(&mut self) {
        UPSTREAMS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether this machine has no descriptor, port or memory left for a connection: by an error, or one of its sources. Such an
/// error says nothing about the peer.
pub fn is_our_shortage(error: &(dyn Error + 'static)) -> bool {
    const OURS: [Errno; 5] = [
        Errno::MFILE,
        Errno::NFILE,
        Errno::ADDRNOTAVAIL,
        Errno::NOBUFS,
        Errno::NOMEM,
    ];
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            let ours = OURS.map(Errno::raw_os_error);
            if error
                .raw_os_error()
                .is_some_and(|code| ours.contains(&code))
            {
                return true;
            }
            // An error that was made by hand shows what it was made from, and not its cause.
            cause = error.get_ref().map(|inner| inner as &(dyn Error + 'static));
        } else {
            cause = error.source();
        }
    }
    false
}

/// Says in the log that there was none left, now and then.
pub fn say_shortage() {
    let mut said = SAID.lock();
    if said.is_some_and(|said| said.elapsed() < SAY_AGAIN) {
        return;
    }
    *said = Some(Instant::now());
    tracing::warn!(
        "no file descriptor, port or memory is left for a connection to an upstream: requests that need one get 503"
    );
}

fn soft_limit() -> Option<usize> {
    getrlimit(Resource::Nofile).current.map(number)
}

fn number(limit: u64) -> usize {
    usize::try_from(limit).unwrap_or(usize::MAX)
}

/// How many are open now; 0 where the system does not tell.
fn open_now() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, |open| open.count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_and_upstreams_have_the_same_share() {
        let shares = |limit| {
            let Shares {
                clients,
                upstreams,
                admin,
                ..
            } = Shares::of(limit, OWN);
            (clients, upstreams, admin)
        };
        assert_eq!(shares(Some(128)), (44, 44, 8));
        assert_eq!(shares(Some(1024)), (436, 436, 64));
        assert_eq!(shares(Some(1 << 20)), (524_212, 524_212, 64));
        // So few that nothing is left still serve somebody.
        assert_eq!(shares(Some(16)), (1, 1, 1));
        assert_eq!(shares(None), (usize::MAX, usize::MAX, usize::MAX));
    }

    #[test]
    fn what_does_not_fit_is_said() {
        let shares = Shares::of(Some(1024), OWN);
        assert_eq!(shares.misfit(Some(436)), None);
        let said = shares.misfit(Some(437)).unwrap();
        assert!(said.contains("437") && said.contains("1024") && said.contains("436"));
        assert_eq!(Shares::of(None, OWN).misfit(Some(1_000_000)), None);
        assert!(
            shares
                .misfit(None)
                .unwrap()
                .contains("max_connections is 10000")
        );
        // Half of what is common, which is enough for a number that the configuration does not set.
        assert_eq!(Shares::of(Some(20_000), OWN).misfit(None), None);
    }

    #[test]
    fn shortages_are_known_below_other_errors() {
        let code = |errno: Errno| io::Error::from_raw_os_error(errno.raw_os_error());
        for errno in [
            Errno::MFILE,
            Errno::NFILE,
            Errno::ADDRNOTAVAIL,
            Errno::NOBUFS,
            Errno::NOMEM,
        ] {
            assert!(is_our_shortage(&code(errno)), "{errno}");
            assert!(is_our_shortage(&io::Error::other(code(errno))), "{errno}");
        }
        for errno in [Errno::CONNREFUSED, Errno::CONNRESET, Errno::TIMEDOUT] {
            assert!(!is_our_shortage(&code(errno)), "{errno}");
        }
        assert!(!is_our_shortage(&io::Error::other("text")));
    }
}
