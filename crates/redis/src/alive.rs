//! Detects a dead connection, by a PING every second beside all other commands.
//!
//! A server that loses power does not close its connections, and the system goes on sending for a quarter of an hour. fred's own
//! check counts from the last written command. So it never fires while commands are sent all the time. It does not run while fred
//! waits to write.

use std::time::Duration;

use fred::clients::Client as Fred;
use fred::error::{Error, ErrorKind};
use fred::interfaces::ClientLike as _;
use fred::types::Value;

use super::settings::within;

/// The pause between an answer and the next PING.
const EVERY: Duration = Duration::from_secs(1);

/// Returns when a PING has no answer within `patience`. An error is an answer.
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
