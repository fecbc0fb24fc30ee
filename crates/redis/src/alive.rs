//! Whether a connection still carries anything: it is asked every so often, whatever else is asked over it.
//!
//! A server that loses its power says no good-bye, and the system goes on sending for a quarter of an hour. The check of fred
//! counts from the last command that was written. Where commands are sent all the time, this check never ends. It does not run
//! while fred waits to write.

use std::time::Duration;

use fred::clients::Client as Fred;
use fred::error::{Error, ErrorKind};
use fred::interfaces::ClientLike as _;
use fred::types::Value;

use super::settings::within;

/// How long between an answer and the next question.
const EVERY: Duration = Duration::from_secs(1);

/// Ends when there was no answer for as long as this; an error is one.
pub(crate) async fn until_silent(fred: &Fred, patience: Duration) {
    let options = within(patience);
    loop {
        tokio::time::sleep(EVERY).await;
        let answer: Result<Value, Error> = fred.with_options(&options).ping(None).await;
        if answer.is_err_and(|error| *error.kind() == ErrorKind::Timeout) {
            return;
        }
    }
}
