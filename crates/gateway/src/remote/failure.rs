use http::StatusCode;

/// The reason why a command failed: a message for the user, and an exit status.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The message for the user.
    pub(crate) message: String,
    /// The exit status: 1 if the command failed, 2 for wrong arguments or a wrong configuration.
    pub(crate) status: u8,
    /// The status of the gateway's answer, if a gateway refused the call.
    pub(crate) answer: Option<StatusCode>,
}

impl Failure {
    /// Returns a failure because of wrong arguments or a wrong configuration.
    pub(crate) fn usage(error: impl ToString) -> Self {
        Self {
            message: error.to_string(),
            status: 2,
            answer: None,
        }
    }

    /// Returns a failure because a gateway refused the call.
    pub(crate) fn refused(answer: StatusCode, error: impl ToString) -> Self {
        Self {
            answer: Some(answer),
            ..Self::failed(error)
        }
    }

    /// Returns a failure for any other reason.
    pub(crate) fn failed(error: impl ToString) -> Self {
        Self {
            message: error.to_string(),
            status: 1,
            answer: None,
        }
    }
}
