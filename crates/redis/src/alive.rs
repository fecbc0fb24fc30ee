//! Detects a dead connection: sends a PING every second, and waits for its answer.
//!
//! A server that loses power does not close its connections. The gateway's operating system retransmits for a quarter of an hour before it
//! reports the loss. fred's own check is not enough: it measures the time since the last written command, so it never fires while fred
//! writes commands continuously. fred's check also does not run while fred waits to write.

use std::time::Duration;

use fred::clients::Client as Fred;
use fred::error::{Error, ErrorKind};
use fred::interfaces::ClientLike as _;
use fred::types::Value;

use super::settings::within;

/// The pause between an answer and the next PING.
const EVERY: Duration = Duration::from_secs(1);

/// Returns when a PING has no answer within `patience`. An error other than the timeout counts as an answer.
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
