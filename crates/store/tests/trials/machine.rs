//! Runs a trial and keeps its history.

use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tidegate_core::Micros;
use tidegate_store::{Key, Limit, Mode};
use tidegate_testkit::CallFault;
use tidegate_testkit::trials::{Servers, Taken, stalls};
use tokio::task::JoinSet;

use crate::calm;
use crate::case::{Ask, Case, Change, LimitCase, Mishap, Work};
use crate::faults;
use crate::gateway::{Fleet, Gateway, SYNC_EVERY, TIMEOUT, UNSEEN};
use crate::history::{
    self, Count, End, History, Judged, Leeway, Look, Loss, Request, Reset, Return, Said, Span,
    Step, Trouble,
};
use crate::law::{Kind, Numbers};
use crate::work;

/// The notes that are taken while a trial runs.
#[derive(Default)]
pub(crate) struct Log {
    pub(crate) requests: Mutex<Vec<Request>>,
    pub(crate) resets: Mutex<Vec<Reset>>,
    pub(crate) losses: Mutex<Vec<Loss>>,
    pub(crate) troubles: Mutex<Vec<Trouble>>,
    pub(crate) outages: Mutex<Vec<Span>>,
    pub(crate) counts: Mutex<Vec<Count>>,
    pub(crate) ends: Mutex<Vec<End>>,
    pub(crate) looks: Mutex<Vec<Look>>,
    pub(crate) returns: Mutex<Vec<Return>>,
    pub(crate) steps: Mutex<Vec<Step>>,
}

impl Log {
    /// Notes that a call of a gateway was struck.
    pub(crate) fn struck(&self, gateway: usize, at: Micros) {
        let trouble = Trouble {
            gateway: Some(gateway),
            kind: "call",
            span: Span::at(at),
        };
        self.troubles.lock().unwrap().push(trouble);
    }

    /// Notes that this machine or a server was too busy for the trial.
    fn stalled(&self, kind: &'static str, begin: SystemTime, end: SystemTime) {
        let (begin, end) = (micros(begin), micros(end));
        let trouble = Trouble {
            gateway: None,
            kind,
            span: Span { begin, end },
        };
        self.troubles.lock().unwrap().push(trouble);
    }
}

/// A limit as one gateway has it.
#[derive(Clone)]
struct Configured {
    case: LimitCase,
    /// Its mode, if it is not the mode at the start.
    changed: Option<Mode>,
    /// The numbers and the limit of each plan.
    limits: Vec<(Numbers, Arc<Limit>)>,
}

impl Configured {
    fn of(nth: usize, case: &LimitCase) -> Self {
        let plans = case.plans.iter().enumerate();
        let limits = plans.map(|(plan, numbers)| (*numbers, limit_of(nth, case, plan, *numbers)));
        Self {
            limits: limits.collect(),
            case: case.clone(),
            changed: None,
        }
    }
}

/// A trial that runs.
pub(crate) struct Trial {
    pub(crate) case: Case,
    pub(crate) fleet: Fleet,
    pub(crate) start: Instant,
    pub(crate) log: Arc<Log>,
    /// The gateways by their places. A new gateway takes the place of a gateway that ended.
    pub(crate) gateways: Vec<RwLock<Arc<Gateway>>>,
    /// The current limits of the gateway at each place.
    plans: RwLock<Vec<Vec<Configured>>>,
    next_gateway: Mutex<usize>,
    /// Held while a fault affects the server.
    pub(crate) server_fault: tokio::sync::Mutex<()>,
}

