//! Why a call to Redis has no answer.

/// The code of a reply that is not what the script says.
pub(crate) const UNKNOWN_REPLY: &str = "an unknown reply";

/// Why a call to Redis has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
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

impl CallError {
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
    pub fn unknown_reply() -> Self {
        Self::Refused(UNKNOWN_REPLY.to_owned())
    }

    /// What a script that decides many says of one that failed (`failure` in `lua/record.lua`).
    pub fn of_script(number: i64) -> Self {
        let code = match number {
            -1 => "WRONGTYPE",
            _ => "ERR",
        };
        Self::Refused(code.to_owned())
    }

    /// Whether the slot of several keys is moving; then nothing has run.
    pub fn is_moving(&self) -> bool {
        matches!(self, Self::Refused(code) if code == "TRYAGAIN")
    }

    /// Whether the server works, and refused because of these keys: their slot moves, or the script cannot read what is
    /// stored under them.
    ///
    /// A script that fails has no code of its own but `ERR`. Some errors of a whole server have that code as well, such as a
    /// command that it does not know. They come at once, so asking again costs no request any time.
    pub fn is_about_keys(&self) -> bool {
        let codes = ["WRONGTYPE", "ERR", UNKNOWN_REPLY];
        self.is_moving() || matches!(self, Self::Refused(code) if codes.contains(&&**code))
    }
}
