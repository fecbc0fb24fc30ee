use http::StatusCode;

/// The reason why a command ended early: a text for people, and an exit status.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The text for people.
    pub(crate) message: String,
    /// 1: the command failed. 2: wrong arguments or configuration.
    pub(crate) status: u8,
    /// The status of the answer, if a gateway refused.
    pub(crate) answer: Option<StatusCode>,
}

impl Failure {
    /// Returns a failure by wrong arguments or a wrong configuration.
    pub(crate) fn usage(error: impl ToString) -> Self {
        Self {
            message: error.to_string(),
            status: 2,
            answer: None,
        }
    }

    /// Returns a failure by a gateway that refused the command's call.
    pub(crate) fn refused(answer: StatusCode, error: impl ToString) -> Self {
        Self {
            answer: Some(answer),
            ..Self::failed(error)
        }
    }

    /// Returns a failure of the command's work.
    pub(crate) fn failed(error: impl ToString) -> Self {
        Self {
            message: error.to_string(),
            status: 1,
            answer: None,
        }
    }
}
