//! A real redis-server for one test: no mock, no fixed port, no shared database. `TIDEGATE_REDIS_SERVER` may name another compatible
//! server.

use std::{
    fs::File,
    io::ErrorKind,
    net::SocketAddr,
    path::Path,
    process::{Child, Command, Stdio},
    sync::Mutex,
    time::{Duration, Instant},
};

use tempfile::TempDir;

use crate::{
    Port, RedisConnection, Reply,
    process::{signal, stopped},
    stepped_clock::SteppedClock,
};

/// A redis-server from `PATH`, or the program that [`PROGRAM`] names, in its own folder, without persistence. Killed when
/// dropped.
///
/// Tests that share a server use different keys.
#[derive(Debug)]
pub struct RedisServer {
    child: Mutex<Option<Child>>,
    port: Port,
    options: Vec<String>,
    clock: Option<SteppedClock>,
    dir: TempDir,
}

/// The variable of the environment that names another server's program, such as `/usr/bin/valkey-server`.
const PROGRAM: &str = "TIDEGATE_REDIS_SERVER";

/// The file in which a Redis Sentinel keeps its state.
const SENTINEL: &str = "sentinel.conf";

impl RedisServer {
    /// Starts a server, and waits until it answers.
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// Starts a server like [`start`](Self::start) with more options, as on the command line: `["--maxmemory", "5mb"]`. A server with a
    /// password is ready when it requests the password.
    pub async fn start_with(options: &[&str]) -> Self {
        let server = Self::prepare(options);
        server.restart().await;
        server
    }

    /// Starts a server like [`start_with`](Self::start_with), with a clock of its own, which [`step_clock`](Self::step_clock) steps.
    pub async fn start_with_clock(options: &[&str]) -> Self {
        let mut server = Self::prepare(options);
        server.clock = Some(SteppedClock::new(server.dir.path()));
        server.restart().await;
        server
    }

    /// Steps the server's clock. From now on, it is `ahead` ms ahead of the system's clock, or behind it if `ahead` is negative.
    pub fn step_clock(&self, ahead: i64) {
        let clock = self.clock.as_ref();
        clock.expect("the clock is the system's").step(ahead);
    }

    /// Starts a server like [`start_with`](Self::start_with), as a Redis Sentinel with this configuration.
    pub(crate) async fn start_sentinel(config: &str) -> Self {
        let server = Self::prepare(&[]);
        std::fs::write(server.dir.path().join(SENTINEL), config).unwrap();
        server.restart().await;
        server
    }

    fn prepare(options: &[&str]) -> Self {
        Self {
            child: Mutex::default(),
            port: Port::reserve(),
            options: options.iter().map(ToString::to_string).collect(),
            clock: None,
            dir: TempDir::with_prefix("tidegate-redis-").unwrap(),
        }
    }

    /// Returns the port that the server listens on.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// Returns the address that the server listens on.
    pub fn addr(&self) -> SocketAddr {
        self.port.addr()
    }

