//! A Weir process: started on a config text, its stderr is read, and it always ends with the test.
//!
//! `Weir::start` returns when the process has said `ready`; every address it bound is known by the listener's name.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, prlimit};
use tempfile::TempDir;

use super::config::minimal;
use super::metrics::Metrics;
use super::origin::Origin;
use super::program::{command, temporary_folder, wait_for_exit};
use super::stream::Address;
use super::watchdog::{WATCHDOG, eventually, now};

/// A running Weir; dropping it kills the process.
pub(crate) struct Weir {
    process: Child,
    addresses: HashMap<String, Vec<Address>>,
    stderr: Arc<Mutex<String>>,
    /// Reads stderr to its end.
    following: Option<JoinHandle<()>>,
    folder: TempDir,
    /// Processes that have replaced it, one after the other.
    successors: Vec<Pid>,
    /// Whether requests may order faults, so that a panic is none of its own.
    is_faulty: bool,
    /// Whether the test itself has killed it.
    is_killed: bool,
}

impl Weir {
    /// Starts `weir serve` on the config `text`; in it `{dir}` stands for a folder of this process alone.
    pub(crate) fn start(text: &str) -> Weir {
        Weir::start_in(temporary_folder(), text)
    }

    /// Starts `weir serve` on the config `text`, with `folder` as the place for its files.
    pub(crate) fn start_in(folder: TempDir, text: &str) -> Weir {
        Weir::start_in_environment(folder, text, &[])
    }

    /// Like [`Weir::start_in`], with more environment variables.
    pub(crate) fn start_in_environment(folder: TempDir, text: &str, variables: &[(&str, &str)]) -> Weir {
        let file = folder.path().join("weir.toml");
        let text = text.replace("{dir}", folder.path().to_str().expect("temporary paths are UTF-8"));
        std::fs::write(&file, &text).expect("the test's own folder takes a file");
        let file = file.to_str().expect("temporary paths are UTF-8").to_owned();
        Weir::spawn(folder, command(&["serve", &file]).envs(variables.iter().copied()), &text)
    }

    /// Like [`Weir::start`]; requests order faults by the field `weir-fault`.
    #[cfg(debug_assertions)]
    pub(crate) fn start_faulty(text: &str) -> Weir {
        let mut weir = Weir::start_in_environment(temporary_folder(), text, &[("WEIR_FAULTS", "1")]);
        weir.is_faulty = true;
        weir
    }

    /// Like [`Weir::start`], with a limit on open files.
    pub(crate) fn start_limited(open_files_max: u32, text: &str) -> Weir {
        let folder = temporary_folder();
        let file = folder.path().join("weir.toml");
        std::fs::write(&file, text).expect("the test's own folder takes a file");
        let inner = command(&["serve", file.to_str().expect("temporary paths are UTF-8")]);
        let mut limited = Command::new("sh");
        limited.arg("-c").arg(format!("ulimit -n {open_files_max} && exec \"$@\"")).arg("sh");
        limited.arg(inner.get_program()).args(inner.get_args());
        Weir::spawn(folder, &mut limited, text)
    }

    /// Starts the program with `arguments`; `shown` is printed when it does not come up.
    pub(crate) fn start_with(folder: TempDir, arguments: &[&str], shown: &str) -> Weir {
        Weir::start_with_environment(folder, arguments, shown, &[])
    }

    /// Like [`Weir::start_with`], with more environment variables.
    pub(crate) fn start_with_environment(
        folder: TempDir,
        arguments: &[&str],
        shown: &str,
        variables: &[(&str, &str)],
    ) -> Weir {
        let mut weir = Weir::spawn(folder, command(arguments).envs(variables.iter().copied()), shown);
        weir.is_faulty = variables.iter().any(|(name, _)| *name == "WEIR_FAULTS");
        weir
    }

    /// Like [`Weir::start`], with `socket` from the supervisor, as systemd hands sockets over; it is called `name` there.
    pub(crate) fn start_inheriting(socket: OwnedFd, name: &str, text: &str) -> Weir {
        const HAND_OVER: &str = "exec 3<&0 0</dev/null && LISTEN_PID=$$ LISTEN_FDS=1 exec \"$@\"";
        let folder = temporary_folder();
        let file = folder.path().join("weir.toml");
        std::fs::write(&file, text).expect("the test's own folder takes a file");
        let inner = command(&["serve", file.to_str().expect("temporary paths are UTF-8")]);
        let mut handing = Command::new("sh");
        handing.arg("-c").arg(HAND_OVER).arg("sh").arg(inner.get_program()).args(inner.get_args());
        handing.env("LISTEN_FDNAMES", name);
        Weir::spawn_with(folder, &mut handing, Stdio::from(socket), text)
    }

