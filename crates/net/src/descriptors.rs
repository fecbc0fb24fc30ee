//! File descriptors: the limit of the process, and its division between clients and upstreams.
//!
//! The limit and the count of upstream connections apply to the whole process. Each accepted client may need a connection to an upstream at
//! any time. So each side gets half of the descriptors that the process does not need itself.

use std::error::Error;
use std::io;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The number of descriptors that a gateway without clients needs: its ports, its timers, its log.
const OWN: usize = 24;
/// The gateway reserves the limit divided by this number for Redis, the admin port, DNS and files.
const RESERVED_PART: usize = 8;
/// The most descriptors that the gateway reserves for Redis, the admin port, DNS and files.
const MOST_RESERVED: usize = 128;
/// The default of `max_connections`.
pub const DEFAULT_CONNECTIONS: usize = 10_000;
/// The number of client connections below which the gateway logs a warning if the configuration has no `max_connections`.
const LEAST_CONNECTIONS: usize = 1_000;
/// The shortest time between two log lines about a shortage of descriptors, ports or memory.
const SAY_AGAIN: Duration = Duration::from_secs(60);

/// The number of open connections to upstreams.
static UPSTREAMS: AtomicUsize = AtomicUsize::new(0);
/// The time of the last log line about a shortage.
static LAST_LINE: Mutex<Option<Instant>> = Mutex::new(None);
/// The shares of this process. The first use reads the limit, so `raise_limit` must run earlier.
static SHARES: LazyLock<Shares> = LazyLock::new(|| Shares::of(soft_limit(), open_now().max(OWN)));

/// The most connections of each kind for which the process has descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// The limit of the process. `None` without a limit.
    pub limit: Option<usize>,
    /// Connections of clients.
    pub clients: usize,
    /// Connections to upstreams.
    upstreams: usize,
    /// Connections to the admin port.
    pub admin: usize,
}

impl Shares {
    /// Divides a limit into shares, for a process that itself needs `own` descriptors.
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

    /// Returns a warning if there is room for fewer clients than `max_connections`, or than 1,000 if `max_connections` is not set.
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

/// Returns the shares of this process.
pub fn shares() -> Shares {
    *SHARES
}

/// Returns the shares that a gateway would have if it were started in the environment of this process.
pub fn shares_at_start() -> Shares {
    Shares::of(getrlimit(Resource::Nofile).maximum.map(number), OWN)
}

/// Raises the process's soft limit to the hard limit. If the system refuses, the soft limit does not change.
pub fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    let current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, Rlimit { current, ..limit });
}

/// The descriptor of a connection to an upstream. It counts toward the upstreams' share until this value is dropped.
#[derive(Debug)]
pub struct UpstreamDescriptor(());

impl UpstreamDescriptor {
    /// Counts one more connection. If the share is used up, returns the operating system's error for a process without free descriptors.
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

    /// Whether three quarters of the upstreams' share are in use, so that no idle connection should be kept.
    pub fn are_scarce() -> bool {
        UPSTREAMS.load(Ordering::Relaxed) >= SHARES.upstreams / 4 * 3
    }
}

impl Drop for UpstreamDescriptor {
    fn drop(&mut self) {
        UPSTREAMS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether an error or its causes show that this machine has no descriptor, port or memory left for a connection. Such an error is no
/// failure of the peer.
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
            // `source` of an `io::Error` skips the error inside it, so `get_ref` is used.
            cause = error.get_ref().map(|inner| inner as &(dyn Error + 'static));
        } else {
            cause = error.source();
        }
    }
    false
}

/// Logs a shortage, once a minute at most.
pub fn say_shortage() {
    let mut last = LAST_LINE.lock();
    if last.is_some_and(|last| last.elapsed() < SAY_AGAIN) {
        return;
    }
    *last = Some(Instant::now());
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

/// Returns the number of open descriptors, or 0 if the system does not report it.
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
        // With too few descriptors for any share, each share is 1.
        assert_eq!(shares(Some(16)), (1, 1, 1));
        assert_eq!(shares(None), (usize::MAX, usize::MAX, usize::MAX));
    }

    #[test]
    fn what_does_not_fit_is_said() {
        let shares = Shares::of(Some(1024), OWN);
        assert_eq!(shares.misfit(Some(436)), None);
        let text = shares.misfit(Some(437)).unwrap();
        assert!(text.contains("437") && text.contains("1024") && text.contains("436"));
        assert_eq!(Shares::of(None, OWN).misfit(Some(1_000_000)), None);
        assert!(
            shares
                .misfit(None)
                .unwrap()
                .contains("max_connections is 10000")
        );
        // A limit of 20,000 descriptors is too low for the default of 10,000 connections, but causes no warning if `max_connections` is not
        // set.
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
