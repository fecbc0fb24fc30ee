//! Error replies of Redis: a code, and a text that is safe to log.

use std::borrow::Cow;
use std::sync::Arc;

/// The longest text of an error reply, in characters. Longer texts are cut.
const LONGEST: usize = 240;
/// The words after which Redis quotes the arguments of an unknown command. The words and the arguments are cut off.
const ARGUMENTS: &str = ", with args beginning with";
/// The word before the hash and the line of a failed script. The word, the hash and the line are cut off.
const SCRIPT: &str = " script: ";
/// The shortest secret that is replaced in a text, in bytes. Shorter texts are not replaced, because they occur in too many words.
const SHORTEST_SECRET: usize = 4;
/// The code of most errors, including errors of scripts.
const ERR: &str = "ERR";
/// Words of script errors that do not depend on the keys, from Redis 7.0, Redis 7.2, Valkey and Valkey 9. `failure` in `lua/record.lua` has
/// the same words.
const OF_SERVER: [&str; 6] = [
    "Error compiling script",
    "The user executing the script can't",
    "ACL failure in script",
    "Unknown Redis command",
    "Unknown command called from script",
    "not allowed from script",
];

/// An error reply of Redis, without arguments and secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorReply {
    text: Arc<str>,
    is_about_keys: bool,
}

impl ErrorReply {
    /// Makes an error reply from its text.
    pub(crate) fn new(text: &str) -> Self {
        Self::without(text, [])
    }

    /// Makes an error reply from its text, and replaces each of `secrets` by `***`.
    pub(crate) fn without<'a>(text: &str, secrets: impl IntoIterator<Item = &'a str>) -> Self {
        let is_about_keys = is_about_keys(text);
        let text = text.split(ARGUMENTS).next().unwrap_or_default();
        let text = match text.rsplit_once(SCRIPT) {
            Some((before, behind)) if behind.contains(", on @") => before,
            _ => text,
        };
        let mut text = Cow::Borrowed(text.trim_end());
        for secret in secrets.into_iter().filter(|it| it.len() >= SHORTEST_SECRET) {
            if text.contains(secret) {
                text = text.replace(secret, "***").into();
            }
        }
        Self {
            text: printable(&text).into(),
            is_about_keys,
        }
    }

    /// Makes an error about keys that does not come from an error reply.
    pub(crate) fn about_keys(text: &str) -> Self {
        Self {
            text: text.into(),
            is_about_keys: true,
        }
    }

    /// Returns the error code, such as `OOM`, `READONLY` or `NOPERM`. Returns an empty text if the reply does not begin with a code.
    pub fn code(&self) -> &str {
        code(&self.text).unwrap_or_default()
    }

    /// Whether the error concerns only the keys of the failed call, so that the server itself works.
    pub(crate) const fn is_about_keys(&self) -> bool {
        self.is_about_keys
    }

    /// Returns advice on how to correct the error, for common errors.
    pub(crate) fn remedy(&self) -> Option<Cow<'static, str>> {
        let has = |words: &str| self.text.contains(words);
        Some(Cow::Borrowed(match self.code() {
            "NOPERM" | ERR if has("keys used") || has("keys mentioned") || has("to access") => {
                "grant the user the keys `~<key_prefix>:*`"
            }
            "NOPERM" => return Some(self.missing_command()),
            "MOVED" | "ASK" => {
                "this server is a node of a Redis Cluster: `url` begins with redis-cluster:// or rediss-cluster://"
            }
            "READONLY" => "this server is a replica: name its primary in `url`, or its sentinels",
            "OOM" => "Redis is full: raise its `maxmemory`",
            "MISCONF" => "Redis cannot write to its disk: its own log has the cause",
            "NOREPLICAS" => "the primary has too few replicas for its `min-replicas-to-write`",
            "NOAUTH" | "WRONGPASS" => "check the user and the password in `url`",
            ERR if has("can't run this command") || has("ACL failure") => {
                return Some(self.missing_command());
            }
            ERR if has("Error compiling script") || has("syntax error") => {
                "a server before Redis 7.0 and Valkey 7.2 answers this"
            }
            ERR if has("unknown command") || has("command called from script") => {
                "the server lacks this command, or renamed it"
            }
            ERR if has("DB index") => "`databases` of the server is below the database in `url`",
            ERR if has("max number of clients") => "raise `maxclients` of the server",
            ERR if has("cluster support disabled") => {
                "this server is no node of a Redis Cluster: `url` begins with redis:// or rediss://"
            }
            _ => return None,
        }))
    }

    /// Returns advice about the command that the user's ACL lacks.
    fn missing_command(&self) -> Cow<'static, str> {
        let named = self.text.split('\'').nth(1);
        match named.filter(|_| self.text.contains("to run the '")) {
            Some(command) => {
                format!("grant the user `+{command}`; lua/README.md lists all commands").into()
            }
            None => "grant the user the commands that lua/README.md lists".into(),
        }
    }
}

impl std::fmt::Display for ErrorReply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)?;
        match self.remedy() {
            Some(remedy) => write!(f, " ({remedy})"),
            None => Ok(()),
        }
    }
}

