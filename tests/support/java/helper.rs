//! The helper process: one JSON object a line in, one a line out, answers matched by id. It ends with its stdin.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::error::{Error, Result};
use crate::kafka::cluster::Folder;
use crate::kafka::node::tail;
use crate::{Version, keeper, setup};

const CALL_LIMIT: Duration = Duration::from_secs(180);

type Waiting = Arc<Mutex<HashMap<u64, Sender<Value>>>>;

/// The Java helper process.
pub struct JavaHelper {
    input: Mutex<(ChildStdin, u64)>,
    waiting: Waiting,
    log: PathBuf,
    folder: Folder,
    _process: Child,
}

impl JavaHelper {
    /// The test binary's helper, started by the first that asks.
    ///
    /// # Errors
    /// When Java can't be started or isn't there.
    pub fn shared() -> Result<&'static Self> {
        static SHARED: OnceLock<Result<JavaHelper>> = OnceLock::new();
        SHARED.get_or_init(Self::start).as_ref().map_err(Clone::clone)
    }

    /// Starts the shared helper beside whatever the caller goes on to wait for.
    pub(crate) fn warm_up() {
        thread::spawn(Self::shared);
    }

    /// Runs one command of `tests/kafka` and returns its `ok`.
    ///
    /// # Errors
    /// Java's exception, or that the helper ended or did not answer in time.
    pub fn call(&self, mut command: Value) -> Result<Value> {
        let (sender, receiver) = channel();
        let what = command["op"].as_str().unwrap_or_default().to_owned();
        {
            let mut input = lock(&self.input);
            input.1 += 1;
            let id = input.1;
            command["id"] = id.into();
            lock(&self.waiting).insert(id, sender);
            writeln!(input.0, "{command}").map_err(|e| self.lost(&what, &e.to_string()))?;
        }
        let mut answer = self.receive(&receiver, &what)?;
        match answer["error"].as_str() {
            Some(error) => Err(Error::doing(what, error)),
            None => Ok(answer["ok"].take()),
        }
    }

    /// Where commands may leave files for the caller, who removes them.
    pub(crate) fn folder(&self) -> &std::path::Path {
        &self.folder.path
    }

    fn receive(&self, receiver: &Receiver<Value>, what: &str) -> Result<Value> {
        receiver.recv_timeout(CALL_LIMIT).map_err(|e| match e {
            RecvTimeoutError::Timeout => self.lost(what, &format!("no answer within {CALL_LIMIT:?}")),
            RecvTimeoutError::Disconnected => self.lost(what, "the Java helper ended"),
        })
    }

    fn lost(&self, what: &str, why: &str) -> Error {
        Error::new(format!("{what}: {why}\n{}", tail(&self.log, 40)))
    }

    fn start() -> Result<Self> {
        let folder = Folder::new()?;
        let log = folder.path.join("helper.log");
        let file = File::create(&log).map_err(|e| Error::doing(log.display(), e))?;
        let mut java = setup::java(Version::V4_3, "-Xmx1g", &folder.path, "ottla.testing.Helper")?;
        java.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(file).process_group(0);
        let mut process = java.spawn().map_err(|e| Error::doing("java", e))?;
        keeper::watch_process(process.id());
        let input = Mutex::new((process.stdin.take().expect("piped"), 0));
        let answers = BufReader::new(process.stdout.take().expect("piped"));
        let waiting = Waiting::default();
        let to = Arc::clone(&waiting);
        thread::spawn(move || {
            for line in answers.lines().map_while(|line| line.ok()) {
                let Ok(answer) = serde_json::from_str::<Value>(&line) else { continue };
                if let Some(sender) = answer["id"].as_u64().and_then(|id| lock(&to).remove(&id)) {
                    let _ = sender.send(answer);
                }
            }
            // Dropping the senders wakes whoever still waits.
            lock(&to).clear();
        });
        Ok(Self { input, waiting, log, folder, _process: process })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
