//! Running other programs: echoed, without standard input, and never for longer than a limit.
//!
//! A program that overruns its limit is killed with everything it started, so that a test that hangs costs one step
//! and not the whole run. Nothing here interprets what a program prints.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{ChildStdout, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::workspace::Workspace;

/// Long enough for a release build on two busy cores; a hang still leaves CI time for the other steps.
const LIMIT_DEFAULT: Duration = Duration::from_secs(40 * 60);

/// The variable with the folders of programs.
const PATH: &str = "PATH";

/// One program to run to its end.
pub(crate) struct ProgramRun {
    command: Command,
    limit: Duration,
}

impl ProgramRun {
    /// A program that starts in the root of the workspace.
    pub(crate) fn new(workspace: &Workspace, program: impl AsRef<OsStr>) -> Self {
        Self::in_folder(workspace.root(), program)
    }

    /// The cargo that runs this command.
    pub(crate) fn cargo(workspace: &Workspace) -> Self {
        Self::new(workspace, env_cargo())
    }

    /// That cargo itself, for another folder.
    pub(crate) fn cargo_program() -> std::ffi::OsString {
        env_cargo()
    }

    /// A program that starts in this folder.
    pub(crate) fn in_folder(folder: &Path, program: impl AsRef<OsStr>) -> Self {
        let mut command = Command::new(program);
        command.current_dir(folder).stdin(Stdio::null());
        Self { command, limit: LIMIT_DEFAULT }
    }

    /// It starts in this folder.
    pub(crate) fn folder(mut self, folder: &Path) -> Self {
        self.command.current_dir(folder);
        self
    }

    pub(crate) fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.command.arg(arg);
        self
    }

    pub(crate) fn args(mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.command.args(args);
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// It also finds the programs that `setup` has installed, after those of the machine.
    pub(crate) fn finds_tools(self, workspace: &Workspace) -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::env::split_paths(&path).chain([workspace.tools().join("bin")]);
        match std::env::join_paths(folders) {
            Ok(path) => self.env(PATH, path),
            // A folder whose name cannot be in a PATH.
            Err(_) => self,
        }
    }

    /// Kill it after `limit`.
    pub(crate) fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Runs it with the output of this process. Any exit status but 0 is an error.
    pub(crate) fn run(self) -> anyhow::Result<()> {
        println!("$ {}", self.describe());
        self.finish().map(drop)
    }

    /// Runs it and returns what it wrote to standard output. Any exit status but 0 is an error.
    pub(crate) fn read(mut self) -> anyhow::Result<String> {
        self.command.stdout(Stdio::piped());
        let described = self.describe();
        let output = self.finish()?;
        String::from_utf8(output.stdout)
            .with_context(|| format!("`{described}` printed something that is not UTF-8"))
    }

    /// Runs it as [`ProgramRun::run`] does, and keeps what it writes to standard output beside showing it. How it ended is for the
    /// caller to judge.
    pub(crate) fn run_and_keep(mut self) -> anyhow::Result<(ExitStatus, String)> {
        println!("$ {}", self.describe());
        self.command.stdout(Stdio::piped());
        let described = self.describe();
        let mut child = self.command.spawn().with_context(|| format!("cannot start `{described}`"))?;
        let output = EchoedOutput::of(child.stdout.take().expect("it is piped"));
        let id = child.id();
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || sender.send(child.wait()));
        let Ok(ended) = receiver.recv_timeout(self.limit) else {
            kill_tree(id);
            bail!("`{described}` had not ended after {} s and was killed", self.limit.as_secs());
        };
        Ok((ended.with_context(|| format!("cannot wait for `{described}`"))?, output.take()))
    }

    fn finish(mut self) -> anyhow::Result<Output> {
        let described = self.describe();
        let child = self.command.spawn().with_context(|| format!("cannot start `{described}`"))?;
        let id = child.id();
        let (sender, receiver) = mpsc::channel();
        let waiter = thread::spawn(move || sender.send(child.wait_with_output()));
        let Ok(ended) = receiver.recv_timeout(self.limit) else {
            kill_tree(id);
            // Dead by now; waited for so that the next step starts on a quiet machine.
            waiter.join().expect("waiting for a child does not panic").ok();
            bail!("`{described}` had not ended after {} s and was killed", self.limit.as_secs());
        };
        let output = ended.with_context(|| format!("cannot wait for `{described}`"))?;
        if !output.status.success() {
            // What was to be read has not been seen yet, and says why.
            print!("{}", String::from_utf8_lossy(&output.stdout));
            bail!("`{described}` ended with {}", output.status);
        }
        Ok(output)
    }

    /// The command as one would type it, as far as its environment goes that this program set.
    fn describe(&self) -> String {
        // The PATH would fill the screen.
        let set = self.command.get_envs().filter_map(|(name, value)| Some((name, value?)));
        let set = set.filter(|(name, _)| *name != PATH);
        let mut words: Vec<String> = set
            .map(|(name, value)| format!("{}={}", name.display(), quote(&value.to_string_lossy())))
            .collect();
        let program = Path::new(self.command.get_program());
        let is_cargo = program.file_stem().is_some_and(|stem| stem == "cargo");
        words.push(if is_cargo { "cargo".to_owned() } else { program.display().to_string() });
        words.extend(self.command.get_args().map(|arg| quote(&arg.to_string_lossy())));
        words.join(" ")
    }
}

