//! A child process that cannot outlive its test.

use std::{
    process::{Command, ExitStatus, Stdio},
    sync::Arc,
    thread,
    time::Duration,
};

use tokio::{
    io::{AsyncBufReadExt, AsyncRead, BufReader},
    process::Child,
    sync::watch,
    time::timeout,
};

/// A running command. Its output is kept line by line. The command is killed when this guard is dropped.
#[derive(Debug)]
pub struct Process {
    name: String,
    id: u32,
    child: Child,
    lines: watch::Receiver<Vec<String>>,
    reads: watch::Sender<bool>,
}

impl Process {
    /// Starts a command, from within a tokio runtime, without standard input. Panics if it cannot be started.
    pub fn spawn(command: Command) -> Self {
        Self::spawn_reading(Stdio::null(), command)
    }

    /// Starts a command like [`spawn`](Self::spawn), with `input` as its standard input.
    pub fn spawn_reading(input: impl Into<Stdio>, mut command: Command) -> Self {
        command
            .stdin(input)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let name = command.get_program().to_string_lossy().into_owned();
        let mut command = tokio::process::Command::from(command);
        let mut child = command
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|e| panic!("cannot start {name}: {e}"));

        let (log, lines) = watch::channel(Vec::new());
        let (reads, reading) = watch::channel(true);
        let log = Arc::new(log);
        let (out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        tokio::spawn(keep_lines(out, Arc::clone(&log), reading.clone()));
        tokio::spawn(keep_lines(err, log, reading));
        Self {
            name,
            id: child.id().unwrap(),
            child,
            lines,
            reads,
        }
    }

    /// Starts or stops reading the output. While it is not read, the pipes of the output fill up. A read that already waits for a line
    /// still stores that line.
    pub fn read_output(&self, reads: bool) {
        self.reads.send_replace(reads);
    }

    /// Returns the process id.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Returns the lines of standard output and standard error so far, in the order in which they were read.
    pub fn output(&self) -> Vec<String> {
        self.lines.borrow().clone()
    }

    /// Returns the first line that contains `pattern`, and waits for it if necessary. Panics, with the output, if the line does not come
    /// `within` this time, or if the output ends without it.
    pub async fn wait_for_line(&self, pattern: &str, within: Duration) -> String {
        self.wait_for_nth_line(pattern, 1, within).await
    }

    /// Waits like [`wait_for_line`](Self::wait_for_line) for the `nth` line that contains `pattern`, counted from 1.
    pub async fn wait_for_nth_line(&self, pattern: &str, nth: usize, within: Duration) -> String {
        // Searches each line only once.
        let (mut seen, mut places) = (0, Vec::new());
        let mut lines = self.lines.clone();
        let waiting = lines.wait_for(|lines| {
            let new = lines.iter().enumerate().skip(seen);
            places.extend(
                new.filter(|(_, line)| line.contains(pattern))
                    .map(|(at, _)| at),
            );
            seen = lines.len();
            places.len() >= nth
        });
        // `wait_for` also fails if both standard output and standard error have ended.
        if let Ok(Ok(lines)) = timeout(within, waiting).await {
            return lines[places[nth - 1]].clone();
        }
        panic!(
            "no {pattern:?} (number {nth}) within {within:?} in the output of {}",
            self.describe()
        );
    }

    /// Sends a signal by its name: `"TERM"`, `"HUP"`, `"STOP"`. Panics if the process has ended.
    pub fn signal(&mut self, name: &str) {
        assert!(
            self.child.try_wait().unwrap().is_none(),
            "SIG{name} for {}",
            self.describe()
        );
        signal(self.id, name);
    }

    /// Kills the process, and waits for its end.
    pub async fn kill(&mut self) {
        self.child.start_kill().ok(); // fails only if it has ended already
        self.child.wait().await.unwrap();
    }

    /// Waits for the end of the process. Panics, with the output, if that takes longer than `within`.
    pub async fn wait(&mut self, within: Duration) -> ExitStatus {
        match timeout(within, self.child.wait()).await {
            Ok(status) => status.unwrap(),
            Err(_) => panic!("still running after {within:?}: {}", self.describe()),
        }
    }

    /// Returns the memory that the process holds at the moment (`VmRSS`), in KiB.
    pub fn rss_kb(&self) -> u64 {
        self.status_kb("VmRSS:")
    }

    /// Returns the most memory that the process ever held (`VmHWM`), in KiB.
    pub fn peak_rss_kb(&self) -> u64 {
        self.status_kb("VmHWM:")
    }

