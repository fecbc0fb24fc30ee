//! Runs a trial and keeps its history.

use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tidegate_core::Micros;
use tidegate_overrides::{
    Clearing, Expected, Intent, Outcome, Override, Previous, Setting, Subject, Wish, read_name,
};
use tidegate_testkit::trials::{Servers, stalls};
use tidegate_tower::{OverrideAction, SetNumbers};
use tokio::task::JoinSet;

use crate::case::{Case, Change, Condition, Ends, Work};
use crate::faults;
use crate::gateway::{Fleet, Gateway, entry};
use crate::generate::SUBJECTS;
use crate::history::{self, Answer, Bounds, Entry, FOREVER, History, Life, Look, Span, Trouble};

/// How often each gateway is looked at.
const EVERY: Duration = Duration::from_millis(20);

/// How long gateways may take in the end to have the same overrides.
const PATIENCE: Duration = Duration::from_secs(15);

/// A shorter stall of the machine makes nothing late that counts.
const STALL: Micros = 150_000;

const BOUNDS: Bounds = Bounds {
    reach: 700_000,
    heard: 350_000,
    clock: 250_000,
};

/// More overrides than one answer of Redis holds.
const MANY: u64 = 1_100;

/// The first change that is none of a trial's work.
const OTHERS: u64 = 1_000_000;

/// A trial that runs.
pub(crate) struct Trial {
    pub(crate) case: Case,
    pub(crate) fleet: Fleet,
    pub(crate) log: Mutex<History>,
    /// Held while something is done to the server.
    pub(crate) server_fault: tokio::sync::Mutex<()>,
    start: Instant,
    gateways: Vec<RwLock<Arc<Gateway>>>,
    next_gateway: Mutex<usize>,
}

/// Returns the time by this machine's clock.
pub(crate) fn now() -> Micros {
    micros(SystemTime::now())
}

fn micros(time: SystemTime) -> Micros {
    let since = time.duration_since(UNIX_EPOCH).unwrap();
    since.as_micros() as Micros
}

/// Runs a trial.
pub(crate) async fn run(case: Case, servers: &Servers) -> History {
    let taken = match case.has_sentinels {
        true => servers.take_sentinels().await,
        false if case.has_stepped_clock() => servers.take_with_clock().await,
        false => servers.take(case.needs_own_server()).await,
    };
    let fleet = Fleet {
        server: taken.one().cloned(),
        sentinels: taken.sentinels().cloned(),
        key_prefix: servers.key_prefix(),
        is_forgetful: case.is_forgetful(),
    };
    let history = in_servers(case, fleet, taken.addresses()).await;
    servers.give_back(taken);
    history
}

