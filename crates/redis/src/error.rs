//! The error of a call to Redis.

use std::sync::Arc;

use super::error_reply::ErrorReply;

/// The reason why a call to Redis has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// There was no answer within the timeout.
    #[error("Redis did not answer in time")]
    Timeout,
    /// There is no connection, because TLS fails for this reason.
    #[error("TLS with Redis failed: {0}")]
    Tls(Arc<str>),
    /// There is no connection, because Redis refuses the user or the password.
    #[error("Redis refused the user or the password: {0}")]
    Login(ErrorReply),
    /// There is no connection, because the server cannot be reached for this reason.
    #[error("there is no connection to Redis: {0}")]
    Unreachable(Arc<str>),
    /// There is no connection at the moment. If the connection ended during the call, the script may have run.
    #[error("there is no connection to Redis")]
    Disconnected,
    /// The script ran after its deadline, so it made no change.
    #[error("Redis came to it too late")]
    Late,
    /// No call was made, because too many decisions wait for Redis already, or the circuit breaker is open.
    #[error("Redis was not asked, because it did not answer lately")]
    NotAsked,
    /// Redis answered with an error.
    #[error("Redis answered {0}")]
    Refused(ErrorReply),
    /// No call was made, because the shared secret is unknown. The keys of budgets depend on the secret.
    #[error("which secret the gateways on this Redis share is not known yet")]
    SecretUnknown,
    /// No call was made, because other gateways use another secret, and so other keys.
    #[error("the gateways on this Redis use another `secret`; all need the same one")]
    SecretDiffers,
}

impl CallError {
    /// All labels that [`label`](Self::label) returns.
    pub const LABELS: [&str; 9] = [
        "timeout",
        "disconnected",
        "late",
        "not_asked",
        "refused",
        "tls",
        "login",
        "secret_unknown",
        "secret_differs",
    ];

    /// Returns a short label for metrics.
    pub const fn label(&self) -> &'static str {
        let [
            timeout,
            disconnected,
            late,
            not_asked,
            refused,
            tls,
            login,
            unknown,
            differs,
        ] = Self::LABELS;
        match self {
            Self::Timeout => timeout,
            Self::Disconnected | Self::Unreachable(_) => disconnected,
            Self::Late => late,
            Self::NotAsked => not_asked,
            Self::Refused(_) => refused,
            Self::Tls(_) => tls,
            Self::Login(_) => login,
            Self::SecretUnknown => unknown,
            Self::SecretDiffers => differs,
        }
    }

    /// Makes an error from the text of Redis's error reply.
    pub fn refused(text: &str) -> Self {
        Self::Refused(ErrorReply::new(text))
    }

    /// Makes the error for a reply of an unexpected form.
    pub fn unknown_reply() -> Self {
        Self::Refused(ErrorReply::about_keys("an unknown reply"))
    }

    /// Makes the error for a failed decision from its error number, which Redis returns if a call has several decisions (`failure` in
    /// `lua/record.lua`).
    pub fn of_script(number: i64) -> Self {
        Self::Refused(ErrorReply::about_keys(match number {
            -1 => "WRONGTYPE the key holds another type of value",
            _ => "ERR the key holds a value that no script wrote",
        }))
    }

    /// Returns the code of Redis's error reply, if Redis returned one.
    pub(crate) fn code(&self) -> Option<&str> {
        match self {
            Self::Refused(reply) | Self::Login(reply) => Some(reply.code()),
            _ => None,
        }
    }

    /// Returns the label, and for an error reply also its code and remedy. `Complaints` logs each such kind once a minute at most.
    pub(crate) fn kind(&self) -> String {
        match self {
            Self::Refused(reply) | Self::Login(reply) => {
                let remedy = reply.remedy().unwrap_or_default();
                format!("{} {} {remedy}", self.label(), reply.code())
            }
            _ => self.label().to_owned(),
        }
    }

    /// Whether the call failed at once, because there is no connection. So no caller has waited.
    pub(crate) const fn is_at_once(&self) -> bool {
        matches!(
            self,
            Self::Disconnected | Self::Unreachable(_) | Self::Login(_) | Self::Tls(_)
        )
    }

    /// Whether the script did not run because the slot of its keys is moving to another node.
    pub fn is_moving(&self) -> bool {
        self.code() == Some("TRYAGAIN")
    }

    /// Whether the server works, and the error concerns only the keys of the call: their slot is moving, or the script cannot read their
    /// values.
    pub const fn is_about_keys(&self) -> bool {
        matches!(self, Self::Refused(reply) if reply.is_about_keys())
    }
}
