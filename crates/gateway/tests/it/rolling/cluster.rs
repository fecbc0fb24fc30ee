//! Pods that are processes, the Service before them, the ConfigMap in them, and a Redis for their limits: as the files of
//! examples/kubernetes say.

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use http::Request;
use http::header::AUTHORIZATION;
use parking_lot::Mutex;
use tempfile::TempDir;
use tidegate_testkit::{Client, Process, RedisServer, Upstream, body};

use crate::kit::{LONG, ready};
use crate::support::logged_address;

const PASSWORD: &str = "hunter2";
const TOKEN: &str = "0123456789abcdef";
/// Requests in flight have 30 s to end; in a test none takes as long.
const GRACE: Duration = Duration::from_secs(20);

/// A file of examples/kubernetes.
pub(super) struct Manifest(String);

impl Manifest {
    pub(super) fn read(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/kubernetes");
        Self(fs::read_to_string(folder.join(name)).unwrap())
    }

    /// The number of seconds behind a key that stands there once.
    pub(super) fn seconds(&self, key: &str) -> Duration {
        let (_, rest) = self.0.split_once(key).unwrap();
        assert!(!rest.contains(key), "{key} stands there twice");
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap();
        Duration::from_secs(rest[..end].parse().unwrap())
    }

    /// It with another text in the place of one that stands there.
    fn with(&self, old: &str, new: &str) -> Self {
        assert!(self.0.contains(old), "{old:?} does not stand there");
        Self(self.0.replace(old, new))
    }
}

pub(super) struct Cluster {
    pub(super) upstream: Upstream,
    pub(super) service: Service,
    pub(super) configuration: Configuration,
    pods: Vec<Pod>,
    _redis: RedisServer,
}

impl Cluster {
    /// Three pods, all of them in the Service.
    pub(super) async fn start() -> Self {
        let upstream = Upstream::ok();
        let redis = limits_redis().await;
        let configuration = Configuration::mount(&upstream, &redis);
        let service = Service::default();
        let mut pods = Vec::new();
        for _ in 0..3 {
            let pod = Pod::start(&configuration).await;
            service.add(&pod);
            pods.push(pod);
        }
        Self {
            upstream,
            service,
            configuration,
            pods,
            _redis: redis,
        }
    }

    /// A rolling update with `maxSurge: 1` and `maxUnavailable: 0`; says how many pods it replaced.
    pub(super) async fn replace_all(&mut self, pre_stop: Duration, min_ready: Duration) -> usize {
        let count = self.pods.len();
        for _ in 0..count {
            let new = Pod::start(&self.configuration).await;
            self.service.add(&new);
            tokio::time::sleep(min_ready).await;
            let old = self.pods.remove(0);
            // Nodes learn by and by that it takes no more connections, and preStop lasts longer than that.
            tokio::time::sleep(pre_stop / 2).await;
            self.service.remove(&old);
            tokio::time::sleep(pre_stop / 2).await;
            old.stop().await;
            self.pods.push(new);
        }
        count
    }

    /// How much a client has used of its budget of a day, as a gateway tells it.
    pub(super) async fn used_by(&self, client: IpAddr) -> u64 {
        let budgets = told(self.pods[0].admin, &format!("/clients/ip:{client}")).await;
        let budgets = budgets.unwrap();
        let limits = budgets["limits"].as_array().unwrap();
        let daily = limits.iter().find(|limit| limit["name"] == "daily");
        let daily = daily.unwrap_or_else(|| panic!("no daily in {budgets}"));
        daily["limit"].as_u64().unwrap() - daily["remaining"].as_u64().unwrap()
    }

    pub(super) async fn stop(self) {
        for pod in self.pods {
            pod.stop().await;
        }
    }
}

/// A Redis as redis.conf and redis.yaml say, but for its folder.
async fn limits_redis() -> RedisServer {
    let conf = Manifest::read("redis.conf").0;
    let lines = conf.lines().filter(|line| !line.starts_with('#'));
    let mut options = Vec::new();
    for line in lines.filter(|line| !line.starts_with("dir ")) {
        let mut words = line.split(' ');
        if let Some(name) = words.next().filter(|name| !name.is_empty()) {
            options.push(format!("--{name}"));
            options.push(words.collect::<Vec<_>>().join(" "));
        }
    }
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let redis = RedisServer::start_with(&options).await;
    let manifest = Manifest::read("redis.yaml").0;
    let (_, commands) = manifest.split_once("value: >-\n").unwrap();
    let (commands, _) = commands.split_once("startupProbe").unwrap();
    let password = format!(">{PASSWORD}");
    let mut rule = vec!["ACL", "SETUSER", "tidegate", "on", &password, "~tidegate:*"];
    rule.extend(commands.split_whitespace());
    let reply = redis.command(&rule).await;
    assert!(!reply.is_error(), "{reply:?}");
    redis
}

