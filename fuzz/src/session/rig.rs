//! Starts Weir once per thread, between a socket for clients and a server given by the target.
//!
//! The sockets have no file any more once everything runs, so that a crash leaves nothing behind.

use std::os::fd::IntoRawFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use tokio::net::UnixListener;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::LocalSet;
use weir_config::Config;
use weir_control::Proxy;

/// One input that takes longer hangs. Less than the 10 s after which libFuzzer itself ends a run, with less to say; a test shares its processor
/// with others.
const WATCHDOG: Duration = Duration::from_secs(if cfg!(fuzzing) { 8 } else { 60 });

/// More open sessions than this, with one client at a time, are leaked ones.
const SESSIONS_MAX: u64 = 16;

/// The name is in `Via`, fixed so that an input repeats. Clients here send all they have and half-close, which does
/// not mean that they gave up. Bytes of a target that `hyper` refuses are refused too: behind such a request the two readings have nothing
/// in common. What Weir makes of them is for the target `request_head`.
const CONFIG: &str = r#"
process.workers = 1
process.name = "weir"
listener.web.address = "unix:{web}"
listener.web.upstream = "app"
listener.web.abort_on_close = false
listener.web.lenient.unencoded_target = false
upstream.app.servers = ["unix:{app}"]
"#;

/// A running Weir and the thread-local tasks of the server behind it.
pub(crate) struct Rig {
    runtime: Runtime,
    tasks: LocalSet,
    proxy: Proxy,
    web: PathBuf,
}

impl Rig {
    /// Starts Weir; `serve` makes the task that accepts what it opens towards its server.
    ///
    /// # Panics
    /// When the system refuses sockets or threads.
    pub(crate) fn start<F: Future<Output = ()> + 'static>(serve: impl FnOnce(UnixListener) -> F) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().expect("an event loop can be made");
        let tasks = LocalSet::new();
        let folder = tempfile::tempdir().expect("the system has a folder for temporary files");
        let (web, app) = (folder.path().join("web"), folder.path().join("app"));
        {
            let _runtime = runtime.enter();
            // libFuzzer starts before the part of the standard library that makes a write to a closed socket an error
            // and not the end of the process. The handler stays when this is dropped.
            drop(signal(SignalKind::pipe()).expect("signals can be handled"));
            let listener = UnixListener::bind(&app).expect("a fresh folder takes a socket");
            tasks.spawn_local(serve(listener));
        }
        let config = CONFIG.replace("{web}", &text(&web)).replace("{app}", &text(&outlive_file(&app)));
        let config = Config::parse(&config, "weir.toml").expect("the config is sound");
        let proxy = Proxy::start(&config).expect("a fresh folder takes a socket");
        Self { runtime, tasks, proxy, web: outlive_file(&web) }
    }

    /// Where clients connect.
    pub(crate) fn web(&self) -> &Path {
        &self.web
    }

    /// Runs what a client does, together with the server.
    ///
    /// # Panics
    /// When it takes too long: the client or the server waits for bytes that never come.
    pub(crate) fn run<T>(&self, work: impl Future<Output = T>) -> T {
        let watched = async { tokio::time::timeout(WATCHDOG, work).await };
        let done = self.tasks.block_on(&self.runtime, watched);
        done.unwrap_or_else(|_| panic!("a session hangs; {} are open", self.proxy.connections_open()))
    }

    /// Fails when sessions have not ended although their clients have.
    pub(crate) fn assert_no_leak(&self) {
        let open = self.proxy.connections_open();
        assert!(open <= SESSIONS_MAX, "{open} sessions are open");
    }
}

/// Another path to the socket at `path`, good for as long as this process lives, even without the file.
fn outlive_file(path: &Path) -> PathBuf {
    let file = rustix::fs::open(path, OFlags::PATH, Mode::empty()).expect("the socket was just bound");
    PathBuf::from(format!("/proc/self/fd/{}", file.into_raw_fd()))
}

fn text(path: &Path) -> String {
    path.to_str().expect("temporary paths are UTF-8").to_owned()
}