/// What a program writes to standard output: shown at once, and kept.
struct EchoedOutput {
    kept: Arc<Mutex<Vec<u8>>>,
    ended: mpsc::Receiver<()>,
}

impl EchoedOutput {
    /// How long output is waited for once its program has ended: a process that it left behind may hold the pipe open for ever.
    const GRACE: Duration = Duration::from_secs(5);

    fn of(mut pipe: ChildStdout) -> Self {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let (sender, ended) = mpsc::channel();
        let filled = Arc::clone(&kept);
        thread::spawn(move || {
            let mut chunk = [0; 16 * 1024];
            while let Ok(count @ 1..) = pipe.read(&mut chunk) {
                let read = &chunk[..count];
                // A terminal that is gone is no reason to stop reading.
                std::io::stdout().write_all(read).ok();
                filled.lock().expect("no holder panics").extend_from_slice(read);
            }
            sender.send(()).ok();
        });
        Self { kept, ended }
    }

    fn take(self) -> String {
        self.ended.recv_timeout(Self::GRACE).ok();
        String::from_utf8_lossy(&self.kept.lock().expect("no holder panics")).into_owned()
    }
}

fn env_cargo() -> std::ffi::OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) { word.to_owned() } else { format!("'{word}'") }
}

/// Kills a process and everything that descends from it. Processes that have ended meanwhile are no error.
fn kill_tree(root: u32) {
    for id in tree_of(root, &parents()) {
        if let Some(pid) = i32::try_from(id).ok().and_then(Pid::from_raw) {
            kill_process(pid, Signal::KILL).ok();
        }
    }
}

/// Process to parent, of all that run now.
fn parents() -> BTreeMap<u32, u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return BTreeMap::new() };
    entries
        .flatten()
        .filter_map(|entry| {
            let id = entry.file_name().to_str()?.parse().ok()?;
            Some((id, parent_in_stat(&fs::read_to_string(entry.path().join("stat")).ok()?)?))
        })
        .collect()
}

/// The fourth field of `/proc/ID/stat`. The second is the program's name in brackets, which may hold anything.
fn parent_in_stat(stat: &str) -> Option<u32> {
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(1)?.parse().ok()
}

fn tree_of(root: u32, parents: &BTreeMap<u32, u32>) -> Vec<u32> {
    let mut tree = vec![root];
    let mut next = 0;
    while next < tree.len() {
        let parent = tree[next];
        tree.extend(parents.iter().filter(|(_, of)| **of == parent).map(|(id, _)| *id));
        next += 1;
    }
    tree
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};

    use super::*;

    fn shell(script: &str) -> ProgramRun {
        ProgramRun::in_folder(Path::new("/"), "sh").args(["-c", script])
    }

    #[test]
    fn output_is_returned_and_a_failure_is_an_error() {
        assert_eq!(shell("echo out; echo err >&2").read().unwrap(), "out\n");
        let error = shell("exit 3").read().unwrap_err().to_string();
        assert_eq!(error, "`sh -c 'exit 3'` ended with exit status: 3");
        let error = ProgramRun::in_folder(Path::new("/"), "no-such-program").read().unwrap_err().to_string();
        assert_eq!(error, "cannot start `no-such-program`");
    }

    #[test]
    fn output_is_kept_and_the_caller_judges_the_status() {
        let (status, output) = shell("echo out; exit 3").run_and_keep().unwrap();
        assert_eq!((status.code(), output.as_str()), (Some(3), "out\n"));
    }

    #[test]
    fn standard_input_is_empty() {
        assert_eq!(shell("cat").read().unwrap(), "");
    }

    #[test]
    fn a_process_that_hangs_is_killed() {
        let error = shell("sleep 600").limit(Duration::from_millis(1)).run().unwrap_err().to_string();
        assert_eq!(error, "`sh -c 'sleep 600'` had not ended after 0 s and was killed");
    }

    #[test]
    fn killing_reaches_what_a_process_started() {
        let mut child = Command::new("sh")
            .args(["-c", "sleep 600 & echo started; wait"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "started\n");
        kill_tree(child.id());
        assert!(!child.wait().unwrap().success());
        // Ends only when the last holder of the pipe is gone.
        assert_eq!(output.read_to_end(&mut Vec::new()).unwrap(), 0);
    }

    #[test]
    fn the_parent_is_found_behind_any_name() {
        assert_eq!(parent_in_stat("12 (a) b) (c) S 7 12 12 0"), Some(7));
        assert_eq!(parent_in_stat("12 (sh"), None);
    }

    #[test]
    fn a_tree_holds_all_generations_and_no_strangers() {
        let parents = BTreeMap::from([(2, 1), (3, 2), (4, 3), (5, 1), (6, 4)]);
        assert_eq!(tree_of(3, &parents), [3, 4, 6]);
        assert_eq!(tree_of(9, &parents), [9]);
    }

    #[test]
    fn commands_are_shown_as_typed() {
        let process = shell("a b").env("UPDATE", "1").arg("plain");
        assert_eq!(process.describe(), "UPDATE=1 sh -c 'a b' plain");
    }
}
