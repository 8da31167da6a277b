//! The program as a command: started without a config of the harness, run to its end, and what it printed.

use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{LazyLock, mpsc};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::harness::watchdog::{WATCHDOG, now, pause};

/// The program with `arguments`, not yet started.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = bound_command(env!("CARGO_BIN_EXE_weir"), &[]);
    command.args(arguments);
    command
}

/// `program`, not yet started. It dies with the thread that starts it, where `setpriv` of util-linux is there to see to that,
/// which gets `options` as well: a run of the tests that is killed drops nothing.
pub(crate) fn bound_command(program: &str, options: &[&str]) -> Command {
    const SETPRIV: [&str; 3] = ["setpriv", "--pdeathsig", "KILL"];
    static HAS_SETPRIV: LazyLock<bool> = LazyLock::new(|| {
        let mut trial = Command::new(SETPRIV[0]);
        let trial = trial.args(&SETPRIV[1..]).arg("true").stderr(Stdio::null()).status();
        trial.is_ok_and(|status| status.success())
    });
    if !*HAS_SETPRIV {
        return Command::new(program);
    }
    let mut command = Command::new(SETPRIV[0]);
    command.args(&SETPRIV[1..]).args(options).arg(program);
    command
}

/// What a command left behind.
#[derive(Debug)]
pub(crate) struct CommandResult {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl CommandResult {
    /// Runs `command` to its end, which has to come before the watchdog bites.
    pub(crate) fn new(command: &mut Command) -> CommandResult {
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let child = child.expect("the program was built with this test");
        let pid = Pid::from_child(&child);
        let (sender, ended) = mpsc::channel();
        thread::spawn(move || sender.send(child.wait_with_output()));
        let Ok(output) = ended.recv_timeout(WATCHDOG) else {
            // It may just have ended.
            let _ = kill_process(pid, Signal::KILL);
            panic!("{command:?} still runs after {WATCHDOG:?}");
        };
        let Output { status, stdout, stderr } = output.expect("pipes can be read");
        let text = |bytes| String::from_utf8(bytes).expect("the program writes UTF-8");
        CommandResult { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
    }

    /// Both streams, for tests that do not care which of them has it.
    pub(crate) fn text(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }
}

/// Runs the program with `arguments` to its end.
pub(crate) fn run(arguments: &[&str]) -> CommandResult {
    CommandResult::new(&mut command(arguments))
}

/// Waits for a child under the watchdog; `None` when it outlives it.
pub(crate) fn wait_for_exit(child: &mut Child) -> Option<ExitStatus> {
    let start = now();
    while start.elapsed() < WATCHDOG {
        if let Some(status) = child.try_wait().expect("a child can be asked") {
            return Some(status);
        }
        pause();
    }
    None
}

/// A folder of the test's own, which goes when this is dropped.
pub(crate) fn temporary_folder() -> TempDir {
    TempDir::new().expect("the system has a folder for temporary files")
}

/// A config in a folder of its own.
pub(crate) struct WrittenConfig {
    _folder: TempDir,
    path: PathBuf,
}

impl WrittenConfig {
    /// Writes `text` to a `weir.toml`.
    pub(crate) fn new(text: &str) -> WrittenConfig {
        let folder = temporary_folder();
        let path = folder.path().join("weir.toml");
        std::fs::write(&path, text).expect("the test owns the folder");
        WrittenConfig { _folder: folder, path }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &str {
        self.path.to_str().expect("temporary paths are UTF-8")
    }
}
