//! One broker and controller in a process of its own, which tests may kill, stop, pause and start again.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::error::{Error, Result};
use crate::process::{self, Signal};
use crate::{Version, keeper, setup};

/// A node of a [`KafkaCluster`](crate::KafkaCluster).
pub struct Node {
    /// The node id, from 1 on.
    pub id: i32,
    /// The port of its plain-text listener on 127.0.0.1.
    pub port: u16,
    /// A further free port, where nothing listens unless properties put a listener there.
    pub extra_port: u16,
    pub(super) version: Version,
    pub(super) cluster_id: String,
    pub(super) cluster_size: usize,
    pub(super) dir: PathBuf,
    pub(super) process: Mutex<Option<Child>>,
}

impl Node {
    /// `127.0.0.1:port`.
    #[must_use]
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Where its segments lie: one folder a partition, `TOPIC-PARTITION`.
    #[must_use]
    pub fn log_dir(&self) -> PathBuf {
        self.dir.join("data")
    }

    /// The segment files (`*.log`) of a partition, oldest first.
    ///
    /// # Panics
    /// When the node has no such partition.
    #[track_caller]
    #[must_use]
    pub fn segments(&self, topic: &str, partition: i32) -> Vec<PathBuf> {
        let folder = self.log_dir().join(format!("{topic}-{partition}"));
        let entries = fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("a directory entry").path()).collect();
        files.retain(|path| path.extension().is_some_and(|e| e == "log"));
        files.sort();
        files
    }

    /// Ends it at once (SIGKILL).
    #[track_caller]
    pub fn kill(&self) {
        self.end(Signal::Kill, Duration::from_secs(20));
    }

    /// Ends it in order (SIGTERM): it hands its leaderships over and closes its log.
    #[track_caller]
    pub fn stop(&self) {
        self.end(Signal::Terminate, Duration::from_secs(60));
    }

    /// Stops it in its tracks (SIGSTOP): connections stay open and nothing answers.
    #[track_caller]
    pub fn pause(&self) {
        self.signal(Signal::Stop);
    }

    /// Goes on after [`Node::pause`].
    #[track_caller]
    pub fn resume(&self) {
        self.signal(Signal::Continue);
    }

    /// Ends it in order where it still runs, and starts it on the same port and folder; returns when it serves.
    #[track_caller]
    pub fn restart(&self) {
        if self.process().is_some() {
            self.stop();
        }
        self.spawn().and_then(|()| super::cluster::await_ready(self)).unwrap_or_else(|e| panic!("{e}"));
    }

    /// The process, for tests that look at what the system says of it; `None` while it is down.
    #[must_use]
    pub fn process_id(&self) -> Option<u32> {
        self.process().as_ref().map(Child::id)
    }

    pub(super) fn spawn(&self) -> Result<()> {
        let mut java = setup::java(self.version, "-Xmx512m", &self.dir, "ottla.testing.Node")?;
        let log = self.log_file();
        let open = File::options().create(true).append(true).open(&log).map_err(|e| Error::doing(log.display(), e))?;
        let again = open.try_clone().map_err(|e| Error::doing(log.display(), e))?;
        java.arg(self.dir.join("server.properties")).arg(self.log_dir()).arg(&self.cluster_id);
        java.stdin(Stdio::null()).stdout(open).stderr(again).process_group(0);
        let child = java.spawn().map_err(|e| Error::doing("java", e))?;
        keeper::watch_process(child.id());
        *self.process() = Some(child);
        Ok(())
    }

    /// Whether the process has ended by itself.
    pub(super) fn has_ended(&self) -> bool {
        self.process().as_mut().is_none_or(|child| !matches!(child.try_wait(), Ok(None)))
    }

    /// The end of what it logged.
    pub(super) fn log_tail(&self) -> String {
        tail(&self.log_file(), 40)
    }

    fn log_file(&self) -> PathBuf {
        self.dir.join("server.log")
    }

    fn process(&self) -> MutexGuard<'_, Option<Child>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[track_caller]
    fn signal(&self, signal: Signal) {
        let id = self.process_id().unwrap_or_else(|| panic!("node {} is down", self.id));
        signal.send(id).unwrap_or_else(|e| panic!("node {}: {e}", self.id));
    }

    #[track_caller]
    fn end(&self, signal: Signal, timeout: Duration) {
        let Some(mut child) = self.process().take() else { panic!("node {} is down", self.id) };
        let _ = signal.send(child.id());
        let ended = process::wait(&mut child, timeout).is_some();
        if !ended {
            let _ = child.kill();
            let _ = child.wait();
        }
        keeper::forget_process(child.id());
        assert!(ended, "node {} did not end within {timeout:?}\n{}", self.id, self.log_tail());
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(mut child) = self.process().take() {
            let _ = child.kill();
            let _ = child.wait();
            keeper::forget_process(child.id());
        }
    }
}

/// The last lines of a log.
pub(crate) fn tail(log: &Path, lines: usize) -> String {
    let text = fs::read(log).map(|b| String::from_utf8_lossy(&b).into_owned()).unwrap_or_default();
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}
