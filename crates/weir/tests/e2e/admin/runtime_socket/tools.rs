//! Programs that were made for HAProxy, unchanged: `hatop` in a terminal.

use std::process::Command;

use super::{config, stat};
use crate::harness::scripts::named;
use crate::harness::{BackgroundTraffic, Gate, Weir, eventually};

/// A terminal of its own with a program in it; dropping it ends both.
struct Terminal {
    socket: std::path::PathBuf,
}

impl Terminal {
    fn start(weir: &Weir, program: &str) -> Terminal {
        let terminal = Terminal { socket: weir.folder().join("tmux.sock") };
        terminal.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", "150", "-y", "40", program]);
        terminal
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let output = Command::new("tmux")
            .arg("-S")
            .arg(&self.socket)
            .args(arguments)
            .env("TERM", "xterm")
            .env("LC_ALL", "C.UTF-8")
            .output()
            .unwrap_or_else(|error| panic!("cannot run tmux ({error}): cargo xtask setup"));
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// Waits until the screen shows a line with all of these.
    fn shows(&self, parts: &[&str]) {
        let what = format!("a line with {parts:?}");
        eventually(&what, || {
            let screen = self.screen();
            screen.lines().any(|line| parts.iter().all(|part| line.contains(part)))
        });
    }

    /// The line that the mark is on, which is in reverse video; empty before there is one. Titles are so too, above it and at the bottom.
    fn marked(&self) -> String {
        let screen = self.tmux(&["capture-pane", "-p", "-e"]);
        let lines: Vec<&str> = screen.lines().collect();
        let title = lines.iter().position(|line| line.contains("NAME ")).unwrap_or(lines.len());
        let below = lines.iter().skip(title + 1).take(lines.len().saturating_sub(title + 2));
        let marked = below.filter(|line| line.contains("7m")).find_map(|line| line.split_once("7m"));
        marked.map(|(_, text)| text.to_owned()).unwrap_or_default()
    }

    fn press(&self, key: &str) {
        self.tmux(&["send-keys", key]);
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _gone_already = Command::new("tmux").arg("-S").arg(&self.socket).arg("kill-server").output();
    }
}

#[test]
fn hatop_shows_the_servers_and_changes_them() {
    let gate = Gate::new();
    let (a, b) = (named("a", &gate), named("b", &gate));
    let weir = Weir::start(&config(&[&a, &b], "upstream.app.balance = \"round-robin\""));
    let traffic = BackgroundTraffic::start(weir.web());
    traffic.goes_on();
    let terminal =
        Terminal::start(&weir, &format!("hatop -s {} -i 1", weir.folder().join("weir.sock").display()));
    terminal.shows(&["HATop version"]);
    terminal.shows(&["FRONTEND", "OPEN"]);
    terminal.shows(&["BACKEND", "UP"]);
    terminal.shows(&[">>> app"]);
    while !terminal.marked().starts_with("a ") {
        let before = terminal.marked();
        terminal.press("Down");
        eventually("the mark has moved", || terminal.marked() != before);
    }
    terminal.press("F10");
    eventually("hatop has disabled a server", || stat(&weir, "app", "a", "status") == "MAINT");
    terminal.shows(&["MAINT"]);
    terminal.press("F9");
    eventually("hatop has enabled it again", || stat(&weir, "app", "a", "status") == "no check");
    terminal.press("F7");
    eventually("hatop has changed a weight", || stat(&weir, "app", "a", "weight") == "11");
    traffic.end();
    terminal.press("q");
}
