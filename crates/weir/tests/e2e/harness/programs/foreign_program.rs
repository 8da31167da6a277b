//! Programs that others wrote, as tests start them: servers behind Weir, proxies beside it, their clients.
//!
//! Each has a folder of its own and dies with the test. Where root runs the tests, programs that refuse root run under an account without rights.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};

use rustix::process::{Pid, Signal, geteuid, kill_process, kill_process_group};
use tempfile::TempDir;

use crate::harness::program::{CommandResult, bound_command, temporary_folder, wait_for_exit};
use crate::harness::watchdog::eventually;

/// The account of programs that refuse root: that of Debian without rights.
const UNPRIVILEGED: u32 = 65534;

/// A program in a folder of its own; dropping it ends the process and those that it has started.
pub(crate) struct ForeignProgram {
    name: String,
    process: Child,
    folder: TempDir,
    stop: Signal,
}

impl ForeignProgram {
    /// Starts `command` with `folder` as its working directory, and waits until `is_ready`.
    pub(crate) fn start(
        mut command: Command,
        folder: TempDir,
        mut is_ready: impl FnMut(&Path) -> bool,
    ) -> ForeignProgram {
        let name = name_of(&command);
        let mut log = std::fs::OpenOptions::new();
        let log = log.create(true).append(true).open(folder.path().join("output"));
        let log = log.expect("the folder takes a file");
        let process = command
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("the process may open one more file"))
            .stderr(log)
            .process_group(0)
            .spawn()
            .unwrap_or_else(|error| panic!("cannot run {name} ({error}): cargo xtask setup"));
        let mut program = ForeignProgram { name, process, folder, stop: Signal::KILL };
        let what = format!("{} is ready", program.name);
        eventually(&what, || {
            let ended = program.process.try_wait().expect("a child can be asked");
            assert!(
                ended.is_none(),
                "{} ended, {ended:?} (not installed? cargo xtask setup):\n{}",
                program.name,
                program.output()
            );
            is_ready(program.folder.path())
        });
        program
    }

    /// Starts `name` on the config `text` and waits until it listens at `address`; in `text` and `arguments`, `{dir}` stands for its
    /// folder and `{address}` for the address.
    fn proxy(name: &str, arguments: &[&str], text: &str, address: SocketAddr) -> ForeignProgram {
        let folder = temporary_folder();
        let path = folder.path().to_str().expect("temporary paths are UTF-8").to_owned();
        let filled = |text: &str| text.replace("{dir}", &path).replace("{address}", &address.to_string());
        std::fs::write(folder.path().join("config"), filled(text)).expect("the folder takes a file");
        let mut command = foreign_command(name);
        command.args(arguments.iter().map(|argument| filled(argument)));
        ForeignProgram::start(command, folder, |_| TcpStream::connect(address).is_ok())
    }

    /// HAProxy on a config of these lines.
    pub(crate) fn haproxy(text: &str, address: SocketAddr) -> ForeignProgram {
        ForeignProgram::proxy("haproxy", &["-db", "-f", "{dir}/config"], text, address)
    }

    /// nginx in one process, on a config that begins with `modules`; `text` is what comes after `events`.
    pub(crate) fn nginx(modules: &str, text: &str, address: SocketAddr) -> ForeignProgram {
        // Of the account that runs the tests, whose folders no other may read.
        let user = if geteuid().is_root() { "user root;\n" } else { "" };
        let text = format!(
            "{modules}{user}daemon off;\nmaster_process off;\npid {{dir}}/pid;\nerror_log {{dir}}/output;\nevents {{}}\n{text}"
        );
        ForeignProgram::proxy(
            "nginx",
            &["-p", "{dir}", "-c", "{dir}/config", "-e", "{dir}/output"],
            &text,
            address,
        )
    }

    /// Ends by `signal` and not by SIGKILL, for a program that leaves something behind otherwise.
    pub(crate) fn stopped_by(mut self, signal: Signal) -> ForeignProgram {
        self.stop = signal;
        self
    }

    /// Everything that it wrote so far.
    pub(crate) fn output(&self) -> String {
        let output = std::fs::read(self.folder.path().join("output")).unwrap_or_default();
        String::from_utf8_lossy(&output).into_owned()
    }

    /// Sends a signal to its first process.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).expect("the process runs");
    }
}

impl Drop for ForeignProgram {
    fn drop(&mut self) {
        // It may have ended already, or may just be stopped; then there is nothing to signal.
        let pid = Pid::from_child(&self.process);
        let _ = kill_process(pid, self.stop);
        let _ = kill_process(pid, Signal::CONT);
        if self.stop != Signal::KILL {
            wait_for_exit(&mut self.process);
        }
        let _ = kill_process_group(pid, Signal::KILL);
        let _ = self.process.wait();
        if std::thread::panicking() {
            eprintln!("output of {}:\n{}", self.name, self.output());
        }
    }
}

/// The program itself, past the one that binds it to the test.
fn name_of(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let mut words = words.map(|word| word.to_string_lossy().into_owned());
    let is_wrapping = |word: &String| word == "setpriv" || word == "KILL" || word.starts_with("--");
    words.find(|word| !is_wrapping(word)).unwrap_or_default()
}

/// `program`, not yet started, from where daemons are as well.
pub(crate) fn foreign_command(program: &str) -> Command {
    with_daemons(bound_command(program, &[]))
}

/// The same for a program that refuses to be started by root.
pub(crate) fn unprivileged_command(program: &str) -> Command {
    let (user, group) = (format!("--reuid={UNPRIVILEGED}"), format!("--regid={UNPRIVILEGED}"));
    let options: &[&str] = if geteuid().is_root() { &[&user, &group, "--clear-groups"] } else { &[] };
    with_daemons(bound_command(program, options))
}

fn with_daemons(mut command: Command) -> Command {
    command.env("PATH", format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default()));
    command
}

/// A temporary folder that belongs to the account of [`unprivileged_command`].
pub(crate) fn unprivileged_folder() -> TempDir {
    let folder = temporary_folder();
    give_to_unprivileged(folder.path());
    folder
}

/// Hands a file or folder over to the account of [`unprivileged_command`].
pub(crate) fn give_to_unprivileged(path: &Path) {
    if geteuid().is_root() {
        std::os::unix::fs::chown(path, Some(UNPRIVILEGED), Some(UNPRIVILEGED)).expect("root may do that");
    }
}

/// Runs a command to its end; its output, once it has succeeded.
pub(crate) fn output_of(mut command: Command) -> String {
    let result = CommandResult::new(&mut command);
    assert_eq!(result.code, Some(0), "{command:?} (not installed? cargo xtask setup):\n{}", result.text());
    result.stdout
}

/// Folders for what nginx writes, within `http`.
pub(crate) fn nginx_folders() -> String {
    ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {{dir}}/{kind};\n"))
        .concat()
}

/// A free port for a program that cannot choose one itself, on a loopback address that nothing but this test uses.
pub(crate) fn free_address() -> SocketAddr {
    static USED: AtomicU8 = AtomicU8::new(1);
    let [.., high, low] = std::process::id().to_be_bytes();
    let ip = Ipv4Addr::new(127, USED.fetch_add(1, Ordering::Relaxed), high, low.clamp(1, 254));
    let listener = TcpListener::bind(SocketAddr::new(IpAddr::V4(ip), 0)).expect("loopback has a free port");
    listener.local_addr().expect("a bound socket has an address")
}
