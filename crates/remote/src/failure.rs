/// Why a command ended early: a text for people, and the exit status that it means.
#[derive(Debug)]
pub struct Failure {
    /// What went wrong.
    pub message: String,
    /// 1: the command could not do what it was asked to. 2: wrong arguments or configuration.
    pub status: u8,
}

impl Failure {
    /// Wrong arguments or configuration.
    pub fn usage(error: impl ToString) -> Self {
        Self {
            message: error.to_string(),
            status: 2,
        }
    }

    /// The command could not do what it was asked to.
    pub fn failed(error: impl ToString) -> Self {
        Self {
            message: error.to_string(),
            status: 1,
        }
    }
}