/// Returns the first word of an error if it has only capitals and `_`, like Redis's codes.
pub(crate) fn code(text: &str) -> Option<&str> {
    let word = text.split(' ').next()?;
    let is_code = |byte: u8| byte.is_ascii_uppercase() || byte == b'_';
    (!word.is_empty() && word.bytes().all(is_code)).then_some(word)
}

/// Returns whether an error concerns only the keys of its call.
///
/// The error of a script that fails at a value has the code `ERR` and names a line of the script. Two errors that concern the server have
/// the same form: the user may not run a command, or the server cannot compile the script.
fn is_about_keys(text: &str) -> bool {
    match code(text) {
        Some("WRONGTYPE" | "TRYAGAIN") => true,
        Some(ERR) => {
            let is_of_server = OF_SERVER.iter().any(|words| text.contains(words));
            text.contains("user_script:") && !is_of_server
        }
        _ => false,
    }
}

/// Escapes all but printable ASCII, and cuts a long text.
fn printable(text: &str) -> String {
    let mut shown = String::new();
    for (count, character) in text.chars().enumerate() {
        if count == LONGEST {
            shown.push('…');
            break;
        }
        match character {
            ' '..='~' => shown.push(character),
            _ => shown.extend(character.escape_default()),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        ErrorReply::new(text).to_string()
    }

    #[test]
    fn arguments_secrets_and_control_characters_are_removed() {
        let text =
            "ERR unknown command 'SET', with args beginning with: 'tidegate:secret' 'hunter2' ";
        assert!(
            shown(text).starts_with("ERR unknown command 'SET' ("),
            "{}",
            shown(text)
        );
        let quoted = ErrorReply::without("ERR no user alice with hunter2", ["hunter2", "no"]);
        assert_eq!(quoted.to_string(), "ERR no user alice with ***");
        assert_eq!(
            shown("ERR a\r\nb\u{9b}\u{202e}c"),
            "ERR a\\r\\nb\\u{9b}\\u{202e}c"
        );
        let long = shown(&"x".repeat(10_000));
        assert_eq!(long.chars().count(), LONGEST + 1);
        let of_script =
            "ERR no script: 0b64b6f00f3a1bef30f19281de005b084dfe56a0, on @user_script:2.";
        assert_eq!(shown(of_script), "ERR no");
    }

    #[test]
    fn replies_have_a_remedy_where_one_is_known() {
        for (text, remedy) in [
            (
                "NOPERM this user has no permissions to run the 'evalsha' command",
                "`+evalsha`",
            ),
            (
                "NOPERM User gate has no permissions to run the 'set' command",
                "`+set`",
            ),
            (
                "NOPERM this user has no permissions to access one of the keys used as arguments",
                "`~<key_prefix>:*`",
            ),
            (
                "ERR The user executing the script can't run this command or subcommand script: ab, on @user_script:2.",
                "lua/README.md",
            ),
            (
                "ERR ACL failure in script: User gate has no permissions to run the 'zrem' command script: ab, on @user_script:2.",
                "`+zrem`",
            ),
            (
                "ERR ACL failure in script: User gate has no permissions to access the 'a' key script: ab, on @user_script:2.",
                "`~<key_prefix>:*`",
            ),
            ("MOVED 3999 127.0.0.1:6381", "redis-cluster://"),
            (
                "ERR Error compiling script (new function): user_script:1: unexpected symbol near '#'",
                "Redis 7.0",
            ),
            ("ERR DB index is out of range", "`databases`"),
            ("ERR max number of clients reached", "`maxclients`"),
            ("ERR This instance has cluster support disabled", "redis://"),
            (
                "READONLY You can't write against a read only replica.",
                "primary",
            ),
        ] {
            let shown = shown(text);
            assert!(shown.contains(remedy), "{shown}");
        }
        assert_eq!(
            shown("LOADING Redis is loading"),
            "LOADING Redis is loading"
        );
    }

    #[test]
    fn errors_of_a_server_are_none_of_a_key() {
        for text in [
            "WRONGTYPE Operation against a key holding the wrong kind of value script: ab, on @user_script:2.",
            "TRYAGAIN Multiple keys request during rehashing of slot",
            "ERR user_script:2: attempt to perform arithmetic on a nil value script: ab, on @user_script:2.",
            "ERR value is not a valid float script: ab, on @user_script:9.",
        ] {
            assert!(ErrorReply::new(text).is_about_keys(), "{text}");
        }
        for text in [
            "ERR The user executing the script can't run this command or subcommand script: ab, on @user_script:2.",
            "ERR Error compiling script (new function): user_script:1: unexpected symbol near '#'",
            "ERR The user executing the script can't access at least one of the keys mentioned in the command script: ab, on @user_script:2.",
            "ERR ACL failure in script: User gate has no permissions to run the 'zrem' command script: ab, on @user_script:2.",
            "ERR Unknown Redis command called from script script: ab, on @user_script:2.",
            "ERR Unknown command called from script script: ab, on @user_script:2.",
            "ERR This Redis command is not allowed from script script: ab, on @user_script:2.",
            "ERR syntax error",
            "NOPERM this user has no permissions to run the 'evalsha' command",
            "OOM command not allowed when used memory > 'maxmemory'.",
        ] {
            assert!(!ErrorReply::new(text).is_about_keys(), "{text}");
        }
    }
}
