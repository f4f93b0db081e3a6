//! The `ottla` binary as a process.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::keeper;
use crate::process::{self, Captured, Finished, Signal};

/// A run of the `ottla` binary, built first when the test binary's own build is newer.
#[derive(Clone, Debug)]
pub struct Ottla {
    args: Vec<String>,
    env: Vec<(String, String)>,
    dir: Option<PathBuf>,
    stdin: Vec<u8>,
    timeout: Duration,
    close_stdout_after: Option<usize>,
}

impl Ottla {
    /// With these arguments, no input, and a minute of time.
    #[must_use]
    pub fn new<S: AsRef<str>>(args: impl IntoIterator<Item = S>) -> Self {
        Self {
            args: args.into_iter().map(|a| a.as_ref().to_owned()).collect(),
            env: Vec::new(),
            dir: None,
            stdin: Vec::new(),
            timeout: Duration::from_secs(60),
            close_stdout_after: None,
        }
    }

    /// With one more argument.
    #[must_use]
    pub fn arg(mut self, arg: &str) -> Self {
        self.args.push(arg.to_owned());
        self
    }

    /// With an environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// In this working folder.
    #[must_use]
    pub fn dir(mut self, dir: impl AsRef<Path>) -> Self {
        self.dir = Some(dir.as_ref().to_owned());
        self
    }

    /// With this on stdin.
    #[must_use]
    pub fn stdin(mut self, bytes: impl AsRef<[u8]>) -> Self {
        self.stdin = bytes.as_ref().to_vec();
        self
    }

    /// Killed, and the test failed, after so long.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Stdout is a pipe whose reader leaves after so many bytes: a broken pipe.
    #[must_use]
    pub fn close_stdout_after(mut self, bytes: usize) -> Self {
        self.close_stdout_after = Some(bytes);
        self
    }

    /// Runs it to its end.
    ///
    /// # Panics
    /// When it can't be built or started, or doesn't end in time.
    #[track_caller]
    #[must_use]
    pub fn run(&self) -> Finished {
        self.spawn().wait()
    }

    /// Starts it.
    ///
    /// # Panics
    /// When it can't be built or started.
    #[track_caller]
    #[must_use]
    pub fn spawn(&self) -> RunningOttla {
        self.spawn_program(&Self::path())
    }

    #[track_caller]
    fn spawn_program(&self, program: &Path) -> RunningOttla {
        let mut command = Command::new(program);
        command.args(&self.args).envs(self.env.iter().map(|(k, v)| (k, v)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(dir) = &self.dir {
            command.current_dir(dir);
        }
        let mut child = command.spawn().unwrap_or_else(|e| panic!("{}: {e}", program.display()));
        keeper::watch_process(child.id());
        let mut stdin = child.stdin.take().expect("piped");
        let input = self.stdin.clone();
        thread::spawn(move || drop(stdin.write_all(&input)));
        let stdout = child.stdout.take().expect("piped");
        let stdout = match self.close_stdout_after {
            Some(bytes) => Captured::read(stdout.take(bytes as u64)),
            None => Captured::read(stdout),
        };
        let stderr = Captured::read(child.stderr.take().expect("piped"));
        RunningOttla { child, stdout, stderr, deadline: Instant::now() + self.timeout, args: self.args.clone() }
    }

    /// The binary: `$OTTLA_BIN`, or built once in the profile and target folder of the running test.
    ///
    /// # Panics
    /// When it doesn't build.
    #[track_caller]
    #[must_use]
    pub fn path() -> PathBuf {
        static BUILT: OnceLock<Result<PathBuf>> = OnceLock::new();
        BUILT.get_or_init(build).clone().unwrap_or_else(|e| panic!("{e}"))
    }
}

/// Cargo gives the path of a binary only to the tests of its own package.
fn build() -> Result<PathBuf> {
    if let Some(given) = std::env::var_os("OTTLA_BIN").filter(|v| !v.is_empty()) {
        return Ok(given.into());
    }
    let test = std::env::current_exe().map_err(|e| Error::doing("the test's own path", e))?;
    // TARGET_FOLDER[/TRIPLE]/PROFILE/deps/it-HASH
    let mut above = test.ancestors().skip(2);
    let (Some(folder), Some(parent)) = (above.next(), above.next()) else {
        return Err(Error::new(format!("{} lies in no cargo target folder: set OTTLA_BIN", test.display())));
    };
    let name = |path: &Path| path.file_name().and_then(OsStr::to_str).unwrap_or_default().to_owned();
    let profile = match name(folder).as_str() {
        "debug" => "dev".to_owned(),
        other => other.to_owned(),
    };
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).args([
        "build",
        "-q",
        "-p",
        "ottla",
        "--profile",
        &profile,
    ]);
    // Cargo marks the target folder; a test built with --target lies one folder further down.
    if parent.join("CACHEDIR.TAG").exists() {
        cargo.arg("--target-dir").arg(parent);
    } else {
        cargo.arg("--target").arg(name(parent)).arg("--target-dir").arg(parent.parent().unwrap_or(parent));
    }
    let built = process::run(&mut cargo, b"", Duration::from_secs(1_800))?;
    match built.code {
        Some(0) => Ok(folder.join("ottla")),
        _ => Err(Error::doing("cargo build -p ottla", built.stderr)),
    }
}

/// A running `ottla`; killed when dropped.
pub struct RunningOttla {
    child: Child,
    stdout: Captured,
    stderr: Captured,
    deadline: Instant,
    args: Vec<String>,
}

impl RunningOttla {
    /// Sends a signal.
    #[track_caller]
    pub fn signal(&self, signal: Signal) {
        signal.send(self.child.id()).unwrap_or_else(|e| panic!("ottla: {e}"));
    }

