//! What tests of all subjects need: a gateway, started from YAML on free ports, in this process or as the real binary, ended by
//! its guard; requests and pages in one line; upstreams that wait; commands.

/// Requests, pages of the admin port, and waiting.
pub(crate) mod asking;
/// `tidegate` as a command.
pub(crate) mod commands;
/// Upstreams that answer when they are let.
pub(crate) mod held;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tidegate::{Gateway, ReloadError, Reloader};
use tidegate_config as config;
use tidegate_testkit::{Process, Upstream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A gateway in this process.
#[derive(Debug)]
pub(crate) struct TestGateway {
    pub(crate) address: SocketAddr,
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) admin: SocketAddr,
    /// The listener for decisions, if there is one.
    pub(crate) decisions: Option<SocketAddr>,
    reloader: Reloader,
    stop: oneshot::Sender<()>,
    running: JoinHandle<()>,
}

impl TestGateway {
    /// Starts one from YAML that says nothing of `listen` and `admin`.
    pub(crate) async fn start(yaml: &str) -> Self {
        Self::start_with_admin("127.0.0.1:0", yaml).await
    }

    /// As [`start`](Self::start), with an admin port as it is written in YAML.
    pub(crate) async fn start_with_admin(admin: &str, yaml: &str) -> Self {
        Self::start_whole(&format!("listen: 127.0.0.1:0\nadmin: {admin}\n{yaml}")).await
    }

    /// As [`start`](Self::start), with listeners as it is written in YAML.
    pub(crate) async fn start_listening(listen: &str, yaml: &str) -> Self {
        Self::start_whole(&format!("listen: {listen}\nadmin: 127.0.0.1:0\n{yaml}")).await
    }

    async fn start_whole(yaml: &str) -> Self {
        let (plan, _) = config::parse("test.yaml", yaml, |_| None)
            .unwrap_or_else(|error| panic!("the test's configuration is refused:\n{error}"));
        let gateway = Gateway::start(plan).await.unwrap();
        let addresses = gateway.addresses().unwrap();
        let admin = gateway.admin_address().unwrap();
        let decisions = gateway.decisions_address().unwrap();
        let reloader = gateway.reloader();
        let (stop, stopped) = oneshot::channel();
        let running = tokio::spawn(gateway.run(async {
            let _ = stopped.await;
        }));
        if yaml.contains("timeout: 5s") {
            settled(admin).await;
        }
        Self {
            address: addresses[0],
            addresses,
            admin,
            decisions,
            reloader,
            stop,
            running,
        }
    }

    /// Puts another configuration in force; of its store and other fixed parts nothing is taken.
    pub(crate) async fn reload(&self, yaml: &str) {
        self.reload_listening("127.0.0.1:0", yaml).await.unwrap();
    }

    /// As [`reload`](Self::reload), with listeners as it is written in YAML; it may be refused.
    pub(crate) async fn reload_listening(
        &self,
        listen: &str,
        yaml: &str,
    ) -> Result<(), ReloadError> {
        let yaml = format!("listen: {listen}\nadmin: 127.0.0.1:0\n{yaml}");
        let load = move |_: &_| config::parse("test.yaml", &yaml, |_| None);
        self.reloader.reload(load).await.map(drop)
    }

    /// Asks it to stop, and waits until it has.
    pub(crate) async fn stop(self) {
        let _ = self.stop.send(());
        self.running.await.unwrap();
    }
}

/// Waits a while for a store that a test means to be exact: on a busy machine its first connection may take as long.
async fn settled(admin: SocketAddr) {
    let deadline = Instant::now() + Duration::from_secs(2);
    while Instant::now() < deadline && asking::page(admin, "/readyz").await.0 != 200 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The real binary, with a configuration of its own.
#[derive(Debug)]
pub(crate) struct GatewayProcess {
    pub(crate) process: Process,
    pub(crate) address: SocketAddr,
    pub(crate) admin: SocketAddr,
    head: String,
    folder: TempDir,
}

impl GatewayProcess {
    /// Starts `tidegate run` from YAML that says nothing of `listen`, `admin` and `log`; waits until it listens.
    pub(crate) async fn start(yaml: &str) -> Self {
        Self::start_with("127.0.0.1:0", "level: info", yaml).await
    }

    /// Starts one that sends everything to this upstream.
    pub(crate) async fn before(upstream: &Upstream) -> Self {
        let url = upstream.url();
        Self::start(&format!("routes: [{{ path: /**, upstream: \"{url}\" }}]\n")).await
    }

    /// As [`start`](Self::start), as a process to which the shell's `ulimit` was applied with these arguments.
    pub(crate) async fn start_limited(ulimit: &str, yaml: &str) -> Self {
        Self::start_by(Some(ulimit), "127.0.0.1:0", "level: info", yaml).await
    }

    /// As [`start`](Self::start), with an admin port and settings of the log as they are written in YAML.
    pub(crate) async fn start_with(admin: &str, log: &str, yaml: &str) -> Self {
        Self::start_by(None, admin, log, yaml).await
    }

    async fn start_by(ulimit: Option<&str>, admin: &str, log: &str, yaml: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("gateway.yaml");
        let log = format!("{{ format: json, {log} }}");
        let head = format!("listen: 127.0.0.1:0\nadmin: {admin}\nlog: {log}\n");
        std::fs::write(&file, format!("{head}{yaml}")).unwrap();
        // Figures are those of a release build, which whoever measures names.
        let binary = std::env::var_os("TIDEGATE_BINARY");
        let binary = binary.unwrap_or(env!("CARGO_BIN_EXE_tidegate").into());
        // Relative to the repository, where cargo was called, and not to this crate, where cargo runs the tests.
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let binary = repository.join(binary);
        let mut command = match ulimit {
            None => Command::new(binary),
            Some(ulimit) => {
                let mut shell = Command::new("sh");
                shell
                    .arg("-c")
                    .arg(format!("ulimit {ulimit}; exec \"$0\" \"$@\""));
                shell.arg(binary);
                shell
            }
        };
        command.arg("run").arg("-c").arg(&file);
        let process = Process::spawn(command);
        let soon = Duration::from_secs(10);
        let listening = process.wait_for_line("\"listening\"", soon).await;
        let admin = process.wait_for_line("admin port", soon).await;
        let admin = logged_address(&admin);
        if yaml.contains("timeout: 5s") {
            settled(admin).await;
        }
        Self {
            address: logged_address(&listening),
            admin,
            process,
            head,
            folder,
        }
    }

    /// Its configuration.
    pub(crate) fn file(&self) -> PathBuf {
        self.folder.path().join("gateway.yaml")
    }

    /// Puts another file in the place of its configuration, in one step, with the same `listen`, `admin` and `log`.
    pub(crate) fn write(&self, yaml: &str) {
        let new = self.folder.path().join("new.yaml");
        std::fs::write(&new, format!("{}{yaml}", self.head)).unwrap();
        std::fs::rename(new, self.file()).unwrap();
    }
}

/// The `address` of a JSON log line.
pub(crate) fn logged_address(line: &str) -> SocketAddr {
    let (_, rest) = line.split_once("\"address\":\"").unwrap();
    rest.split_once('"').unwrap().0.parse().unwrap()
}

/// Lets so much time pass at once, for what runs in this process.
pub(crate) async fn pass(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}
