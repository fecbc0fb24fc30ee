//! `/overrides` of the admin port returns and sets many overrides. `/overrides/{name}` returns, sets and clears the override of a client,
//! network or limit.
//!
//! The caller must check the access before each call. Each [`Answered`] includes the changes that were made, for the audit log.

mod answers;
mod carried;

use std::sync::Arc;

use bytes::Bytes;
use http::header::{IF_MATCH, IF_NONE_MATCH};
use http::{HeaderMap, Method, Response, StatusCode};
use tidegate_identity::Clients;
use tidegate_net::path::decoded_part;
use tidegate_tower::{Overrides as Defined, problem};

use crate::api::{Loaded, Shown, ShownList, Wanted};
use crate::change::{ChangeError, Expected, Outcome, Previous, Unfinished, Wish};
use crate::keeper::Overrides;
use crate::name::{Subject, doubt, read_name};
use crate::setting::{Clearing, Override};
use answers::{NONE, Refusal, bad, json, method_not_allowed, none, refused, shown, why};
use carried::{Load, Reason, expected, read};

/// The longest body of a request for many overrides, in bytes.
const MAX_LOAD: usize = 8 << 20;
/// The longest body of a request for a single override, in bytes.
const MAX_ONE: usize = 16 << 10;
/// The most overrides that one request may set or read.
const MOST: usize = 10_000;
/// The number of overrides in an answer to a request without `limit`.
const PAGE: usize = 1_000;
/// The most bytes of names, actions and reasons in an answer. This bounds the memory for an answer that a stalled client does not read.
const MAX_SHOWN: usize = 1 << 20;
/// The most reasons for refusals in the answer to a request that sets many overrides.
const MAX_REASONS: usize = 20;

/// The overrides that a request's path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// All overrides.
    All,
    /// A single override. Holds its name as the path has it, still escaped.
    One(String),
}

/// A request about overrides, and its sender.
#[derive(Debug)]
pub struct Question<'a> {
    /// The overrides that the path names.
    pub asked: &'a Asked,
    /// The method of the request.
    pub method: &'a Method,
    /// The query of the request.
    pub query: &'a str,
    /// The headers of the request.
    pub headers: &'a HeaderMap,
    /// The body of the request.
    pub body: Bytes,
    /// The name of the sender.
    pub by: &'a str,
}

/// The parts of a gateway that are needed to answer a request.
#[derive(Debug)]
pub struct Port<'a> {
    /// The overrides of this gateway.
    pub overrides: &'a Arc<Overrides>,
    /// The plans and the limits of the gateway's configuration.
    pub defined: &'a Defined,
    /// The `clients` section of the gateway's configuration.
    pub clients: &'a Clients,
}

/// An answer, and the changes that were made.
#[derive(Debug, Default)]
pub struct Answered {
    /// The answer.
    pub response: Response<Bytes>,
    /// The changes that were made, in order.
    pub changed: Vec<Changed>,
    /// The number of refused changes.
    pub refused: usize,
    /// The names that a failed change concerns, and the error. Some of the changes may have been made.
    pub failed: Option<(String, ChangeError)>,
}

/// A requested change that was made.
#[derive(Debug)]
pub struct Changed {
    /// The client, network or limit of the override.
    pub subject: Subject,
    /// The override that was in force before.
    pub before: Option<Previous>,
    /// The override that is in force now.
    pub after: Option<Override>,
    /// The operator's reason for the change.
    pub reason: String,
}

impl Asked {
    /// Reads a path. Returns `None` if the path is not about overrides. The slash of a network may be escaped or not.
    pub fn of(path: &str) -> Option<Self> {
        match path.strip_prefix("/overrides")? {
            "" => Some(Self::All),
            rest => {
                let name = rest.strip_prefix('/')?;
                (!name.is_empty()).then(|| Self::One(name.to_owned()))
            }
        }
    }

    /// Returns the longest body that is accepted, in bytes. `GET` needs no body, so senders with read access cannot fill buffers.
    pub const fn max_body(&self, method: &Method) -> usize {
        match (self, method) {
            (_, &Method::GET | &Method::HEAD) => 0,
            (Self::All, _) => MAX_LOAD,
            (Self::One(_), _) => MAX_ONE,
        }
    }

    /// Returns the accepted methods, as the value of `Allow`.
    const fn allow(&self) -> &'static str {
        match self {
            Self::All => "GET, HEAD, POST",
            Self::One(_) => "GET, HEAD, PUT, DELETE",
        }
    }
}

