//! As a service of systemd: what it is told, and sockets that it has opened. A socket of our own stands for it.

use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::process::Command;

use tempfile::TempDir;
use tidegate_testkit::{Client, Process, Upstream};

use crate::kit::LONG;

/// What stands where systemd would, and a configuration.
struct Service {
    folder: TempDir,
    told: UnixDatagram,
}

impl Service {
    fn new(yaml: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let told = UnixDatagram::bind(folder.path().join("notify")).unwrap();
        told.set_read_timeout(Some(LONG)).unwrap();
        let service = Self { folder, told };
        service.write(yaml);
        service
    }

    fn write(&self, yaml: &str) {
        let log = "log: { format: json }";
        std::fs::write(self.file(), format!("{log}\n{yaml}")).unwrap();
    }

    fn file(&self) -> std::path::PathBuf {
        self.folder.path().join("gateway.yaml")
    }

    /// What is passed as its only socket, if anything is.
    fn start(&self, socket: Option<TcpListener>) -> Process {
        let mut command = Command::new("sh");
        // Only the process itself knows who it is.
        let script = match &socket {
            Some(_) => r#"LISTEN_FDS=1 LISTEN_PID=$$ exec "$0" run -c "$1" 3<&0"#,
            None => r#"exec "$0" run -c "$1""#,
        };
        command.args(["-c", script, env!("CARGO_BIN_EXE_tidegate")]);
        command.arg(self.file());
        command.env("NOTIFY_SOCKET", self.folder.path().join("notify"));
        match socket {
            Some(socket) => Process::spawn_reading(OwnedFd::from(socket), command),
            None => Process::spawn(command),
        }
    }

    /// What it is told next.
    fn hears(&self) -> String {
        let mut buffer = [0; 512];
        let length = self.told.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    }
}

fn yaml(listen: &str, upstream: &Upstream) -> String {
    let url = upstream.url();
    format!(
        "listen: \"{listen}\"\nadmin: 127.0.0.1:0\nroutes: [{{ path: /**, upstream: \"{url}\" }}]\n"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_told_of_start_reload_and_stop() {
    let upstream = Upstream::ok();
    let good = yaml("127.0.0.1:0", &upstream);
    let service = Service::new(&good);
    let mut process = service.start(None);
    assert_eq!(service.hears(), "READY=1\nSTATUS=serving\n");
    process.signal("HUP");
    let reloading = service.hears();
    let since = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=");
    assert!(since.unwrap().trim().parse::<u64>().is_ok(), "{reloading}");
    assert_eq!(service.hears(), "READY=1\nSTATUS=serving\n");
    service.write("routes: 5\n");
    process.signal("HUP");
    assert!(service.hears().starts_with("RELOADING=1\n"));
    let refused = service.hears();
    assert!(
        refused.starts_with("READY=1\nSTATUS=serving; a changed"),
        "{refused}"
    );
    process.signal("TERM");
    assert!(service.hears().starts_with("STOPPING=1\n"));
    assert_eq!(process.wait(LONG).await.code(), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_socket_that_is_open_already_is_served() {
    let upstream = Upstream::ok();
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let service = Service::new(&yaml(&address.to_string(), &upstream));
    // A client that comes before there is a gateway waits for it.
    let client = Client::new(address);
    let (answer, mut process) =
        tokio::join!(client.get("/"), async { service.start(Some(socket)) });
    assert_eq!(answer.status, 200);
    process.signal("TERM");
    assert_eq!(process.wait(LONG).await.code(), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_socket_that_nobody_asked_for_is_refused() {
    let upstream = Upstream::ok();
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let service = Service::new(&yaml("127.0.0.1:0", &upstream));
    let mut process = service.start(Some(socket));
    let told = format!("error: the service manager passes a socket on {address}");
    process.wait_for_line(&told, LONG).await;
    assert_eq!(process.wait(LONG).await.code(), Some(2));
}