/// Runs a trial.
pub(crate) async fn run(case: Case, servers: &Servers) -> History {
    let server = match case.in_memory {
        true => None,
        false if case.in_cluster => Some(servers.take_cluster().await),
        false if case.has_sentinels => Some(servers.take_sentinels().await),
        false if case.has_stepped_clock() => Some(servers.take_with_clock().await),
        false => Some(servers.take(case.needs_own_server()).await),
    };
    let log = Arc::<Log>::default();
    let redis = server.as_ref().map_or_else(Vec::new, Taken::addresses);
    let noted = log.clone();
    let note = move |kind, begin, end| noted.stalled(kind, begin, end);
    let watching = tokio::spawn(stalls::watch(redis, Arc::new(note)));
    let fleet = Fleet {
        server: server.as_ref().and_then(|server| server.one().cloned()),
        cluster: server.as_ref().and_then(|server| server.cluster().cloned()),
        sentinels: server
            .as_ref()
            .and_then(|server| server.sentinels().cloned()),
        key_prefix: servers.key_prefix(),
        gateways: case.heartbeat.is_none().then_some(case.gateways as u64),
        heartbeat: case.heartbeat,
        remembers: case.remembers,
        log: log.clone(),
    };
    if let (Some(redis), Some(_)) = (&fleet.server, case.away) {
        redis.stop();
    }
    let since = now();
    let mut gateways = Vec::new();
    for number in 0..case.gateways {
        gateways.push(RwLock::new(Arc::new(fleet.start(number).await)));
    }
    let limits = case.limits.iter().enumerate();
    let plans: Vec<_> = limits
        .map(|(nth, case)| Configured::of(nth, case))
        .collect();
    let plans = vec![plans; case.gateways];
    let trial = Arc::new(Trial {
        next_gateway: Mutex::new(gateways.len()),
        case,
        fleet,
        start: Instant::now(),
        log,
        gateways,
        plans: RwLock::new(plans),
        server_fault: tokio::sync::Mutex::default(),
    });
    let is_there = trial.case.away.is_none() && !trial.case.in_memory;
    if trial.case.heartbeat.is_some() && is_there {
        calm::everybody_is_counted(&trial).await;
    }
    // Times of work and faults count from now on.
    let trial = Arc::new(Trial::started_now(trial));
    let mut tasks = JoinSet::new();
    if let Some(time) = trial.case.away {
        tasks.spawn(faults::away(trial.clone(), time, since));
    }
    for work in &trial.case.work {
        tasks.spawn(work::run(trial.clone(), work.clone()));
    }
    for fault in &trial.case.faults {
        tasks.spawn(faults::run(trial.clone(), fault.clone()));
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    calm::settle_and_look(&trial).await;
    // Gateways note the faults of their calls when they are dropped.
    let mut trial = Arc::into_inner(trial).unwrap();
    trial.gateways.clear();
    watching.abort();
    if let Some(server) = server {
        servers.give_back(server);
    }
    trial.history()
}

impl Trial {
    fn started_now(trial: Arc<Self>) -> Self {
        let mut trial = Arc::into_inner(trial).unwrap();
        trial.start = Instant::now();
        trial
    }

    pub(crate) fn gateway(&self, place: usize) -> Arc<Gateway> {
        self.gateways[place].read().unwrap().clone()
    }

    /// Puts a new gateway in the place of another.
    pub(crate) async fn replace(&self, place: usize) -> Arc<Gateway> {
        let number = {
            let mut next = self.next_gateway.lock().unwrap();
            *next += 1;
            *next - 1
        };
        let new = Arc::new(self.fleet.start(number).await);
        std::mem::replace(&mut *self.gateways[place].write().unwrap(), new)
    }

    /// A limit with the current numbers of a plan, in the gateway at this place.
    pub(crate) fn limit(&self, place: usize, limit: usize, plan: usize) -> (Numbers, Arc<Limit>) {
        self.plans.read().unwrap()[place][limit].limits[plan].clone()
    }

    /// The mode of a limit in the gateway at this place.
    pub(crate) fn mode(&self, place: usize, limit: usize) -> Mode {
        self.plans.read().unwrap()[place][limit].case.mode
    }

    /// The mode that a limit has changed to in the gateway at this place.
    pub(crate) fn changed(&self, place: usize, limit: usize) -> Option<Mode> {
        self.plans.read().unwrap()[place][limit].changed
    }

    /// All limits of the gateway at this place, where limit `limit` has this mode.
    pub(crate) fn limits_with(&self, place: usize, limit: usize, mode: Mode) -> Vec<Limit> {
        let plans = self.plans.read().unwrap();
        let all = plans[place].iter().enumerate();
        let all = all.flat_map(|(nth, own)| own.limits.iter().map(move |(_, known)| (nth, known)));
        all.map(|(nth, known)| match nth == limit {
            true => Limit::clone(known).in_mode(mode),
            false => Limit::clone(known),
        })
        .collect()
    }

    /// Changes a limit in the gateway at this place.
    pub(crate) fn change(&self, place: usize, limit: usize, change: Change) {
        let mut plans = self.plans.write().unwrap();
        let configured = &mut plans[place][limit];
        let case = &mut configured.case;
        match change {
            Change::Numbers(plan, numbers) => case.plans[plan] = numbers,
            Change::Mode(mode) => {
                case.mode = mode;
                configured.changed = Some(mode);
            }
            Change::Lease(lease) if case.kind == Kind::Concurrency => case.window = lease,
            Change::Lease(lease) => case.reserves = Some(lease),
        }
        configured.limits = Configured::of(limit, case).limits;
    }

    /// The us by which Redis's clock is ahead of this machine's clock.
    pub(crate) fn clock_ahead(&self) -> i64 {
        let steps = self.log.steps.lock().unwrap();
        steps.last().map_or(0, |step| step.ahead)
    }

    /// Waits until this number of ms after the start.
    pub(crate) async fn until(&self, at: u64) {
        tokio::time::sleep_until((self.start + Duration::from_millis(at)).into()).await;
    }

    /// Notes a trouble that lasted until now.
    pub(crate) fn trouble(&self, gateway: Option<usize>, kind: &'static str, begin: Micros) {
        self.trouble_in(gateway, kind, begin, now());
    }

    pub(crate) fn trouble_in(
        &self,
        gateway: Option<usize>,
        kind: &'static str,
        begin: Micros,
        end: Micros,
    ) {
        let span = Span { begin, end };
        let trouble = Trouble {
            gateway,
            kind,
            span,
        };
        self.log.troubles.lock().unwrap().push(trouble);
    }

    fn history(&self) -> History {
        let limits = self.case.limits.iter().enumerate();
        let limits = limits.map(|(nth, limit)| history::Limit::of(limit, self.case.becomes(nth)));
        let log = &self.log;
        let requests = std::mem::take(&mut *log.requests.lock().unwrap());
        let mut troubles = std::mem::take(&mut *log.troubles.lock().unwrap());
        let calls = self
            .case
            .faults
            .iter()
            .filter_map(|fault| match fault.what {
                Mishap::Calls { fault, .. } => Some(fault),
                _ => None,
            });
        let is_late = |fault| matches!(fault, CallFault::SentLate(_) | CallFault::AnsweredLate(_));
        if calls.clone().all(is_late) {
            let struck = troubles.iter_mut().filter(|it| it.kind == "call");
            struck.for_each(|trouble| trouble.kind = Trouble::LATE);
        }
        // A request with an error proves a trouble, even if its cause is not noted.
        for request in requests.iter().filter(|it| !it.is_impatient()) {
            if let Said::Decided { error: Some(_), .. } = request.said {
                troubles.push(Trouble {
                    gateway: Some(request.gateway),
                    kind: "error",
                    span: request.asked,
                });
            }
        }
        History {
            limits: limits.collect(),
            requests,
            troubles,
            outages: std::mem::take(&mut *log.outages.lock().unwrap()),
            resets: std::mem::take(&mut *log.resets.lock().unwrap()),
            losses: std::mem::take(&mut *log.losses.lock().unwrap()),
            counts: std::mem::take(&mut *log.counts.lock().unwrap()),
            ends: std::mem::take(&mut *log.ends.lock().unwrap()),
            looks: std::mem::take(&mut *log.looks.lock().unwrap()),
            returns: std::mem::take(&mut *log.returns.lock().unwrap()),
            steps: std::mem::take(&mut *log.steps.lock().unwrap()),
            judged: Judged::All,
            leeway: Leeway::default(),
            has_no_late_resets: false,
            gateways: self.fleet.gateways,
            in_memory: self.case.in_memory,
            in_cluster: self.case.in_cluster,
            unseen: UNSEEN,
            timeout: TIMEOUT.as_micros() as Micros,
        }
    }
}

/// A limit with the numbers of one plan. The first plan uses the limit's own budget.
pub(crate) fn limit_of(nth: usize, case: &LimitCase, plan: usize, numbers: Numbers) -> Arc<Limit> {
    let quota = numbers.quota(case.kind, case.window);
    // Limits differ in their interval, and the store's is too long for the promises.
    let every = SYNC_EVERY / if nth.is_multiple_of(2) { 1 } else { 2 };
    let mut limit = Limit::new(format!("l{nth}"), quota, case.on_failure).in_mode(case.mode);
    limit = limit.synced_every(every);
    if plan > 0 {
        limit = limit.of_plan(&format!("p{plan}"));
    }
    if let Some(lease) = case.reserves {
        limit = limit.reserving(lease);
    }
    if let Some(block) = case.block {
        limit = limit.blocking(block);
    }
    if case.is_observed {
        limit = limit.observed();
    }
    Arc::new(limit)
}

/// The key of the store for a key of a case.
pub(crate) fn key_of(key: u64) -> Key {
    let mut tag = [0xab; 16];
    tag[8..].copy_from_slice(&key.to_be_bytes());
    Key { tag, rest: [0; 16] }
}

/// The charge of a request to a limit in the store, and the charge to the share of its member.
pub(crate) fn store_charges<'a>(
    limit: &'a Arc<Limit>,
    share: Option<&'a Arc<Limit>>,
    ask: &Ask,
) -> impl Iterator<Item = (&'a Arc<Limit>, Key, u64)> {
    let (key, cost) = (key_of(ask.key), ask.cost);
    let share = share.zip(ask.member).map(move |(share, member)| {
        let mut own = key;
        own.rest[8..].copy_from_slice(&(member.name + 1).to_be_bytes());
        (share, own, cost)
    });
    std::iter::once((limit, key, cost)).chain(share)
}

/// The limit of the share that a request charges.
pub(crate) fn share_of(limit: &Limit, ask: &Ask) -> Option<Arc<Limit>> {
    let member = ask.member?;
    Some(Arc::new(limit.share(member.weight).unwrap()))
}

/// The time by this machine's clock. Redis has the same clock unless it is stepped.
pub(crate) fn now() -> Micros {
    micros(SystemTime::now())
}

fn micros(time: SystemTime) -> Micros {
    let since = time.duration_since(UNIX_EPOCH).unwrap();
    since.as_micros() as Micros
}

impl Work {
    /// Its title in a report.
    pub(crate) fn title(&self) -> String {
        format!(
            "work {} at {} ms, gateway {}: {:?}",
            self.nth, self.at, self.gateway, self.what
        )
    }
}
