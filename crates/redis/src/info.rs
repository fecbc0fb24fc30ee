//! Statistics of a Redis server: its memory, its evicted keys, and the cost of scripts.

use std::time::Duration;

/// The oldest supported servers. Older servers reject scripts that begin with `#!lua`.
pub const LEAST_VERSION: &str = "Redis 7.0 or Valkey 7.2";
/// The least supported major version of Redis and of Valkey. Valkey reports a compatible Redis version in `redis_version`.
const LEAST_MAJOR: u64 = 7;

/// The answer to `INFO`. Any field may be missing, because compatible servers omit some fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RedisInfo {
    /// The version of Redis, or the version that the server is compatible with.
    pub version: Option<String>,
    /// Bytes of memory that the server uses.
    pub memory: Option<u64>,
    /// The most bytes of memory that the server may use, or 0 without a limit.
    pub memory_max: Option<u64>,
    /// The policy of a full server: `noeviction`, or a rule that chooses the keys to evict.
    pub policy: Option<String>,
    /// Keys that a full server evicted, since its start.
    pub evicted_keys: Option<u64>,
    /// Keys that expired, since its start.
    pub expired_keys: Option<u64>,
    /// The commands per second that the server runs at present.
    pub operations_per_second: Option<u64>,
    /// Calls of `EVALSHA` and `EVAL` by all clients of the server, since its start.
    pub script_calls: Option<u64>,
    /// The total time of these calls.
    pub script_time: Option<Duration>,
    /// The time since the server's start.
    pub uptime: Option<Duration>,
    /// The processor time of the server's main thread since its start. Scripts run in this thread.
    pub cpu: Option<Duration>,
    /// Bytes that the server has received from all its clients since its start.
    pub received: Option<u64>,
    /// Bytes that the server has sent since its start.
    pub sent: Option<u64>,
}

/// The answer of one server.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeInfo {
    /// The server's address in a Redis Cluster. `None` for a single server.
    pub node: Option<String>,
    /// The server's answer.
    pub info: RedisInfo,
}

impl RedisInfo {
    pub(crate) fn read(text: &str) -> Self {
        let word = |name: &str| -> Option<&str> {
            let mut lines = text.lines().filter_map(|line| line.split_once(':'));
            lines
                .find(|(other, _)| *other == name)
                .map(|(_, word)| word)
        };
        let number = |name: &str| word(name).and_then(|word| word.parse().ok());
        // cmdstat_evalsha:calls=5,usec=210,usec_per_call=42.00,…
        let of_command = |command: &str, name: &str| -> Option<u64> {
            let mut parts = word(command)?.split(',');
            let value = parts.find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
            value?.parse().ok()
        };
        // If Redis does not have a script, the gateway sends it with EVAL, so the counts of both commands are added.
        let of_scripts = |name: &str| {
            let counts = ["cmdstat_evalsha", "cmdstat_eval"].map(|it| of_command(it, name));
            let known = counts.iter().flatten();
            counts.iter().any(Option::is_some).then(|| known.sum())
        };
        let seconds = |name: &str| -> Option<f64> { word(name)?.parse().ok() };
        let cpu = |of: &str| {
            let [system, user] =
                ["sys", "user"].map(|kind| seconds(&format!("used_cpu_{kind}{of}")));
            Duration::try_from_secs_f64(system? + user?).ok()
        };
        Self {
            version: word("redis_version").map(str::to_owned),
            memory: number("used_memory"),
            memory_max: number("maxmemory"),
            policy: word("maxmemory_policy").map(str::to_owned),
            evicted_keys: number("evicted_keys"),
            expired_keys: number("expired_keys"),
            operations_per_second: number("instantaneous_ops_per_sec"),
            script_calls: of_scripts("calls"),
            script_time: of_scripts("usec").map(Duration::from_micros),
            uptime: number("uptime_in_seconds").map(Duration::from_secs),
            // Servers before Redis 7.0 and some compatible servers have only the time of all threads.
            cpu: cpu("_main_thread").or_else(|| cpu("")),
            received: number("total_net_input_bytes"),
            sent: number("total_net_output_bytes"),
        }
    }