    /// Returns `redis://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("redis://{}", self.addr())
    }

    /// Returns the folder that the server works in.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Kills the server (`kill -9`) and waits for its end. The folder is kept, the port stays reserved, and new connections are refused.
    pub fn stop(&self) {
        if let Some(mut child) = self.child.lock().unwrap().take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Starts the server again on the same port, and waits until it answers. A running server is stopped first. After the restart, the
    /// server has only the data that were in files, for example because a test sent `SAVE`.
    pub async fn restart(&self) {
        self.stop();
        *self.child.lock().unwrap() = Some(self.spawn());
        let deadline = Instant::now() + Duration::from_secs(10);
        while !self.answers().await {
            let exit = self
                .child
                .lock()
                .unwrap()
                .as_mut()
                .and_then(|child| child.try_wait().unwrap());
            if exit.is_some() || Instant::now() > deadline {
                panic!(
                    "redis-server on port {} does not answer ({exit:?}); its log:\n{}",
                    self.port(),
                    self.log()
                );
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Freezes the server (SIGSTOP). Open connections stay open, and clients can open new connections, but the server answers no command.
    pub async fn pause(&self) {
        let id = self.id();
        signal(id, "STOP");
        stopped(id).await;
    }

    /// Lets the server continue after [`pause`](Self::pause).
    pub fn resume(&self) {
        signal(self.id(), "CONT");
    }

    /// Sends one command over a new connection. Panics if there is no reply.
    pub async fn command<A: AsRef<[u8]>>(&self, words: &[A]) -> Reply {
        let reply = self.connect().await.command(words).await;
        reply.unwrap_or_else(|e| panic!("no reply: {e}; its log:\n{}", self.log()))
    }

    /// Opens a connection for many commands.
    pub async fn connect(&self) -> RedisConnection {
        RedisConnection::open(self.addr())
            .await
            .unwrap_or_else(|e| panic!("no connection: {e}"))
    }

    /// Returns the server's log so far, with all runs of the server.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("redis.log")).unwrap_or_default()
    }

    fn id(&self) -> u32 {
        self.child
            .lock()
            .unwrap()
            .as_ref()
            .expect("redis-server is stopped")
            .id()
    }

    fn spawn(&self) -> Child {
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.dir.path().join("redis.log"))
            .unwrap();
        let program = std::env::var_os(PROGRAM).unwrap_or_else(|| "redis-server".into());
        let mut command = Command::new(&program);
        let sentinel = self.dir.path().join(SENTINEL);
        if sentinel.exists() {
            command.arg(sentinel).arg("--sentinel");
        }
        command.args(["--bind", "127.0.0.1", "--port", &self.port().to_string()]);
        command.args(["--save", "", "--appendonly", "no", "--daemonize", "no"]);
        command
            .arg("--dir")
            .arg(self.dir.path())
            .args(&self.options);
        if let Some(clock) = &self.clock {
            command.envs(clock.environment());
        }
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        match command.spawn() {
            Ok(child) => child,
            Err(e) if e.kind() == ErrorKind::NotFound => {
                panic!(
                    "there is no {program:?}; install the package redis-server (apt, apk: redis), or let {PROGRAM} name \
                     another server"
                )
            }
            Err(e) => panic!("cannot start {program:?}: {e}"),
        }
    }

    /// Whether the server takes commands. False while it starts, or loads data.
    async fn answers(&self) -> bool {
        let Ok(mut connection) = RedisConnection::open(self.addr()).await else {
            return false;
        };
        match connection.command(&["PING"]).await {
            Ok(Reply::Error(error)) => !error.starts_with("LOADING"),
            reply => reply.is_ok(),
        }
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Polls until the condition is true. Panics after 90 s.
pub(crate) async fn eventually(what: &str, is_so: impl AsyncFn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(90);
    while !is_so().await {
        assert!(
            Instant::now() < deadline,
            "{what}: not in a minute and a half"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::{SystemTime, UNIX_EPOCH};

    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn it_stops_restarts_pauses_and_dies_with_its_guard() {
        let redis = RedisServer::start().await;
        let (id, port) = (redis.id(), redis.port());
        assert_eq!(
            redis.command(&["SET", "key", "5"]).await,
            Reply::Status("OK".into())
        );
        assert_eq!(redis.command(&["GET", "key"]).await.as_int(), 5);

        redis.stop();
        assert_eq!(
            RedisConnection::open(redis.addr())
                .await
                .unwrap_err()
                .kind(),
            ErrorKind::ConnectionRefused
        );
        redis.restart().await;
        assert!(redis.command(&["GET", "key"]).await.is_nil());
        assert!(
            redis.port() == port && redis.id() != id && redis.url().ends_with(&format!(":{port}"))
        );

        redis.pause().await;
        let mut waiting = redis.connect().await;
        let mut asking = Box::pin(waiting.command(&["INCR", "key"]));
        timeout(Duration::from_millis(50), &mut asking)
            .await
            .unwrap_err();
        redis.resume();
        assert_eq!(asking.await.unwrap().as_int(), 1);

        let (id, dir) = (redis.id(), redis.dir.path().to_owned());
        redis.pause().await;
        drop(redis);
        assert!(!Path::new(&format!("/proc/{id}")).exists() && !dir.exists());
    }

    #[tokio::test]
    async fn a_clock_of_its_own_is_stepped_and_its_timers_are_not() {
        let redis = RedisServer::start_with_clock(&[]).await;
        let time = async || {
            let time = redis.command(&["TIME"]).await;
            Duration::from_secs(time.as_array()[0].as_int().try_into().unwrap())
        };
        let system = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        assert!(time().await.abs_diff(system()) < Duration::from_secs(60));
        for hour in [1, -1] {
            redis.step_clock(hour * 3_600_000);
            let away = time().await.abs_diff(system());
            assert!(away.abs_diff(Duration::from_secs(3_600)) < Duration::from_secs(60));
        }
        redis.restart().await;
        assert!(time().await < system() - Duration::from_secs(3_000));
    }

    #[tokio::test]
    #[should_panic(expected = "Bad directive")]
    async fn a_server_that_does_not_start_tells_why() {
        RedisServer::start_with(&["--no-such-option", "1"]).await;
    }
}
