//! The terminal of `weir top`: a thread polls the overview, the main one draws and reads keys.
//!
//! What is shown is decided in `table` and `screen`, which know no terminal. Whatever happens, the terminal is given back as it was.

#[cfg(test)]
mod tests;

use std::io::IsTerminal as _;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use anyhow::anyhow;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use serde_json::Value;

use super::screen::TopScreen;
use super::{RowOrder, TopArguments};
use crate::error::CommandError;
use crate::running::admin_client::{AdminClient, overview};

/// How long a key waits at most.
const KEY_TIME: Duration = Duration::from_millis(100);

/// Pages of 1 000 servers that each look asks for.
const PAGES_MAX: usize = 10;

pub(super) fn run(arguments: &TopArguments) -> Result<ExitCode, CommandError> {
    let client = arguments.admin.client()?;
    let first = overview(&client, PAGES_MAX)?;
    if !std::io::stdout().is_terminal() {
        let help = "programs can use `GET /api/overview` of the admin listener".to_owned();
        return Err(CommandError::Failed { error: anyhow!("this is no terminal"), help: Some(help) });
    }
    let ended = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP, signal_hook::consts::SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&ended))?;
    }
    let (looks, next) = channel();
    let (_open, closed) = channel::<()>();
    let interval = Duration::from_secs(arguments.interval);
    std::thread::spawn(move || keep_looking(&client, interval, &looks, &closed));
    // From here on a panic gives the terminal back too.
    let mut terminal = ratatui::try_init()?;
    let outcome = show(&mut terminal, TopScreen::new(first, arguments.sort), &next, &ended);
    if is_gone(&std::io::stdout()) {
        // At once: there is nothing left to give back, nor to complain to.
        std::process::exit(0);
    }
    outcome.and(ratatui::try_restore())?;
    Ok(ExitCode::SUCCESS)
}

/// Whether the terminal behind a descriptor is closed.
fn is_gone(terminal: &impl AsFd) -> bool {
    let mut polled = [PollFd::new(terminal, PollFlags::empty())];
    let polls = rustix::event::poll(&mut polled, Some(&Timespec::default()));
    polls.is_ok() && polled[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL)
}

/// Polls until the receiver is gone.
fn keep_looking(
    client: &AdminClient,
    interval: Duration,
    looks: &Sender<Result<Value, String>>,
    closed: &Receiver<()>,
) {
    while matches!(closed.recv_timeout(interval), Err(RecvTimeoutError::Timeout)) {
        if is_gone(&std::io::stdout()) {
            // The main thread may be in the library, which does not notice.
            std::process::exit(0);
        }
        let look = overview(client, PAGES_MAX).map_err(message_of);
        if looks.send(look).is_err() {
            return;
        }
    }
}

/// The error in one line.
fn message_of(error: CommandError) -> String {
    match error {
        CommandError::Failed { error, .. } => format!("{error:#}"),
        CommandError::Usage { what, .. } => what,
        CommandError::Config(_) => "the config has errors".to_owned(),
    }
}

/// Draws and handles keys until one of them, or a signal, ends it, or the terminal is gone.
fn show(
    terminal: &mut DefaultTerminal,
    mut screen: TopScreen,
    next: &Receiver<Result<Value, String>>,
    ended: &AtomicBool,
) -> std::io::Result<()> {
    let keys = std::io::stdin();
    let has_keys = keys.is_terminal();
    while !ended.load(Ordering::Relaxed) && !is_gone(&std::io::stdout()) {
        next.try_iter().for_each(|look| screen.take(look));
        terminal.draw(|frame| screen.draw(frame))?;
        // Keys are waited for here: the library reads a terminal that is gone again and again.
        if has_keys && !wait_for_input(&keys)? {
            continue;
        }
        let mut wait = if has_keys { Duration::ZERO } else { KEY_TIME };
        while event::poll(std::mem::take(&mut wait))? {
            if let Event::Key(key) = event::read()?
                && key.kind != KeyEventKind::Release
                && !press(&mut screen, key)
            {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Waits for input; `false` when there is none in time, or never again.
fn wait_for_input(terminal: &impl AsFd) -> std::io::Result<bool> {
    let mut polled = [PollFd::new(terminal, PollFlags::IN)];
    let time = Timespec { tv_sec: 0, tv_nsec: i64::from(KEY_TIME.subsec_nanos()) };
    match rustix::event::poll(&mut polled, Some(&time)) {
        // The terminal has another size.
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
        Ok(_) => Ok(polled[0].revents() == PollFlags::IN),
    }
}

/// Handles a key; returns whether to continue.
fn press(screen: &mut TopScreen, key: KeyEvent) -> bool {
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => return false,
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return false,
        KeyCode::Char('r') => screen.sort(RowOrder::Rate),
        KeyCode::Char('p') => screen.sort(RowOrder::P99),
        KeyCode::Char('w') => screen.sort(RowOrder::Waiting),
        KeyCode::Char('f') => screen.sort(RowOrder::Failures),
        KeyCode::Char('n') => screen.sort(RowOrder::Name),
        KeyCode::Char('u') => screen.fold(),
        KeyCode::Up | KeyCode::Char('k') => screen.scroll(-1),
        KeyCode::Down | KeyCode::Char('j') => screen.scroll(1),
        KeyCode::PageUp => screen.scroll(-10),
        KeyCode::PageDown => screen.scroll(10),
        KeyCode::Home => screen.scroll(i32::MIN),
        _ => {}
    }
    true
}