    /// The process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until what it wrote to stderr contains `text`.
    ///
    /// # Panics
    /// When it ends, or its time does, before that.
    #[track_caller]
    pub fn await_stderr(&self, text: &str) {
        loop {
            // Looked at before the text, so that the last words count.
            let over = self.stderr.ended() || Instant::now() > self.deadline;
            let written = String::from_utf8_lossy(&self.stderr.so_far()).into_owned();
            if written.contains(text) {
                return;
            }
            assert!(!over, "ottla {:?} never wrote {text:?} to stderr: {written}", self.args);
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// How many bytes it has written to stdout so far.
    #[must_use]
    pub fn stdout_bytes(&self) -> usize {
        self.stdout.len()
    }

    /// Waits until it has written so many bytes to stdout.
    ///
    /// # Panics
    /// When it ends, or its time does, before that.
    #[track_caller]
    pub fn await_stdout(&self, bytes: usize) {
        loop {
            let over = self.stdout.ended() || Instant::now() > self.deadline;
            if self.stdout.len() >= bytes {
                return;
            }
            let stderr = String::from_utf8_lossy(&self.stderr.so_far()).into_owned();
            assert!(!over, "ottla {:?} never wrote {bytes} bytes to stdout: {stderr}", self.args);
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// When it doesn't end in time, with what it wrote until then.
    #[track_caller]
    #[must_use]
    pub fn wait(mut self) -> Finished {
        let status = process::wait(&mut self.child, self.deadline.saturating_duration_since(Instant::now()));
        if status.is_none() {
            let _ = self.child.kill();
        }
        let (stdout, stderr) = (self.stdout.rest(), self.stderr.rest());
        match status {
            Some(status) => Finished::new(status, stdout, stderr),
            None => panic!(
                "ottla {:?} did not end in time\nstdout: {}\nstderr: {}",
                self.args,
                String::from_utf8_lossy(&stdout),
                String::from_utf8_lossy(&stderr)
            ),
        }
    }
}

impl Drop for RunningOttla {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        keeper::forget_process(self.child.id());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The shell in the binary's place: what is tested is the runner.
    fn shell(script: &str) -> (Ottla, PathBuf) {
        (Ottla::new(["-c", script]), PathBuf::from("/bin/sh"))
    }

    #[test]
    fn what_a_process_writes_and_how_it_ends_is_kept() {
        let (ottla, sh) = shell("cat; echo $WORD >&2; exit 3");
        let finished = ottla.env("WORD", "word").stdin("input").spawn_program(&sh).wait().expect_code(3);
        assert_eq!((finished.text(), finished.stderr.as_str(), finished.signal), ("input".into(), "word\n", None));
    }

    #[test]
    fn a_signal_reaches_it_once_it_is_ready() {
        let (ottla, sh) = shell("trap 'echo caught; exit 130' INT; echo ready >&2; while :; do sleep 0.01; done");
        let running = ottla.spawn_program(&sh);
        running.await_stderr("ready");
        running.signal(Signal::Interrupt);
        assert_eq!(running.wait().expect_code(130).text(), "caught\n");
    }

    #[test]
    fn a_closed_stdout_breaks_the_pipe() {
        let (ottla, sh) = shell("while :; do echo line || exit 7; done");
        let finished = ottla.close_stdout_after(10).spawn_program(&sh).wait();
        // The shell dies of SIGPIPE unless its parent ignores that.
        assert!(finished.signal == Some(13) || finished.code == Some(7), "{:?} {:?}", finished.signal, finished.code);
        assert_eq!(finished.text(), "line\nline\n");
    }

    #[test]
    #[should_panic(expected = "did not end in time")]
    fn a_process_that_hangs_is_ended() {
        let (ottla, sh) = shell("echo begun; exec sleep 600");
        let _ = ottla.timeout(Duration::from_millis(200)).spawn_program(&sh).wait();
    }
}
