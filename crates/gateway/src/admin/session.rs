//! The session cookie of the status page. Its signature over the token's hash proves that the browser had the token. The cookie does not
//! contain the token, and expires.
//!
//! A browser sends the cookie to every port of the host, so another service on the host may receive it. The cookie's life is therefore
//! bounded.

use std::time::{Duration, Instant};

use aws_lc_rs::error::Unspecified;
use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;

use http::{HeaderMap, HeaderValue};

use crate::request::credentials;

/// The time after which a cookie expires, unless it is renewed.
const LIFE: Duration = Duration::from_secs(12 * 3_600);
/// The time for which a cookie may be renewed after the token itself was sent.
const LONGEST: Duration = Duration::from_secs(7 * 86_400);

/// The key that signs the cookies of this process.
#[derive(Debug)]
pub(super) struct Sessions {
    key: hmac::Key,
    // Cookies contain seconds since this monotonic time. So a system clock that is set back extends no cookie.
    started: Instant,
}

/// The content of a cookie, in seconds since the process started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Session {
    /// The time when the token itself was sent.
    began: u64,
    /// The time when the cookie was made.
    made: u64,
}

impl Session {
    /// Whether half of the cookie's life is over, so that an answer should renew it.
    const fn is_old(self, now: u64) -> bool {
        now.saturating_sub(self.made) > LIFE.as_secs() / 2
    }

    /// Returns the session for a renewed cookie.
    const fn renewed(self, now: u64) -> Self {
        Self { made: now, ..self }
    }

    const fn is_over(self, now: u64) -> bool {
        now.saturating_sub(self.made) >= LIFE.as_secs()
            || now.saturating_sub(self.began) >= LONGEST.as_secs()
    }
}

impl Sessions {
    /// Makes a new key.
    ///
    /// # Errors
    ///
    /// The system gives no random numbers.
    pub(super) fn new() -> Result<Self, Unspecified> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new())?;
        let started = Instant::now();
        Ok(Self { key, started })
    }

    /// Returns the cookie of a token for a port. The page's HTML document (`is_document`) always gets a cookie. Another answer gets a
    /// cookie when half of the present cookie's life is over. `session` is the session of the request's cookie, or `None` if the request
    /// has the token itself.
    pub(super) fn cookie(
        &self,
        port: u16,
        token: &[u8; 32],
        session: Option<Session>,
        is_document: bool,
    ) -> Option<HeaderValue> {
        let now = self.now();
        let session = match session {
            None if is_document => Self::begin(now),
            Some(session) if is_document || session.is_old(now) => session.renewed(now),
            _ => return None,
        };
        let (name, value) = (name(port), self.value(token, session));
        let cookie = format!("{name}={value}; HttpOnly; SameSite=Strict; Path=/");
        let mut cookie = HeaderValue::try_from(cookie).ok()?;
        cookie.set_sensitive(true);
        Some(cookie)
    }

    /// Returns the session of a request's cookie, if the cookie belongs to this token and has not expired.
    pub(super) fn of(&self, headers: &HeaderMap, port: u16, token: &[u8; 32]) -> Option<Session> {
        let now = self.now();
        credentials::cookies(headers, &name(port)).find_map(|shown| self.read(shown, token, now))
    }

    /// Returns the seconds since the process started.
    fn now(&self) -> u64 {
        self.started.elapsed().as_secs()
    }

    /// Begins a session for a request with the token itself.
    const fn begin(now: u64) -> Session {
        Session {
            began: now,
            made: now,
        }
    }

    /// Returns the value of a cookie: both times, and a signature over the times and the token's hash.
    fn value(&self, token: &[u8; 32], session: Session) -> String {
        let signature = hmac::sign(&self.key, &signed(token, session));
        let bytes = signature.as_ref().iter();
        let signature: String = bytes.map(|byte| format!("{byte:02x}")).collect();
        format!("{}.{}.{signature}", session.began, session.made)
    }

    /// Reads the session of a cookie, if the cookie belongs to this token and has not expired.
    fn read(&self, value: &[u8], token: &[u8; 32], now: u64) -> Option<Session> {
        let mut parts = std::str::from_utf8(value).ok()?.splitn(3, '.');
        let began = parts.next()?.parse().ok()?;
        let made = parts.next()?.parse().ok()?;
        let signature = unhex(parts.next()?)?;
        let session = Session { began, made };
        hmac::verify(&self.key, &signed(token, session), &signature).ok()?;
        (!session.is_over(now)).then_some(session)
    }
}

/// Returns the name of a port's cookie. It contains the port, because a browser shares cookies among all ports of a host.
fn name(port: u16) -> String {
    format!("tidegate_session_{port}")
}

fn signed(token: &[u8; 32], session: Session) -> Vec<u8> {
    let times = [session.began, session.made].map(u64::to_be_bytes);
    [&token[..], &times.concat()].concat()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    // A sign, or a last digit without its pair, would be read as a number, too.
    let has_form =
        text.len().is_multiple_of(2) && text.bytes().all(|digit| digit.is_ascii_hexdigit());
    let pairs = has_form.then(|| text.as_bytes().chunks(2))?;
    let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    pairs.map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600;

    const fn token(byte: u8) -> [u8; 32] {
        [byte; 32]
    }

    #[test]
    fn a_cookie_is_good_for_twelve_hours_and_renewed_for_a_week() {
        let sessions = Sessions::new().unwrap();
        let read = |value: &str, now| sessions.read(value.as_bytes(), &token(1), now);
        let first = Sessions::begin(100);
        let value = sessions.value(&token(1), first);
        assert_eq!(read(&value, 100), Some(first));
        assert_eq!(read(&value, 100 + 12 * HOUR - 1), Some(first));
        assert_eq!(read(&value, 100 + 12 * HOUR), None);
        assert!(!first.is_old(100 + 6 * HOUR) && first.is_old(101 + 6 * HOUR));
        let mut session = first;
        let mut now = 100;
        while let Some(read) = read(&sessions.value(&token(1), session), now) {
            session = read.renewed(now);
            now += 7 * HOUR;
        }
        assert_eq!(now, 100 + 24 * 7 * HOUR, "no renewal ends that");
    }

    #[test]
    fn a_signature_has_whole_bytes_and_digits_alone() {
        assert_eq!(unhex("00ff"), Some(vec![0, 255]));
        for wrong in ["0", "00f", "+f", "0 ", "é0", "gg"] {
            assert_eq!(unhex(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_cookie_that_was_changed_or_is_of_another_token_is_none() {
        let sessions = Sessions::new().unwrap();
        let read = |value: &str| sessions.read(value.as_bytes(), &token(1), 9 * HOUR);
        let value = sessions.value(&token(1), Sessions::begin(0));
        assert!(read(&value).is_some());
        for wrong in [
            value.replacen("0.0.", "0.9.", 1),
            value.replacen("0.0.", "9.0.", 1),
            value[..value.len() - 2].to_owned(),
            value[..value.len() - 1].to_owned(),
            format!("{value}.1"),
            format!("{value}é"),
            "0.0.".to_owned(),
            "0.0".to_owned(),
            String::new(),
            sessions.value(&token(2), Sessions::begin(0)),
            Sessions::new()
                .unwrap()
                .value(&token(1), Sessions::begin(0)),
        ] {
            assert_eq!(read(&wrong), None, "{wrong}");
        }
    }
}
