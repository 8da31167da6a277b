//! The processes beside Weir: one starts programs for upgrades, one tells keepalived and BIRD whether Weir serves.
//!
//! They are copies of this process, so they begin before there are threads, signals and sockets, and before the config takes memory. What
//! the config asks of them they learn later.

use std::io;

use weir_config::Config;
use weir_control::{NodeWatcher, UpgradeLauncher, WaitingWatcher};

/// Those that wait for the config.
pub(crate) struct ProcessesBeside {
    launcher: io::Result<UpgradeLauncher>,
    watcher: io::Result<WaitingWatcher>,
}

impl ProcessesBeside {
    /// Makes them. No thread may run yet.
    pub(crate) fn start() -> Self {
        Self { launcher: start_launcher(), watcher: WaitingWatcher::start() }
    }

    /// Those that the config needs; the log says why there will be no upgrades.
    ///
    /// # Errors
    /// When there is something to tell and no process that would.
    pub(crate) fn follow(
        self,
        config: &Config,
    ) -> io::Result<(Option<UpgradeLauncher>, Option<NodeWatcher>)> {
        let launcher = self.launcher.inspect_err(
            |error| tracing::warn!(%error, "upgrades are not possible: no process can be started for them"),
        );
        Ok((launcher.ok(), WaitingWatcher::begin(self.watcher, config)?))
    }
}

/// Starts the process that starts programs for this one. Without it there are no upgrades.
fn start_launcher() -> io::Result<UpgradeLauncher> {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    UpgradeLauncher::start(std::env::current_exe()?, &arguments)
}
