//! Asks each gateway in a thread of its own, so that one that is away keeps nobody waiting.

use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tidegate_status::document::Status;

use crate::budgets::Answer;
use crate::source::Source;

/// What was read last of all gateways.
#[derive(Debug)]
pub(crate) struct Reader {
    read: Arc<Mutex<Read>>,
    // To each gateway: whose budgets are asked for.
    asking: Vec<Sender<String>>,
    answers: Receiver<Answer>,
}

/// The last answers, and how often one came.
#[derive(Debug)]
struct Read {
    changes: u64,
    latest: Vec<Latest>,
}

/// What one gateway answered last. None: it was not asked yet.
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
            let (ask, asked) = mpsc::channel();
            asking.push(ask);
            let (read, answer) = (read.clone(), answer.clone());
            thread::spawn(move || keep_reading(&source, at, every, &read, &asked, &answer));
        }
        Self {
            read,
            asking,
            answers,
        }
    }

    /// What was read last of each gateway, and its number, if that is another than this one.
    pub(crate) fn latest(&self, known: u64) -> Option<(u64, Vec<Latest>)> {
        let read = lock(&self.read);
        (read.changes != known).then(|| (read.changes, read.latest.clone()))
    }

    /// Asks for one client's budgets: the gateways that answered last, or all if none did. Returns how many are asked.
    pub(crate) fn ask(&self, client: &str) -> usize {
        let is_up = |latest: &Latest| matches!(latest, Some(Ok(_)));
        let up: Vec<bool> = lock(&self.read).latest.iter().map(is_up).collect();
        let any = up.contains(&true);
        let asking = self.asking.iter().zip(up);
        let asking = asking.filter(|(_, up)| *up || !any);
        let asked = asking.filter(|(ask, _)| ask.send(client.to_owned()).is_ok());
        asked.count()
    }

    /// The next answer that has come.
    pub(crate) fn answer(&self) -> Option<Answer> {
        self.answers.try_recv().ok()
    }
}

fn lock(read: &Mutex<Read>) -> MutexGuard<'_, Read> {
    read.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads again and again, until nobody asks any more.
fn keep_reading(
    source: &Source,
    at: usize,
    every: Duration,
    read: &Mutex<Read>,
    asked: &Receiver<String>,
    answer: &Sender<Answer>,
) {
    loop {
        let status = source.status(false).map(Arc::new);
        let mut all = lock(read);
        all.latest[at] = Some(status);
        all.changes += 1;
        drop(all);
        match asked.recv_timeout(every) {
            Ok(first) => {
                // While the gateway did not answer, others may have been asked for: only the last is waited for.
                let client = asked.try_iter().last().unwrap_or(first);
                let report = source.report(&client);
                let gateway = source.name.clone();
                let said = Answer {
                    client,
                    gateway,
                    report,
                };
                if answer.send(said).is_err() {
                    return;
                }
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => return,
        }
    }
}