    /// Returns a text such as `Redis 6.2.14` if the server is too old to run the scripts.
    pub fn too_old(&self) -> Option<String> {
        let version = self.version.as_deref()?;
        let major: u64 = version.split('.').next()?.parse().ok()?;
        let plain = version
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '.');
        (major < LEAST_MAJOR && plain).then(|| format!("Redis {version}"))
    }

    /// Returns the eviction policy if a full Redis would evict budgets. A client whose budget is evicted starts again with a full budget.
    pub fn drops_limits(&self) -> Option<&str> {
        let bounded = self.memory_max.is_some_and(|bytes| bytes > 0);
        let policy = self
            .policy
            .as_deref()
            .filter(|policy| *policy != "noeviction");
        policy.filter(|_| bounded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# Memory\r\nused_memory:1048576\r\nused_memory_human:1.00M\r\nmaxmemory:2097152\r\n\
                        maxmemory_policy:allkeys-lru\r\n\r\n# Stats\r\ninstantaneous_ops_per_sec:7\r\nexpired_keys:4\r\n\
                        evicted_keys:3\r\ntotal_net_input_bytes:11\r\ntotal_net_output_bytes:12\r\n\r\n# Server\r\n\
                        redis_version:7.0.15\r\nuptime_in_seconds:60\r\n\r\n# CPU\r\nused_cpu_sys:9.5\r\n\
                        used_cpu_user:9.5\r\nused_cpu_sys_main_thread:1.25\r\nused_cpu_user_main_thread:2.5\r\n\r\n# Commandstats\r\ncmdstat_eval:calls=1,usec=90\r\n\
                        cmdstat_evalsha:calls=5,usec=210,usec_per_call=42.00,rejected_calls=0,failed_calls=1\r\n";

    #[test]
    fn what_it_says_is_read_and_the_rest_left_out() {
        let info = RedisInfo::read(TEXT);
        let expected = RedisInfo {
            version: Some("7.0.15".into()),
            memory: Some(1_048_576),
            memory_max: Some(2_097_152),
            policy: Some("allkeys-lru".into()),
            evicted_keys: Some(3),
            expired_keys: Some(4),
            operations_per_second: Some(7),
            script_calls: Some(6),
            script_time: Some(Duration::from_micros(300)),
            uptime: Some(Duration::from_secs(60)),
            cpu: Some(Duration::from_millis(3_750)),
            received: Some(11),
            sent: Some(12),
        };
        assert_eq!(info, expected);
        let all_threads = TEXT.replace("_main_thread", "_of_main");
        let cpu = RedisInfo::read(&all_threads).cpu;
        assert_eq!(cpu, Some(Duration::from_secs(19)));
        for odd in [
            "",
            "used_cpu_sys:1\r\nused_cpu_user:-2\r\n",
            "used_memory",
            "used_memory:much\r\ncmdstat_evalsha:calls=x",
        ] {
            assert_eq!(RedisInfo::read(odd), RedisInfo::default(), "{odd}");
        }
    }

    #[test]
    fn a_server_before_redis_7_is_too_old() {
        let too_old =
            |version: &str| RedisInfo::read(&format!("redis_version:{version}\r\n")).too_old();
        assert_eq!(too_old("6.2.14"), Some("Redis 6.2.14".to_owned()));
        assert_eq!(too_old("6.3.4"), Some("Redis 6.3.4".to_owned()));
        // Valkey reports the version of Redis that it is compatible with.
        for version in ["7.0.0", "7.2.4", "8.6.1", "10.0.1", "unknown", ""] {
            assert_eq!(too_old(version), None, "{version}");
        }
        assert_eq!(RedisInfo::default().too_old(), None);
    }

    #[test]
    fn only_a_bounded_redis_that_evicts_drops_limits() {
        let drops = |text: String| {
            let info = RedisInfo::read(&text);
            info.drops_limits().map(str::to_owned)
        };
        let evicting = Some("allkeys-lru".to_owned());
        assert_eq!(drops(TEXT.to_owned()), evicting);
        assert_eq!(drops(TEXT.replace("allkeys-lru", "noeviction")), None);
        assert_eq!(
            drops(TEXT.replace("maxmemory:2097152", "maxmemory:0")),
            None
        );
    }
}