    fn spawn(folder: TempDir, command: &mut Command, shown: &str) -> Weir {
        Weir::spawn_with(folder, command, Stdio::null(), shown)
    }

    fn spawn_with(folder: TempDir, command: &mut Command, stdin: Stdio, shown: &str) -> Weir {
        let mut process = command
            .current_dir(folder.path())
            .stdin(stdin)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program was built with this test");
        let stderr = Arc::new(Mutex::new(String::new()));
        let (lines, following) = follow(&mut process, Arc::clone(&stderr));
        let following = Some(following);
        let mut weir = Weir {
            process,
            addresses: HashMap::new(),
            stderr,
            following,
            folder,
            successors: Vec::new(),
            is_faulty: false,
            is_killed: false,
        };
        weir.wait_until_ready(&lines, shown);
        weir
    }

    /// Starts with one listener `web` whose only upstream is `origin`, everything else at its default.
    pub(crate) fn proxying(origin: &Origin) -> Weir {
        Weir::proxying_with(origin, "")
    }

    /// Like [`Weir::proxying`], with more settings in the form of dotted keys, one a line.
    pub(crate) fn proxying_with(origin: &Origin, settings: &str) -> Weir {
        Weir::start(&format!("{}{settings}\n", minimal(origin)))
    }

    /// Starts with one slot on `origin` and a route for each priority: targets below `/high` and `/low`, and the rest.
    /// `process` holds more keys of the top, in the form of dotted keys, `upstream` more of the upstream.
    pub(crate) fn with_one_slot(origin: &Origin, process: &str, upstream: &str) -> Weir {
        Weir::start(&format!(
            r#"
            {process}
            admin.address = "127.0.0.1:0"
            [listener.web]
            address = "127.0.0.1:0"
            upstream = "app"
            [[listener.web.route]]
            path = "/high"
            upstream = "app"
            queue_priority = "high"
            [[listener.web.route]]
            path = "/low"
            upstream = "app"
            queue_priority = "low"
            [upstream.app]
            servers = [{{ address = "{}", max_requests = 1 }}]
            {upstream}
            "#,
            origin.address()
        ))
    }

    /// The address of the listener `web`.
    pub(crate) fn web(&self) -> SocketAddr {
        self.address("web")
    }

    /// The TCP address of the listener `name`.
    pub(crate) fn address(&self, name: &str) -> SocketAddr {
        match self.listening(name) {
            Address::Tcp(address) => *address,
            Address::Unix(path) => panic!("listener {name} listens on {path:?}"),
        }
    }

    /// The one address that is not the admin listener's, whatever its listener is called.
    pub(crate) fn only_address(&self) -> Address {
        let mut all = self.addresses.iter().filter(|(name, _)| *name != "admin").flat_map(|(_, list)| list);
        match (all.next(), all.next()) {
            (Some(address), None) => address.clone(),
            _ => panic!("one address wanted: {:?}", self.addresses),
        }
    }

    /// The first address of the listener `name`.
    pub(crate) fn listening(&self, name: &str) -> &Address {
        &self.all(name)[0]
    }

    /// All addresses of the listener `name`.
    pub(crate) fn all(&self, name: &str) -> &[Address] {
        self.addresses.get(name).unwrap_or_else(|| panic!("no listener {name} among {:?}", self.addresses))
    }

    /// The folder of this process.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A scrape of the metrics; the config has to have `admin.address`.
    pub(crate) fn metrics(&self) -> Metrics {
        Metrics::scrape(self.address("admin"))
    }

    /// Everything it wrote to stderr so far.
    pub(crate) fn stderr(&self) -> String {
        self.stderr.lock().expect("no thread panics while it holds the text").clone()
    }

    /// The line of the log that holds all of `parts`, once there is one.
    pub(crate) fn line(&self, parts: &[&str]) -> String {
        let mut found = None;
        eventually(&format!("the log has a line with {parts:?}"), || {
            let log = self.stderr();
            found = log.lines().find(|line| parts.iter().all(|part| line.contains(part))).map(str::to_owned);
            found.is_some()
        });
        found.expect("it was just found")
    }

    /// Puts `text` in the place of the config, as [`Weir::start`] takes it.
    pub(crate) fn write_config(&self, text: &str) {
        let text = text.replace("{dir}", self.folder().to_str().expect("temporary paths are UTF-8"));
        // Renamed into its place: a concurrent reader sees either the old one or the new one.
        let new = self.folder().join("weir.toml.new");
        std::fs::write(&new, text).expect("the test's own folder takes a file");
        std::fs::rename(&new, self.folder().join("weir.toml")).expect("it was just written");
    }

