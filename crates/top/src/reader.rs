//! Asks each gateway in a thread of its own, so that one that is away keeps nobody waiting.

use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tidegate_status::document::Status;

use crate::Source;
use crate::budgets::{Budgets, escaped};

/// What was read last of all gateways.
#[derive(Debug)]
pub(crate) struct Reader {
    latest: Arc<Mutex<Vec<Latest>>>,
    // To each gateway: whose budgets are asked for.
    asking: Vec<Sender<String>>,
    answers: Receiver<(String, Result<Budgets, String>)>,
}

/// What is known of one gateway.
#[derive(Clone, Debug)]
pub(crate) struct Latest {
    pub(crate) name: String,
    /// None: it was not asked yet.
    pub(crate) answer: Option<Result<Status, String>>,
}

impl Reader {
    pub(crate) fn start(sources: Vec<Source>, every: Duration) -> Self {
        let names = sources.iter().map(|source| Latest {
            name: source.name.clone(),
            answer: None,
        });
        let latest = Arc::new(Mutex::new(names.collect::<Vec<_>>()));
        let (answer, answers) = mpsc::channel();
        let mut asking = Vec::new();
        for (at, source) in sources.into_iter().enumerate() {
            let (ask, asked) = mpsc::channel();
            asking.push(ask);
            let (latest, answer) = (latest.clone(), answer.clone());
            thread::spawn(move || read(&source, at, every, &latest, &asked, &answer));
        }
        Self {
            latest,
            asking,
            answers,
        }
    }

    pub(crate) fn latest(&self) -> Vec<Latest> {
        self.latest
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Asks the first gateway for one client's budgets.
    pub(crate) fn ask(&self, client: &str) {
        if let Some(first) = self.asking.first() {
            let _ = first.send(client.to_owned());
        }
    }

    /// The budgets that were asked for, if they have come.
    pub(crate) fn answer(&self) -> Option<(String, Result<Budgets, String>)> {
        self.answers.try_recv().ok()
    }
}

/// Reads again and again, until nobody asks any more.
fn read(
    source: &Source,
    at: usize,
    every: Duration,
    latest: &Mutex<Vec<Latest>>,
    asked: &Receiver<String>,
    answer: &Sender<(String, Result<Budgets, String>)>,
) {
    loop {
        let status = crate::status(source);
        let mut all = latest.lock().unwrap_or_else(PoisonError::into_inner);
        all[at].answer = Some(status);
        drop(all);
        match asked.recv_timeout(every) {
            Ok(client) => {
                let text = (source.read)(&format!("/clients/{}", escaped(&client)));
                let budgets = text.and_then(|text| {
                    serde_json::from_slice(&text)
                        .map_err(|_| "the answer is not that of a gateway".to_owned())
                });
                if answer.send((client, budgets)).is_err() {
                    return;
                }
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => return,
        }
    }
}
