//! Reads each gateway in its own thread, so that a slow gateway does not delay the others.

use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tidegate_status::document::Status;

use crate::budgets::Answer;
use crate::source::Source;

/// Reads all gateways, and keeps the last answer of each.
#[derive(Debug)]
pub(crate) struct Reader {
    read: Arc<Mutex<Read>>,
    // A channel to the thread of each gateway. It carries names of clients.
    asking: Vec<Sender<String>>,
    answers: Receiver<Answer>,
}

/// The last answer of each gateway, and a counter (`changes`) that grows with each answer.
#[derive(Debug)]
struct Read {
    changes: u64,
    latest: Vec<Latest>,
}

/// A gateway's last answer. `None` until the first answer.
pub(crate) type Latest = Option<Result<Arc<Status>, String>>;

impl Reader {
    pub(crate) fn start(sources: Vec<Source>, every: Duration) -> Self {
        let read = Arc::new(Mutex::new(Read {
            changes: 1,
            latest: vec![None; sources.len()],
        }));
        let (answer, answers) = mpsc::channel();
        let mut asking = Vec::new();
        for (at, source) in sources.into_iter().enumerate() {
            let (ask, names) = mpsc::channel();
            asking.push(ask);
            let (read, answer) = (read.clone(), answer.clone());
            thread::spawn(move || keep_reading(&source, at, every, &read, &names, &answer));
        }
        Self {
            read,
            asking,
            answers,
        }
    }

    /// Returns the counter of answers, and the last answer of each gateway. Returns `None` if the counter is still `previous`.
    pub(crate) fn latest(&self, previous: u64) -> Option<(u64, Vec<Latest>)> {
        let read = lock(&self.read);
        (read.changes != previous).then(|| (read.changes, read.latest.clone()))
    }

    /// Requests a client's budgets from the gateways whose last call succeeded, or from all gateways if no last call succeeded. Returns the
    /// number of gateways that are called.
    pub(crate) fn ask(&self, client: &str) -> usize {
        let is_up = |latest: &Latest| matches!(latest, Some(Ok(_)));
        let up: Vec<bool> = lock(&self.read).latest.iter().map(is_up).collect();
        let any = up.contains(&true);
        let asking = self.asking.iter().zip(up);
        let asked = asking.filter(|(ask, up)| (*up || !any) && ask.send(client.to_owned()).is_ok());
        asked.count()
    }

    /// Returns the next answer about a client, if there is one.
    pub(crate) fn answer(&self) -> Option<Answer> {
        self.answers.try_recv().ok()
    }
}

fn lock(read: &Mutex<Read>) -> MutexGuard<'_, Read> {
    read.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads the gateway's `/status.json` repeatedly, and the budgets of each client named in `names`. Ends when the [`Reader`] is dropped.
fn keep_reading(
    source: &Source,
    at: usize,
    every: Duration,
    read: &Mutex<Read>,
    names: &Receiver<String>,
    answer: &Sender<Answer>,
) {
    loop {
        let status = source.status(false).map(Arc::new);
        let mut all = lock(read);
        all.latest[at] = Some(status);
        all.changes += 1;
        drop(all);
        match names.recv_timeout(every) {
            Ok(first) => {
                // Several names may have been queued while the gateway was slow. Only the client that was named last is still in view.
                let client = names.try_iter().last().unwrap_or(first);
                let report = source.report(&client);
                let gateway = source.name.clone();
                let reply = Answer {
                    client,
                    gateway,
                    report,
                };
                if answer.send(reply).is_err() {
                    return;
                }
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => return,
        }
    }
}