    fn status_kb(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id)).unwrap();
        let value = status.lines().find_map(|line| line.strip_prefix(name));
        let number = value.expect("it has ended").trim().trim_end_matches(" kB");
        number.parse().unwrap()
    }

    /// Returns the processor time that the process has used.
    pub fn cpu_time(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.id)).unwrap();
        // The name may contain any characters. After it, user and system time are fields 12 and 13, in hundredths of a second.
        let (_, rest) = stat.rsplit_once(") ").expect("it has ended");
        let fields = rest.split(' ').skip(11).take(2);
        let ticks: u64 = fields.map(|field| field.parse::<u64>().unwrap()).sum();
        Duration::from_millis(ticks * 10)
    }

    /// Returns the number of files and sockets that the process has open.
    pub fn open_files(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.id))
            .expect("it has ended")
            .count()
    }

    fn describe(&self) -> String {
        format!(
            "{} (process {}):\n{}",
            self.name,
            self.id,
            self.lines.borrow().join("\n")
        )
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A killed process ends soon, so the wait is short. After the wait, the ports and files of the process are free.
        if self.child.start_kill().is_ok() {
            while let Ok(None) = self.child.try_wait() {
                thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

async fn keep_lines(
    from: impl AsyncRead + Unpin,
    log: Arc<watch::Sender<Vec<String>>>,
    mut reading: watch::Receiver<bool>,
) {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    while reading.wait_for(|reads| *reads).await.is_ok()
        && from
            .read_until(b'\n', &mut line)
            .await
            .is_ok_and(|read| read > 0)
    {
        let text = String::from_utf8_lossy(&line).trim_end().to_owned();
        log.send_modify(|lines| lines.push(text));
        line.clear();
    }
}

/// Sends a signal by its name, through the shell's own `kill`.
pub(crate) fn signal(id: u32, name: &str) {
    let sent = Command::new("sh")
        .args(["-c", &format!("kill -s {name} {id}")])
        .status()
        .unwrap();
    assert!(
        sent.success(),
        "SIG{name} could not be sent to process {id}"
    );
}

/// Waits until a process that was sent SIGSTOP has stopped.
pub(crate) async fn stopped(id: u32) {
    let is_stopped = || {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
        stat.rsplit_once(") ")
            .is_some_and(|(_, rest)| rest.starts_with('T'))
    };
    while !is_stopped() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[cfg(test)]
mod tests {
    use std::{os::unix::process::ExitStatusExt, panic::AssertUnwindSafe, path::Path};

    use super::*;

    const LONG: Duration = Duration::from_secs(10);

    fn shell(script: &str) -> Process {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Process::spawn(command)
    }

    #[tokio::test]
    async fn lines_signals_and_the_end_are_seen() {
        let mut process = shell(
            "trap 'echo bye; exit 3' TERM; echo up >&2; echo up 2; while :; do sleep 0.01; done",
        );
        assert_eq!(
            process.wait_for_nth_line("up", 2, LONG).await.len() + process.output()[0].len(),
            6
        );
        assert!(process.rss_kb() > 100 && process.open_files() >= 3);
        assert!(process.peak_rss_kb() >= process.rss_kb() && process.cpu_time() < LONG);
        process.signal("TERM");
        assert_eq!(process.wait(LONG).await.code(), Some(3));
        assert_eq!(process.wait_for_line("bye", LONG).await, "bye");
    }

    #[tokio::test]
    #[should_panic(expected = "no \"never\"")]
    async fn a_line_that_cannot_come_any_more_is_not_waited_for() {
        shell("echo other")
            .wait_for_line("never", Duration::from_secs(3600))
            .await;
    }

    #[tokio::test]
    async fn output_that_is_not_read_stays_in_its_pipe() {
        let mut process = shell("head -c 65536 /dev/zero; echo; echo end");
        process.read_output(false);
        assert!(
            timeout(Duration::from_millis(50), process.child.wait())
                .await
                .is_err()
        );
        process.read_output(true);
        process.wait_for_line("end", LONG).await;
        assert_eq!(process.wait(LONG).await.code(), Some(0));
    }

    #[tokio::test]
    async fn dropping_kills_even_during_a_panic() {
        let process = shell("exec sleep 1000");
        let id = process.id();
        let unwound = std::panic::catch_unwind(AssertUnwindSafe(move || {
            let _process = process;
            panic!("as a failing test does");
        }));
        assert!(unwound.is_err() && !Path::new(&format!("/proc/{id}")).exists());

        let mut process = shell("exec sleep 1000");
        process.kill().await;
        process.kill().await;
        assert_eq!(process.wait(LONG).await.signal(), Some(9));
    }
}