impl Port<'_> {
    /// Answers a request, and makes its changes.
    pub async fn answer(&self, question: Question<'_>) -> Answered {
        let mut answered = Answered::default();
        let answer = match (question.asked, question.method) {
            (Asked::All, &Method::GET | &Method::HEAD) => self.list(question.query),
            (Asked::All, &Method::POST) => self.load(&question, &mut answered).await,
            (Asked::One(name), &Method::GET | &Method::HEAD) => self.show(name, &question),
            (Asked::One(name), &Method::PUT) => self.put(name, &question, &mut answered).await,
            (Asked::One(name), &Method::DELETE) => {
                self.delete(name, &question, &mut answered).await
            }
            (target, _) => Err(method_not_allowed(target.allow())),
        };
        let reads = [Method::GET, Method::HEAD].contains(question.method);
        if answer.is_err() && !reads && answered.failed.is_none() {
            answered.refused += 1;
        }
        answered.response = answer.unwrap_or_else(|refusal| *refusal);
        answered
    }

    /// Returns the client, network or limit that a path names. Refuses a query: if a name has an unescaped `?`, only the text before it is in the
    /// path, and this text might name another client.
    fn named(&self, name: &str, question: &Question<'_>) -> Result<Subject, Refusal> {
        match question.query {
            "" => self.subject(name),
            _ => Err(bad("a name has no query: `?` in a name is written %3F")),
        }
    }

    /// Returns the client, network or limit that an escaped part of a path or query names.
    fn subject(&self, part: &str) -> Result<Subject, Refusal> {
        let name = decoded_part(part).unwrap_or_default();
        read_name(&name, self.clients.ipv6_prefix).map_err(bad)
    }

    fn show(&self, name: &str, question: &Question<'_>) -> Result<Response<Bytes>, Refusal> {
        let subject = self.named(name, question)?;
        let it = self.overrides.get(&subject).ok_or_else(|| none(&subject))?;
        Ok(shown(&it, None, self.overrides.kept()))
    }

    fn list(&self, query: &str) -> Result<Response<Bytes>, Refusal> {
        let (mut after, mut most) = (None, PAGE);
        for pair in query.split('&') {
            match pair.split_once('=') {
                Some(("after", name)) => after = Some(self.subject(name)?),
                Some(("limit", number)) => {
                    let number = number.parse().ok().filter(|it| (1..=MOST).contains(it));
                    most = number.ok_or_else(|| bad("limit is a number from 1 to 10000"))?;
                }
                None if pair.is_empty() => {}
                _ => return Err(bad("the query may have after=NAME and limit=NUMBER")),
            }
        }
        let (mut part, mut has_more) = self.overrides.page(after.as_ref(), most);
        let fitting = fitting(&part);
        has_more |= fitting < part.len();
        part.truncate(fitting);
        let count = self.overrides.figures().in_force.all();
        let kept = self.overrides.kept();
        Ok(json(&ShownList::of(&part, has_more, count, kept)))
    }

    async fn put(
        &self,
        name: &str,
        question: &Question<'_>,
        answered: &mut Answered,
    ) -> Result<Response<Bytes>, Refusal> {
        let subject = self.named(name, question)?;
        let expected = expected(question.headers)?;
        let wanted = read::<Wanted>(&question.body)?.ok_or_else(|| {
            bad("a body is needed, such as {\"plan\": \"gold\", \"for\": \"24h\"}")
        })?;
        if let Some(name) = &wanted.name
            && read_name(name, self.clients.ipv6_prefix).as_ref() != Ok(&subject)
        {
            return Err(bad("the body names another client than the path"));
        }
        let wish = wanted.wish(subject, expected, question.by, self.defined);
        self.change(wish.map_err(bad)?, wanted.reason, answered)
            .await
    }

    async fn delete(
        &self,
        name: &str,
        question: &Question<'_>,
        answered: &mut Answered,
    ) -> Result<Response<Bytes>, Refusal> {
        let subject = self.named(name, question)?;
        let expected = expected(question.headers)?;
        let reason = read::<Reason>(&question.body)?.unwrap_or_default().reason;
        let clearing = Clearing::new(&reason, question.by).map_err(bad)?;
        let wish = Wish::clear(subject, expected, clearing);
        self.change(wish, reason, answered).await
    }

    async fn change(
        &self,
        wish: Wish,
        reason: String,
        answered: &mut Answered,
    ) -> Result<Response<Bytes>, Refusal> {
        let subject = wish.subject.clone();
        let outcome = match self.overrides.change(vec![wish]).await {
            Ok(mut outcomes) => outcomes.pop(),
            Err(Unfinished { error, .. }) => {
                let detail = error.to_string();
                return Err(answered.fails(subject.to_string(), error, &detail));
            }
        };
        let (response, before, after) = match outcome {
            Some(Outcome::Set { before, after }) => {
                let response = shown(&after, doubt(&subject, self.clients), self.overrides.kept());
                (response, before, Some(after))
            }
            Some(Outcome::Cleared { before, .. }) => (
                json(&Shown::previous(&subject, &before)),
                Some(before),
                None,
            ),
            other => return Err(refused(&subject, other.as_ref())),
        };
        answered.changed.push(Changed {
            subject,
            before,
            after,
            reason,
        });
        Ok(response)
    }

    /// Sets many overrides. The answer lists the overrides that cannot be set. All other overrides are set.
    async fn load(
        &self,
        question: &Question<'_>,
        answered: &mut Answered,
    ) -> Result<Response<Bytes>, Refusal> {
        if question.headers.contains_key(IF_MATCH) || question.headers.contains_key(IF_NONE_MATCH) {
            return Err(bad("a condition is for one override, not for many"));
        }
        let list = read::<Load>(&question.body)?
            .ok_or_else(|| bad("a body is needed: {\"overrides\": [...]}"))?;
        let (mut loaded, mut wishes, mut whose) = (Loaded::default(), Vec::new(), Vec::new());
        for (number, wanted) in list.overrides.into_iter().enumerate() {
            // Parsing the numbers of many limits takes long, so this task yields to other tasks.
            if number % 16 == 15 {
                tokio::task::yield_now().await;
            }
            let name = wanted.name.as_deref().unwrap_or_default();
            let subject = read_name(name, self.clients.ipv6_prefix).map_err(|it| it.to_string());
            let wish = subject.and_then(|subject| {
                let wish = wanted.wish(subject, Expected::Any, question.by, self.defined);
                wish.map_err(|it| it.to_string())
            });
            match wish {
                Ok(wish) => {
                    whose.push((wish.subject.clone(), wanted.reason));
                    wishes.push(wish);
                }
                Err(why) => loaded.refuse(name, &why, MAX_REASONS),
            }
        }
        let (outcomes, error) = match self.overrides.change(wishes).await {
            Ok(outcomes) => (outcomes, None),
            Err(unfinished) => (unfinished.outcomes, Some(unfinished.error)),
        };
        let mut rest = whose.split_off(outcomes.len());
        for ((subject, reason), outcome) in whose.into_iter().zip(outcomes) {
            match outcome {
                Outcome::Set { before, after } => {
                    loaded.set += 1;
                    answered.changed.push(Changed {
                        subject,
                        before,
                        after: Some(after),
                        reason,
                    });
                }
                Outcome::Over => loaded.over += 1,
                other => {
                    let why = why(&other).map_or(NONE, |(.., why)| why);
                    loaded.refuse(&subject.to_string(), why, MAX_REASONS);
                }
            }
        }
        answered.refused = loaded.refused;
        let Some(error) = error else {
            return Ok(json(&loaded));
        };
        let detail = format!("{error}; before that, {} of these were set", loaded.set);
        let whom = match (rest.len(), rest.pop()) {
            (1, Some((subject, _))) => subject.to_string(),
            (many, _) => format!("{many} names"),
        };
        Err(answered.fails(whom, error, &detail))
    }
}

impl Answered {
    /// Records that a change failed, and returns the answer.
    fn fails(&mut self, whom: String, error: ChangeError, detail: &str) -> Refusal {
        let code = match error {
            ChangeError::Store(_) => "store_unavailable",
            ChangeError::File(_) => "file_not_written",
            ChangeError::Ended => "stopping",
        };
        self.failed = Some((whom, error));
        Box::new(problem(StatusCode::SERVICE_UNAVAILABLE, code, detail))
    }
}

/// Returns how many of these overrides fit in an answer, at least 1.
fn fitting(part: &[Override]) -> usize {
    let mut bytes = 0;
    let fit = part.iter().take_while(|it| {
        let action = it.setting.action.to_string();
        // The other fields take about 200 bytes.
        bytes += it.subject.to_string().len() + it.setting.reason.len() + action.len() + 200;
        bytes <= MAX_SHOWN
    });
    fit.count().max(1)
}
