//! Ends what the tests started even when nobody drops it: statics at the end of a test binary, a panic that aborts,
//! SIGKILL. A small shell reads a list of processes and folders from a pipe; when the test process is gone, for whatever
//! reason, the pipe ends, and the shell kills and removes what is still on the list.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

const SCRIPT: &str = r#"
trap '' INT TERM HUP
while IFS= read -r line; do
  entry=${line#?}
  case $line in
    +*) set -- "$@" "$entry" ;;
    -*) for e; do shift; [ "$e" = "$entry" ] || set -- "$@" "$e"; done ;;
  esac
done
for e; do case $e in pid:*) kill -KILL "${e#pid:}" 2>/dev/null ;; esac; done
for e; do case $e in dir:*) rm -rf "${e#dir:}" 2>/dev/null || { sleep 1; rm -rf "${e#dir:}"; } ;; esac; done
"#;

pub(crate) fn watch_process(id: u32) {
    say(&format!("+pid:{id}"));
}

pub(crate) fn forget_process(id: u32) {
    say(&format!("-pid:{id}"));
}

pub(crate) fn watch_folder(path: &Path) {
    say(&format!("+dir:{}", path.display()));
}

pub(crate) fn forget_folder(path: &Path) {
    say(&format!("-dir:{}", path.display()));
}

fn say(line: &str) {
    static SHELL: OnceLock<Mutex<Child>> = OnceLock::new();
    let shell = SHELL.get_or_init(|| {
        let mut shell = Command::new("sh");
        // A group of its own, so that Ctrl-C on the tests doesn't end it before its work.
        shell.args(["-c", SCRIPT]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        Mutex::new(shell.spawn().expect("sh, which ends what the tests started, could not be run"))
    });
    let mut shell = shell.lock().unwrap_or_else(PoisonError::into_inner);
    let pipe = shell.stdin.as_mut().expect("the pipe that was asked for");
    writeln!(pipe, "{line}").expect("the shell that ends what the tests started is gone");
}
