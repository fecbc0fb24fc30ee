//! What came out of a store.

use std::time::Duration;

use tidegate_core::{Micros, Verdict};

use crate::PerCharge;

/// One verdict per charge, in the order of the charges; `None` where a limit without a store stands open.
pub type Verdicts = PerCharge<Option<Verdict>>;

/// Where each verdict comes from, in the order of the charges.
pub type Sources = PerCharge<Source>;

/// By whom a verdict was given, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// The time by the clock of who gave it, in us since the epoch.
    pub at: Micros,
    /// Whether that was this process, and not Redis.
    pub here: bool,
    /// The ID of what the charge holds, if its limit holds something.
    pub hold: u64,
}

/// Whether the request goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every limit allowed it, and every one was charged.
    Admitted,
    /// At least one limit did not; none was charged.
    Refused,
    /// A limit that stays closed without a store had none; none was charged.
    Unavailable,
}

/// Which rule decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// The store that was configured.
    Store,
    /// A refusal of Redis's that was given a moment ago, and still holds.
    Remembered,
    /// This process, as the modes of the limits have it.
    Here,
    /// The limits' `on_failure`, because Redis did not decide.
    Fallback,
}

/// The answer to one request's charges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Whether the request goes on.
    pub outcome: Outcome,
    /// Which rule decided.
    pub via: Via,
    /// The time of the decision by the deciding clock, in us since the epoch.
    pub now: Micros,
    /// What each limit said.
    pub verdicts: Verdicts,
    /// Where that comes from.
    pub sources: Sources,
    /// The call to Redis, if there was one.
    pub call: Option<StoreCall>,
}

impl Decision {
    /// A refusal that Redis gave a moment ago, at this time by its clock.
    pub(crate) fn remembered(now: Micros, verdicts: impl Iterator<Item = Option<Verdict>>) -> Self {
        let verdicts: Verdicts = verdicts.collect();
        Self {
            outcome: Outcome::Refused,
            via: Via::Remembered,
            now,
            sources: Self::sources(verdicts.len(), now, false, 0),
            verdicts,
            call: None,
        }
    }

    /// The sources of a decision that was made at once, and whose charges hold something under this ID.
    pub(crate) fn sources(charges: usize, at: Micros, here: bool, hold: u64) -> Sources {
        (0..charges).map(|_| Source { at, here, hold }).collect()
    }
}

/// What a charge would meet now: nothing was charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outlook {
    /// The time by the store's clock, in us since the epoch.
    pub now: Micros,
    /// What the limit says, on its own.
    pub verdict: Verdict,
    /// Whether that is what this process alone counts; others may count as much.
    pub here: bool,
}

/// How a call to Redis went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreCall {
    /// How long the decision waited for it.
    pub took: Duration,
    /// Why it gave no decision.
    pub error: Option<StoreError>,
}

/// The code of a reply that is not what the script says.
pub(crate) const UNKNOWN_REPLY: &str = "an unknown reply";

/// Why Redis gave no decision.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// No answer within the store's timeout.
    #[error("Redis did not answer in time")]
    Timeout,
    /// No connection, because TLS fails; this is how.
    #[error("TLS with Redis failed: {0}")]
    Tls(&'static str),
    /// No connection, because Redis refuses the user or the password with this code.
    #[error("Redis refused the user or the password ({0})")]
    Login(String),
    /// No connection at the moment.
    #[error("there is no connection to Redis")]
    Disconnected,
    /// The script found itself too late, and charged nothing.
    #[error("Redis came to it too late")]
    Late,
    /// Too many decisions wait for Redis already, or it did not answer lately; it was not asked.
    #[error("Redis was not asked, because it did not answer lately")]
    NotAsked,
    /// Redis answered with an error, whose code this is (`OOM`, `READONLY`, `NOPERM`, …).
    #[error("Redis answered {0}")]
    Refused(String),
    /// It is not known yet under which keys other gateways count, so it was not asked.
    #[error("which secret the gateways on this Redis share is not known yet")]
    SecretUnknown,
    /// Other gateways count under other keys, so it was not asked.
    #[error("the gateways on this Redis use another `secret`; all need the same one")]
    SecretDiffers,
}

impl StoreError {
    /// A short word for metrics.
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Disconnected => "disconnected",
            Self::Late => "late",
            Self::NotAsked => "not_asked",
            Self::Refused(_) => "refused",
            Self::Tls(_) => "tls",
            Self::Login(_) => "login",
            Self::SecretUnknown => "secret_unknown",
            Self::SecretDiffers => "secret_differs",
        }
    }

    /// The reply is not what the script says.
    pub(crate) fn unknown_reply() -> Self {
        Self::Refused(UNKNOWN_REPLY.to_owned())
    }

    /// What a script that decides many says of one that failed (`failure` in `lua/record.lua`).
    pub(crate) fn of_script(number: i64) -> Self {
        let code = match number {
            -1 => "WRONGTYPE",
            _ => "ERR",
        };
        Self::Refused(code.to_owned())
    }

    /// Whether the slot of several keys is moving; then nothing has run.
    pub(crate) fn is_moving(&self) -> bool {
        matches!(self, Self::Refused(code) if code == "TRYAGAIN")
    }

    /// Whether the server works, and refused because of these keys: their slot moves, or the script cannot read what is
    /// stored under them.
    ///
    /// A script that fails has no code of its own but `ERR`. Some errors of a whole server have that code as well, such as a
    /// command that it does not know. They come at once, so asking again costs no request any time.
    pub(crate) fn is_about_keys(&self) -> bool {
        let codes = ["WRONGTYPE", "ERR", UNKNOWN_REPLY];
        self.is_moving() || matches!(self, Self::Refused(code) if codes.contains(&&**code))
    }
}
