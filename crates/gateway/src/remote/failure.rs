use http::StatusCode;

/// Why a command ended early: a text for people, and the exit status that it means.
#[derive(Debug)]
pub(crate) struct Failure {
    /// What went wrong.
    pub(crate) message: String,
    /// 1: the command could not do what it was asked to. 2: wrong arguments or configuration.
    pub(crate) status: u8,
    /// The status of the answer, if a gateway refused.
    pub(crate) answer: Option<StatusCode>,
}

impl Failure {
    /// Wrong arguments or configuration.
    pub(crate) fn usage(error: impl ToString) -> Self {
        Self {
            message: error.to_string(),
            status: 2,
            answer: None,
        }
    }

    /// A gateway refused what the command asked of it.
    pub(crate) fn refused(answer: StatusCode, error: impl ToString) -> Self {
        Self {
            answer: Some(answer),
            ..Self::failed(error)
        }
    }

    /// The command could not do what it was asked to.
    pub(crate) fn failed(error: impl ToString) -> Self {
        Self {
            message: error.to_string(),
            status: 1,
            answer: None,
        }
    }
}
