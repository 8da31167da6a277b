//! PHP-FPM with a pool of its own, on a Unix socket or a TCP port; and any other program that a site needs.

use std::fs;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::harness::eventually;

/// A program in the background; dropping it kills it.
pub(crate) struct Background {
    process: Child,
    log: PathBuf,
}

impl Background {
    /// Starts `command`, which writes to `log`, and waits until it is `ready`.
    pub(crate) fn start(command: &mut Command, log: &Path, mut ready: impl FnMut() -> bool) -> Background {
        let output = fs::File::create(log).expect("the folder takes a file");
        let process = command
            .env("PATH", format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default()))
            .stdin(Stdio::null())
            .stdout(output.try_clone().expect("the process may open one more file"))
            .stderr(output)
            .spawn()
            .unwrap_or_else(|error| panic!("cannot run {command:?} ({error}): cargo xtask setup"));
        let mut program = Background { process, log: log.to_owned() };
        eventually(&format!("{command:?} is ready"), || {
            let ended = program.process.try_wait().expect("a child can be asked");
            assert!(ended.is_none(), "{command:?} ended, {ended:?}:\n{}", program.output());
            ready()
        });
        program
    }

    /// What it has written.
    pub(crate) fn output(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to end. Children of PHP-FPM end with it only when it is asked.
        if let Some(pid) = rustix::process::Pid::from_raw(self.process.id() as i32) {
            let _gone = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let _ended = crate::harness::program::wait_for_exit(&mut self.process);
        let _ended = self.process.kill();
        if std::thread::panicking() {
            eprintln!("output of the program:\n{}", self.output());
        }
    }
}

/// Whether this is the user that has to say which other one a program runs as.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A pool of PHP-FPM.
pub(crate) struct Php {
    /// As an entry of a list of servers.
    pub(crate) entry: String,
    _process: Background,
}

impl Php {
    /// Starts one with `processes` on a Unix socket in `folder`.
    pub(crate) fn start(folder: &Path, processes: usize) -> Php {
        let socket = folder.join("fpm.sock");
        let listen = socket.to_str().expect("temporary paths are UTF-8").to_owned();
        let process = start(folder, &listen, processes, || UnixStream::connect(&socket).is_ok());
        Php { entry: format!("\"unix:{listen}\""), _process: process }
    }

    /// The same on a TCP port.
    pub(crate) fn start_tcp(folder: &Path, processes: usize) -> Php {
        let port = crate::harness::ReservedAddress::new();
        let address = port.address();
        drop(port);
        let process = start(folder, &address.to_string(), processes, || TcpStream::connect(address).is_ok());
        Php { entry: format!("\"{address}\""), _process: process }
    }
}

fn start(folder: &Path, listen: &str, processes: usize, ready: impl FnMut() -> bool) -> Background {
    let user = if is_root() { "user = root\ngroup = root\n" } else { "" };
    let path = folder.to_str().expect("temporary paths are UTF-8");
    let text = format!(
        "[global]\nerror_log = {path}/fpm.log\ndaemonize = no\n[www]\n{user}listen = {listen}\npm = static\n\
         pm.max_children = {processes}\nping.path = /ping\nclear_env = yes\nphp_admin_value[upload_max_filesize] = 32M\n\
         php_admin_value[post_max_size] = 32M\nphp_admin_value[sendmail_path] = /bin/true\n"
    );
    let config = folder.join("fpm.conf");
    fs::write(&config, text).expect("the folder takes a file");
    let mut command = Command::new(program());
    command.arg("--nodaemonize").arg("--fpm-config").arg(&config);
    if is_root() {
        command.arg("--allow-to-run-as-root");
    }
    Background::start(&mut command, &folder.join("fpm.out"), ready)
}

/// PHP-FPM, which has its version in its name.
fn program() -> PathBuf {
    let found = fs::read_dir("/usr/sbin").into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = found
        .map(|entry| entry.path())
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("php-fpm")))
        .collect();
    found.sort();
    found.pop().expect("PHP-FPM is not there: cargo xtask setup")
}