    /// Puts `text` in the place of the config and has it reloaded; waits until that is done.
    pub(crate) fn reload(&self, text: &str) {
        self.write_config(text);
        self.hang_up("the config was reloaded");
    }

    /// The same with a config that is refused.
    pub(crate) fn reload_in_vain(&self, text: &str) {
        self.write_config(text);
        self.hang_up("the config was not reloaded");
    }

    /// Sends SIGHUP and waits until the log has one more line with `outcome`.
    pub(crate) fn hang_up(&self, outcome: &str) {
        let lines = || self.stderr().lines().filter(|line| line.contains(outcome)).count();
        let before = lines();
        self.signal(Signal::HUP);
        eventually(&format!("the log says once more: {outcome}"), || lines() > before);
    }

    /// The address of a listener that came with a reload.
    pub(crate) fn new_address(&self, listener: &str) -> SocketAddr {
        let line = self.line(&[&format!("listening listener={listener} address=")]);
        let address = line.rsplit('=').next().and_then(|address| address.parse().ok());
        address.unwrap_or_else(|| panic!("no TCP address: {line}"))
    }

    /// Has another process replace it, by SIGUSR2; waits until that one serves.
    pub(crate) fn upgrade(&mut self) {
        let upgraded = "another process serves now";
        let lines = || -> Vec<String> {
            self.stderr().lines().filter(|line| line.contains(upgraded)).map(str::to_owned).collect()
        };
        let before = lines().len();
        kill_process(self.serving_pid(), Signal::USR2).expect("the process runs");
        eventually("another process serves", || lines().len() > before);
        self.note_successor(&lines()[before]);
    }

    /// Takes note of the process that has replaced it, by the line of the log.
    pub(crate) fn note_successor(&mut self, line: &str) {
        let process = line.split_once("process=").expect("the line has the number of the process").1;
        let digits: String = process.chars().take_while(char::is_ascii_digit).collect();
        let pid = digits.parse().ok().and_then(Pid::from_raw);
        self.successors.push(pid.expect("a process has a positive number"));
    }

    /// The process that accepts connections: the first one, or the last that has replaced another.
    pub(crate) fn serving_pid(&self) -> Pid {
        self.successors.last().copied().unwrap_or_else(|| self.pid())
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("the process runs");
    }

