//! Running programs to their end with a deadline, and sending them signals.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

/// A signal that tests send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Ctrl-C.
    Interrupt,
    /// The polite end.
    Terminate,
    /// The end without notice.
    Kill,
    /// Stops the process in its tracks; its connections stay open.
    Stop,
    /// Goes on after [`Signal::Stop`].
    Continue,
}

impl Signal {
    /// Sends it to a process.
    ///
    /// # Errors
    /// When there is no such process.
    pub fn send(self, process: u32) -> Result<()> {
        let name = match self {
            Self::Interrupt => "INT",
            Self::Terminate => "TERM",
            Self::Kill => "KILL",
            Self::Stop => "STOP",
            Self::Continue => "CONT",
        };
        let doing = || format!("kill -{name} {process}");
        // Without unsafe code the way to kill(2) is the shell's own kill.
        let output = Command::new("sh").args(["-c", &doing()]).output().map_err(|e| Error::doing(doing(), e))?;
        if output.status.success() {
            Ok(())
        } else {
            Err(Error::doing(doing(), String::from_utf8_lossy(&output.stderr)))
        }
    }
}

/// A process that ended, with what it wrote.
#[derive(Clone, Debug)]
pub struct Finished {
    /// The exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// The number of the signal that ended it.
    pub signal: Option<i32>,
    /// What it wrote to stdout.
    pub stdout: Vec<u8>,
    /// What it wrote to stderr.
    pub stderr: String,
}

impl Finished {
    pub(crate) fn new(status: ExitStatus, stdout: Vec<u8>, stderr: Vec<u8>) -> Self {
        let stderr = String::from_utf8_lossy(&stderr).into_owned();
        Self { code: status.code(), signal: status.signal(), stdout, stderr }
    }

    /// Stdout as text, invalid UTF-8 replaced.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Stdout's lines.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.text().lines().map(str::to_owned).collect()
    }

    /// Itself, when the exit code is `code`.
    ///
    /// # Panics
    /// Otherwise, with what the process wrote.
    #[track_caller]
    #[must_use]
    pub fn expect_code(self, code: i32) -> Self {
        let (wrote, cut) = (self.text(), 4_000);
        let end = wrote.char_indices().nth(cut).map_or(wrote.len(), |(at, _)| at);
        assert!(
            self.code == Some(code),
            "exit code {:?} (signal {:?}) instead of {code}\nstdout: {}\nstderr: {}",
            self.code,
            self.signal,
            &wrote[..end],
            self.stderr
        );
        self
    }
}

/// Runs a command to its end. Kills it at the deadline, which is an error with what it wrote until then.
pub(crate) fn run(command: &mut Command, stdin: &[u8], timeout: Duration) -> Result<Finished> {
    let name = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|e| Error::doing(&name, e))?;
    let mut input = child.stdin.take().expect("piped");
    let input_bytes = stdin.to_vec();
    // A process that doesn't read its input is no failure of ours.
    thread::spawn(move || drop(input.write_all(&input_bytes)));
    let stdout = Captured::read(child.stdout.take().expect("piped"));
    let stderr = Captured::read(child.stderr.take().expect("piped"));
    let status = wait(&mut child, timeout);
    if status.is_none() {
        let _ = child.kill();
        let _ = child.wait();
    }
    let (stdout, stderr) = (stdout.rest(), stderr.rest());
    match status {
        Some(status) => Ok(Finished::new(status, stdout, stderr)),
        None => Err(Error::new(format!(
            "{name} did not end within {timeout:?}\nstdout: {}\nstderr: {}",
            String::from_utf8_lossy(&stdout),
            String::from_utf8_lossy(&stderr)
        ))),
    }
}

/// Waits for the end; `None` at the deadline.
pub(crate) fn wait(child: &mut Child, timeout: Duration) -> Option<ExitStatus> {
    let deadline = Instant::now() + timeout;
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        if Instant::now() >= deadline {
            return None;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// A stream that is read in the background and can be looked at meanwhile.
pub(crate) struct Captured {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl Captured {
    pub(crate) fn read(mut from: impl Read + Send + 'static) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let to = Arc::clone(&bytes);
        let reader = thread::spawn(move || {
            let mut chunk = vec![0; 1 << 16];
            loop {
                match from.read(&mut chunk) {
                    Ok(0) => break,
                    Ok(n) => lock(&to).extend_from_slice(&chunk[..n]),
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => break,
                }
            }
        });
        Self { bytes, reader }
    }

    pub(crate) fn so_far(&self) -> Vec<u8> {
        lock(&self.bytes).clone()
    }

    pub(crate) fn len(&self) -> usize {
        lock(&self.bytes).len()
    }

    pub(crate) fn ended(&self) -> bool {
        self.reader.is_finished()
    }

    /// Everything, when its process is gone. Whom that process left behind may still hold the stream; nobody waits for it.
    pub(crate) fn rest(&self) -> Vec<u8> {
        let deadline = Instant::now() + Duration::from_secs(5);
        while !self.ended() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(1));
        }
        std::mem::take(&mut *lock(&self.bytes))
    }
}

fn lock(bytes: &Mutex<Vec<u8>>) -> MutexGuard<'_, Vec<u8>> {
    bytes.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs kcat, another client than Java's, with `stdin` as its input.
///
/// # Panics
/// When it is missing or doesn't end within a minute.
#[track_caller]
pub fn kcat<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>, stdin: &[u8]) -> Finished {
    let mut command = Command::new("kcat");
    command.args(args);
    match run(&mut command, stdin, Duration::from_secs(60)) {
        Ok(finished) => finished,
        Err(e) => panic!("{e}. kcat is needed (Debian: apt-get install kcat)"),
    }
}