/// The ConfigMap, as a node mounts it: a folder of links through `..data`, which is a link itself.
#[derive(Clone)]
pub(super) struct Configuration {
    folder: Arc<TempDir>,
    text: String,
}

impl Configuration {
    fn mount(upstream: &Upstream, redis: &RedisServer) -> Self {
        let redis = format!("@{}", redis.addr());
        // Exact, however busy the machine is, and whatever the hour.
        let text = Manifest::read("gateway.yaml")
            .with("http://api.default.svc:9000", &upstream.url())
            .with("@redis:6379", &redis)
            .with("timeout: 25ms", "timeout: 5s")
            .with("on_failure: local", "on_failure: closed")
            .with("window: 1d", "window: 31d");
        let mounted = Self {
            folder: tempfile::tempdir().unwrap().into(),
            text: text.0,
        };
        mounted.change(0);
        symlink("..data/gateway.yaml", mounted.file()).unwrap();
        mounted
    }

    pub(super) fn file(&self) -> PathBuf {
        self.folder.path().join("gateway.yaml")
    }

    /// Puts other files in the place of those that are there, in one step.
    pub(super) fn change(&self, nth: usize) {
        let path = |name: &str| self.folder.path().join(name);
        let data = format!("..data-{nth}");
        fs::create_dir(path(&data)).unwrap();
        let text = format!("{}# change {nth}\n", self.text);
        fs::write(path(&data).join("gateway.yaml"), text).unwrap();
        let before = fs::read_link(path("..data"));
        symlink(data, path("..data_tmp")).unwrap();
        fs::rename(path("..data_tmp"), path("..data")).unwrap();
        if let Ok(before) = before {
            fs::remove_dir_all(self.folder.path().join(before)).unwrap();
        }
    }
}

/// A gateway with the arguments and the environment of the Deployment, on ports of its own.
pub(super) struct Pod {
    process: Process,
    pub(super) address: SocketAddr,
    pub(super) admin: SocketAddr,
}

impl Pod {
    /// Starts one, and waits until its startup probe succeeds.
    async fn start(configuration: &Configuration) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command
            .args(["run", "--config"])
            .arg(configuration.file())
            .env("TIDEGATE_LISTEN", "127.0.0.1:0")
            .env("TIDEGATE_ADMIN", "127.0.0.1:0")
            .env("TIDEGATE_SECRET", "of-all-pods")
            .env("TIDEGATE_ADMIN_TOKEN", TOKEN)
            .env("REDIS_PASSWORD", PASSWORD);
        let process = Process::spawn(command);
        let listening = process.wait_for_line("\"listening\"", LONG).await;
        let admin = process.wait_for_line("admin port", LONG).await;
        let pod = Self {
            process,
            address: logged_address(&listening),
            admin: logged_address(&admin),
        };
        ready(pod.admin, 200).await;
        pod
    }

    /// SIGTERM, as after preStop; it must end by itself, and well.
    async fn stop(mut self) {
        self.process.signal("TERM");
        assert_eq!(self.process.wait(GRACE).await.code(), Some(0));
    }
}

/// The pods that take connections: who is connected stays with their pod, and whoever connects gets the next.
#[derive(Clone, Default)]
pub(super) struct Service {
    // Where each takes requests, and its admin port.
    endpoints: Arc<Mutex<Vec<(SocketAddr, SocketAddr)>>>,
    closed: Arc<AtomicBool>,
}

impl Service {
    fn add(&self, pod: &Pod) {
        self.endpoints.lock().push((pod.address, pod.admin));
    }

    fn remove(&self, pod: &Pod) {
        self.endpoints
            .lock()
            .retain(|(address, _)| *address != pod.address);
    }

    /// Where the next connection goes.
    pub(super) fn next(&self) -> SocketAddr {
        let mut endpoints = self.endpoints.lock();
        endpoints.rotate_left(1);
        endpoints[0].0
    }

    /// Waits until all its pods have one configuration, which is another than before; gives its version.
    pub(super) async fn until_all_have_another(&self, before: &str) -> String {
        let deadline = Instant::now() + LONG;
        loop {
            let endpoints = self.endpoints.lock().clone();
            let mut versions = BTreeSet::new();
            for (_, admin) in endpoints {
                // One that has ended meanwhile needs no new configuration.
                if let Some(config) = told(admin, "/config").await {
                    versions.insert(config["version"].to_string());
                }
            }
            if versions.len() == 1
                && let Some(version) = versions.pop_first().filter(|version| version != before)
            {
                return version;
            }
            assert!(Instant::now() < deadline, "they stay at {versions:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Nobody needs it any more.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }
}

/// What the admin port says there, if anybody is there.
async fn told(admin: SocketAddr, path: &str) -> Option<serde_json::Value> {
    let request = Request::get(path).header(AUTHORIZATION, format!("Bearer {TOKEN}"));
    let request = request.body(body::empty()).unwrap();
    let answer = Client::fresh(admin).try_request(request).await.ok()?;
    serde_json::from_slice(&answer.body).ok()
}