async fn in_servers(case: Case, fleet: Fleet, addresses: Vec<std::net::SocketAddr>) -> History {
    let since = now();
    if let (Some(redis), Some(_)) = (&fleet.server, case.away()) {
        redis.stop();
    }
    let mut trial = Trial {
        fleet,
        log: Mutex::new(History {
            subjects: SUBJECTS,
            bounds: BOUNDS,
            ..History::default()
        }),
        server_fault: tokio::sync::Mutex::default(),
        start: Instant::now(),
        gateways: Vec::new(),
        next_gateway: Mutex::default(),
        case,
    };
    for _ in 0..trial.case.gateways {
        let gateway = trial.started().await;
        trial.gateways.push(RwLock::new(gateway));
    }
    trial.start = Instant::now();
    let trial = Arc::new(trial);
    let noted = trial.clone();
    let note = move |kind, begin, end| noted.stalled(kind, micros(begin), micros(end));
    // Ended with this guard, at the latest.
    let mut watching = JoinSet::new();
    watching.spawn(stalls::watch(addresses, Arc::new(note)));
    for place in 0..trial.case.gateways {
        watching.spawn(look_on(trial.clone(), place));
    }
    let mut tasks = JoinSet::new();
    if let Some(time) = trial.case.away() {
        tasks.spawn(faults::away(trial.clone(), time, since));
    }
    if trial.case.has_many() {
        tasks.spawn(set_many(trial.clone()));
    }
    for work in &trial.case.work {
        tasks.spawn(work_on(trial.clone(), work.clone()));
    }
    for fault in &trial.case.faults {
        tasks.spawn(faults::run(trial.clone(), fault.clone()));
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    settle(&trial).await;
    let log = std::mem::take(&mut *trial.log.lock().unwrap());
    for place in 0..trial.gateways.len() {
        trial.gateway(place).kill().await;
    }
    log
}

/// Ends all trouble, and looks on for a while when all gateways have the same overrides.
async fn settle(trial: &Arc<Trial>) {
    for place in 0..trial.gateways.len() {
        if let Some(proxy) = &trial.gateway(place).proxy {
            proxy.heal();
        }
    }
    let deadline = Instant::now() + PATIENCE;
    let mut same = 0;
    while same < 5 && Instant::now() < deadline {
        let looks: Vec<Look> = (0..trial.gateways.len())
            .map(|place| look(&trial.gateway(place)))
            .collect();
        let first = &looks[0].listed;
        let are_same = looks.iter().all(|look| {
            let heard = look.heard.is_some_and(|heard| heard < BOUNDS.heard);
            heard && look.enforced == *first && look.listed == *first
        });
        same = if are_same { same + 1 } else { 0 };
        tokio::time::sleep(EVERY).await;
    }
    trial.log.lock().unwrap().converged = (same == 5).then(now);
    // A gateway that starts now has what Redis has.
    let fresh = trial.started().await;
    let until = Instant::now() + Duration::from_micros(2 * BOUNDS.reach + 200_000);
    while Instant::now() < until {
        trial.note(look(&fresh));
        tokio::time::sleep(EVERY).await;
    }
    fresh.kill().await;
}

/// Looks at a gateway for as long as it is polled.
async fn look_on(trial: Arc<Trial>, place: usize) {
    loop {
        let gateway = trial.gateway(place);
        if gateway.runs() {
            let look = look(&gateway);
            if gateway.runs() {
                trial.note(look);
            }
        }
        tokio::time::sleep(EVERY).await;
    }
}

fn look(gateway: &Gateway) -> Look {
    let begin = now();
    // First: the overrides that follow may be of a later answer, and not of an earlier one.
    let heard = gateway.overrides.figures().heard;
    let subjects = || (0..SUBJECTS).map(subject);
    let enforced = subjects().map(|subject| gateway.enforced(&subject));
    let enforced = enforced.collect();
    let list = gateway.overrides.list();
    let listed = |subject| list.iter().find(|it| it.subject == subject).map(entry);
    let listed = subjects().map(listed).collect();
    let end = now();
    Look {
        gateway: gateway.number,
        span: Span { begin, end },
        enforced,
        listed,
        heard: heard.map(|heard| heard.as_micros() as Micros),
    }
}

fn subject(nth: usize) -> Subject {
    let names = ["api_key:acme", "user_id:42", "203.0.113.0/24", "limit:it"];
    read_name(names[nth], 64).unwrap()
}

/// Sets overrides that no other change is about.
async fn set_many(trial: Arc<Trial>) {
    let wishes = (0..MANY).map(|nth| Wish {
        subject: read_name(&format!("user_id:other-{nth}"), 64).unwrap(),
        expected: Expected::Any,
        ends: tidegate_overrides::Ends::Never,
        intent: Intent::Set(setting(OTHERS + nth)),
    });
    // Some trouble may be in the way.
    let _ = trial.gateway(0).overrides.change(wishes.collect()).await;
}

fn setting(id: u64) -> Setting {
    let numbers = || SetNumbers::new([("it".to_owned(), format!("limit: {id}"))].into());
    let action = match id % 4 {
        0 => OverrideAction::Block,
        1 => OverrideAction::Exempt,
        2 => OverrideAction::Set(Arc::new(numbers())),
        _ => OverrideAction::Plan("gold".into()),
    };
    Setting::new(action, &id.to_string(), "").unwrap()
}

/// Makes changes, and notes their answers.
async fn work_on(trial: Arc<Trial>, work: Work) {
    trial.until(work.at).await;
    let gateway = trial.gateway(work.gateway);
    gateway.until_it_runs().await;
    if *gateway.is_killed.borrow() {
        return;
    }
    let ids = (0..).map(|nth| (work.nth * 10 + nth) as u64);
    let changes: Vec<(u64, Change)> = ids.zip(work.changes).collect();
    let wishes = changes
        .iter()
        .map(|(id, change)| wish(&gateway, *id, change));
    let wishes: Vec<Wish> = wishes.collect();
    let asked = wishes.clone();
    let begin = now();
    let mut is_killed = gateway.is_killed.subscribe();
    let answers = tokio::select! {
        answered = gateway.overrides.change(wishes) => Some(answers(answered, changes.len())),
        _ = is_killed.wait_for(|is_killed| *is_killed) => None,
    };
    let end = now();
    let answers = answers.filter(|_| !*gateway.is_killed.borrow());
    let is_answered = answers.is_some();
    let answers = answers.unwrap_or_else(|| vec![Answer::Killed; changes.len()]);
    {
        let mut log = trial.log.lock().unwrap();
        for (((id, change), answer), asked) in changes.into_iter().zip(answers).zip(asked) {
            log.changes.push(history::Change {
                id,
                gateway: gateway.number,
                subject: change.subject,
                condition: change.condition,
                sets: change.sets.map(|ends| absolute(ends, asked.ends)),
                span: Span {
                    begin,
                    // A call that was sent may arrive later.
                    end: if is_answered { end } else { FOREVER },
                },
                answer,
            });
        }
    }
    if gateway.runs() {
        trial.note(look(&gateway));
    }
}

/// Returns the end with the time that was sent.
const fn absolute(ends: Ends, sent: tidegate_overrides::Ends) -> Ends {
    match sent {
        tidegate_overrides::Ends::At(at) => Ends::At(at),
        _ => ends,
    }
}

fn wish(gateway: &Gateway, id: u64, change: &Change) -> Wish {
    let subject = subject(change.subject);
    let expected = match change.condition {
        Condition::Any => Expected::Any,
        Condition::Nothing => Expected::Nothing,
        Condition::Listed => match gateway.overrides.get(&subject) {
            Some(listed) => Expected::Version(listed.version),
            None => Expected::Nothing,
        },
    };
    let Some(ends) = change.sets else {
        return Wish::clear(subject, expected, Clearing::default());
    };
    let ends = match ends {
        Ends::Never => tidegate_overrides::Ends::Never,
        Ends::After(time) => tidegate_overrides::Ends::After(Duration::from_millis(time)),
        Ends::At(time) => tidegate_overrides::Ends::At(gateway.overrides.now() + time * 1_000),
    };
    Wish {
        subject,
        expected,
        ends,
        intent: Intent::Set(setting(id)),
    }
}

fn answers(
    answered: Result<Vec<Outcome>, tidegate_overrides::Unfinished>,
    many: usize,
) -> Vec<Answer> {
    let (outcomes, error) = match answered {
        Ok(outcomes) => (outcomes, String::new()),
        Err(unfinished) => (unfinished.outcomes, unfinished.error.to_string()),
    };
    let mut answers: Vec<Answer> = outcomes.into_iter().map(answer).collect();
    answers.resize(many, Answer::Failed(error));
    answers
}

fn answer(outcome: Outcome) -> Answer {
    let seen = |it: Override| entry(&it);
    let before = |it: Previous| match it {
        Previous::Override(it) => Some(entry(&it)),
        Previous::Unreadable { .. } => None,
    };
    match outcome {
        Outcome::Set { before: it, after } => Answer::Set {
            version: after.version,
            ends: after.ends,
            before: it.and_then(before),
        },
        Outcome::Cleared {
            before: it,
            version,
        } => Answer::Cleared {
            version,
            before: before(it),
        },
        Outcome::Nothing => Answer::Nothing,
        Outcome::Conflict(current) => Answer::Conflict(current.map(seen)),
        Outcome::Full | Outcome::Over => Answer::Refused,
    }
}

impl Trial {
    pub(crate) fn gateway(&self, place: usize) -> Arc<Gateway> {
        self.gateways[place].read().unwrap().clone()
    }

    /// Starts the next gateway.
    async fn started(&self) -> Arc<Gateway> {
        let number = {
            let mut next = self.next_gateway.lock().unwrap();
            *next += 1;
            *next - 1
        };
        let begin = now();
        let gateway = Arc::new(self.fleet.start(number).await);
        let life = Life {
            gateway: number,
            span: Span {
                begin,
                end: FOREVER,
            },
        };
        self.log.lock().unwrap().lives.push(life);
        gateway
    }

    /// Kills a gateway.
    pub(crate) async fn end(&self, gateway: &Gateway) {
        if let Some(life) =
            (self.log.lock().unwrap().lives.iter_mut()).find(|life| life.gateway == gateway.number)
        {
            life.span.end = life.span.end.min(now());
        }
        gateway.kill().await;
    }

    /// Puts a new gateway in the place of another.
    pub(crate) async fn replace(&self, place: usize) {
        let new = self.started().await;
        *self.gateways[place].write().unwrap() = new;
    }

    /// Waits until this many ms after the start.
    pub(crate) async fn until(&self, at: u64) {
        tokio::time::sleep_until((self.start + Duration::from_millis(at)).into()).await;
    }

    /// Notes a trouble that lasted until now.
    pub(crate) fn trouble(&self, gateway: Option<usize>, kind: &'static str, begin: Micros) {
        let span = Span { begin, end: now() };
        let trouble = Trouble {
            gateway,
            kind,
            span,
        };
        self.log.lock().unwrap().troubles.push(trouble);
    }

    /// Notes that data was lost from then until now.
    pub(crate) fn lost(&self, begin: Micros) {
        let span = Span { begin, end: now() };
        self.log.lock().unwrap().losses.push(span);
    }

    /// Returns how far Redis's clock is ahead of this machine's.
    pub(crate) fn clock_ahead(&self) -> i64 {
        let log = self.log.lock().unwrap();
        log.steps.last().map_or(0, |step| step.ahead)
    }

    fn note(&self, look: Look) {
        self.log.lock().unwrap().looks.push(look);
    }

    fn stalled(&self, kind: &'static str, begin: Micros, end: Micros) {
        if end - begin < STALL {
            return;
        }
        let trouble = Trouble {
            gateway: None,
            kind,
            span: Span { begin, end },
        };
        self.log.lock().unwrap().troubles.push(trouble);
    }
}

impl Answer {
    /// Returns the override that the answer says was in force, if it says so.
    pub(crate) const fn before(&self) -> Option<Option<Entry>> {
        match self {
            Self::Set { before, .. } | Self::Cleared { before, .. } | Self::Conflict(before) => {
                Some(*before)
            }
            Self::Nothing => Some(None),
            _ => None,
        }
    }
}