    /// Stops the process as SIGSTOP does, and waits until each of its threads stands still: the signal alone takes its time on a busy machine.
    pub(crate) fn pause(&self) {
        self.signal(Signal::STOP);
        let tasks = format!("/proc/{}/task", self.pid());
        let stands_still = |task: std::fs::DirEntry| {
            let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('T'))
        };
        eventually("every thread stands still", || {
            std::fs::read_dir(&tasks).expect("the process is there").flatten().all(stands_still)
        });
    }

    /// Kills the process, and waits for its end.
    pub(crate) fn kill(&mut self) {
        self.is_killed = true;
        self.signal(Signal::KILL);
        self.wait_for_exit_of_the_first();
    }

    /// Waits until the process ends, and returns how; all that it wrote to stderr has been read then.
    pub(crate) fn wait_for_exit(&mut self) -> ExitStatus {
        let status = wait_for_exit(&mut self.process)
            .unwrap_or_else(|| panic!("Weir still runs after {WATCHDOG:?}; stderr:\n{}", self.stderr()));
        self.read_to_the_end();
        status
    }

    /// Waits until the first process ends, which another one has replaced.
    pub(crate) fn wait_for_exit_of_the_first(&mut self) -> ExitStatus {
        wait_for_exit(&mut self.process)
            .unwrap_or_else(|| panic!("Weir still runs after {WATCHDOG:?}; stderr:\n{}", self.stderr()))
    }

    /// Whether the process still runs.
    pub(crate) fn runs(&mut self) -> bool {
        self.process.try_wait().expect("a child can be asked").is_none()
    }

    /// Time that it has spent on processors.
    pub(crate) fn cpu_time(&self) -> Duration {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid())).expect("the process is there");
        let spent = |task: std::fs::DirEntry| -> Option<u64> {
            std::fs::read_to_string(task.path().join("schedstat")).ok()?.split(' ').next()?.parse().ok()
        };
        Duration::from_nanos(tasks.flatten().filter_map(spent).sum())
    }

    /// How many files below `folder` it has open.
    pub(crate) fn open_files_below(&self, folder: &Path) -> usize {
        let open = std::fs::read_dir(format!("/proc/{}/fd", self.pid())).expect("the process is there");
        let paths = open.flatten().filter_map(|fd| std::fs::read_link(fd.path()).ok());
        paths.filter(|path| path.starts_with(folder)).count()
    }

    /// Resident memory now, in bytes.
    pub(crate) fn resident_bytes(&self) -> u64 {
        self.status_bytes("VmRSS:")
    }

    /// The same without pages of files, such as those of the program, which the system takes in and gives up as it likes.
    pub(crate) fn anonymous_bytes(&self) -> u64 {
        self.status_bytes("RssAnon:")
    }

    /// The most resident memory that it ever had, in bytes.
    pub(crate) fn resident_peak_bytes(&self) -> u64 {
        self.status_bytes("VmHWM:")
    }

    fn status_bytes(&self, key: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id()))
            .expect("the process runs and /proc is mounted");
        let line = status.lines().find(|line| line.starts_with(key)).expect("every process has it");
        let kib = line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok());
        kib.expect("it is a number of KiB") * 1024
    }

    /// Waits for the last output of a process that has ended.
    fn read_to_the_end(&mut self) {
        if let Some(following) = self.following.take() {
            following.join().expect("reading ends with the process");
        }
    }

    /// Changes how many files it may open; gives how many it was before.
    pub(crate) fn limit_open_files(&self, open_files_max: u64) -> u64 {
        // The hard limit is that of the process that has started it.
        let maximum = getrlimit(Resource::Nofile).maximum;
        let limit = Rlimit { current: Some(open_files_max), maximum };
        let mut before =
            prlimit(Some(self.pid()), Resource::Nofile, limit).expect("a child's limits can be changed");
        before.current.take().expect("it is limited")
    }

    /// The id of the process.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }

    fn wait_until_ready(&mut self, lines: &mpsc::Receiver<String>, shown: &str) {
        let start = now();
        loop {
            let left = WATCHDOG.saturating_sub(start.elapsed());
            match lines.recv_timeout(left) {
                Ok(line) if line.trim() == "ready" => return,
                Ok(line) => self.note_address(&line),
                Err(_) => panic!("Weir did not get ready; stderr:\n{}\nconfig:\n{shown}", self.stderr()),
            }
        }
    }

    fn note_address(&mut self, line: &str) {
        let Some(rest) = line.strip_prefix("listening listener=") else { return };
        let (name, address) = rest.split_once(" address=").expect("a listening line names its address");
        let address = match address.trim().parse() {
            Ok(tcp) => Address::Tcp(tcp),
            Err(_) => Address::Unix(PathBuf::from(address.trim().trim_start_matches("unix:"))),
        };
        self.addresses.entry(name.to_owned()).or_default().push(address);
    }
}

impl Drop for Weir {
    fn drop(&mut self) {
        let crashed = self.process.try_wait().ok().flatten().and_then(|status| status.signal());
        // It may have ended already; then there is nothing to kill.
        let _ = self.process.kill();
        let _ = self.process.wait();
        for successor in &self.successors {
            let _ = kill_process(*successor, Signal::KILL);
        }
        self.read_to_the_end();
        if thread::panicking() {
            eprintln!("stderr of Weir:\n{}", self.stderr());
            return;
        }
        assert!(
            self.is_killed || crashed.is_none_or(|signal| signal == 15),
            "Weir died of signal {crashed:?}:\n{}",
            self.stderr()
        );
        let stderr = self.stderr();
        let has_panicked = stderr.contains("panicked at") || stderr.contains("panic: a defect of Weir");
        assert!(self.is_faulty || !has_panicked, "Weir panicked:\n{stderr}");
        assert!(
            !stderr.contains("a system call was denied"),
            "a system call is missing in the list of `process.sandbox`:\n{stderr}"
        );
    }
}

fn follow(process: &mut Child, text: Arc<Mutex<String>>) -> (mpsc::Receiver<String>, JoinHandle<()>) {
    let (sender, lines) = mpsc::channel();
    let stderr = BufReader::new(process.stderr.take().expect("stderr is piped"));
    let following = thread::spawn(move || {
        for line in stderr.lines().map_while(Result::ok) {
            let mut text = text.lock().expect("no thread panics while it holds the text");
            text.push_str(&line);
            text.push('\n');
            drop(text);
            // There is no receiver any more once Weir is ready; the text goes on growing.
            let _ = sender.send(line);
        }
    });
    (lines, following)
}
