//! A life in a process of its own, and its end.

use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, thread};

use super::child::{self, Life};
use super::schedule::Aim;

/// A process that does not come to its aim is killed all the same.
const PATIENCE: Duration = Duration::from_secs(30);

/// A life at work; it ends with its owner.
pub(super) struct Running {
    child: Child,
    errors: PathBuf,
}

impl Running {
    pub(super) fn start(life: &Life) -> Self {
        let errors = life.folder.join("errors");
        let mut command = Command::new(env::current_exe().expect("this program"));
        command.args(["--exact", child::TEST, "--nocapture", "--test-threads", "1"]);
        command.env(child::VARIABLE, serde_json::to_string(life).expect("JSON"));
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(File::create(&errors).expect("a file"));
        Self { child: command.spawn().expect("this program"), errors }
    }

    /// Waits for the place, kills it there, and makes sure that nothing else ended it.
    #[track_caller]
    pub(super) fn kill(&mut self, aim: &Aim, folder: &Path, next_batch: i64) {
        let began = Instant::now();
        let patience = match aim {
            Aim::Time(after) => *after,
            _ => PATIENCE,
        };
        while began.elapsed() < patience {
            match aim {
                Aim::File(seen, others, later) if seen.is_there(folder, next_batch + others) => {
                    let at = Instant::now();
                    while at.elapsed() < *later {
                        std::hint::spin_loop();
                    }
                    break;
                }
                Aim::File(..) => thread::yield_now(),
                _ if self.child.try_wait().expect("a child").is_some() => break,
                _ => thread::sleep(Duration::from_millis(1)),
            }
        }
        let missed = aim.is_own() && began.elapsed() >= patience;
        let _ = self.child.kill();
        let status = self.child.wait().expect("a child");
        assert_eq!(status.signal(), Some(9), "{aim:?}: it ended by itself: {}", self.errors());
        assert!(!missed, "{aim:?}: it never came there: {}", self.errors());
    }

    /// Waits until it is done.
    #[track_caller]
    pub(super) fn end(mut self) {
        let deadline = Instant::now() + Duration::from_secs(120);
        loop {
            match self.child.try_wait().expect("a child") {
                Some(status) => return assert!(status.success(), "{status}: {}", self.errors()),
                None => assert!(Instant::now() < deadline, "it does not end: {}", self.errors()),
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn errors(&self) -> String {
        fs::read_to_string(&self.errors).unwrap_or_default()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
