//! Panics of all threads: each is logged and counted, and the first ones are kept with their backtraces, for the status page and `weir report`.
//!
//! The hook runs on the thread that panics, which may be a worker: it only takes the addresses of the stack. Their names are looked up on a
//! thread of its own. What ends by a panic is decided where it is caught.

mod backtrace;

use std::backtrace::Backtrace;
use std::panic::PanicHookInfo;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use weir_observe::overview::PanicOverview;

use weir_proxy::net::clock;

/// Places in the code whose panics are kept; those of further ones are counted and logged.
const PLACES_MAX: usize = 16;

/// Bytes of a message that are kept and logged.
const MESSAGE_BYTES_MAX: usize = 2048;

static COUNT: AtomicU64 = AtomicU64::new(0);
static KEPT: Mutex<Vec<KeptPanic>> = Mutex::new(Vec::new());

/// The panics at one place in the code.
struct KeptPanic {
    location: String,
    count: u64,
    first_ms: u64,
    last_ms: u64,
    /// Of the first one.
    thread: String,
    message: String,
    backtrace: &'static OnceLock<String>,
}

/// Logs and keeps all panics from now on.
pub fn watch() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let thread = std::thread::current();
        let thread = thread.name().unwrap_or("unnamed");
        take(info, thread);
        if thread == "main" {
            // The process ends with it, and its log with the process.
            before(info);
        }
    }));
}

/// Panics since the start.
pub(crate) fn count() -> u64 {
    COUNT.load(Ordering::Relaxed)
}

/// Those that are kept.
pub(crate) fn overview() -> Vec<PanicOverview> {
    let kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let overview = |panic: &KeptPanic| PanicOverview {
        location: panic.location.clone(),
        message: panic.message.clone(),
        thread: panic.thread.clone(),
        count: panic.count,
        first_ms: panic.first_ms,
        last_ms: panic.last_ms,
        backtrace: panic.backtrace.get().cloned(),
    };
    kept.iter().map(overview).collect()
}

fn take(info: &PanicHookInfo<'_>, thread: &str) {
    COUNT.fetch_add(1, Ordering::Relaxed);
    let location = info.location().map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
    let message = message(info);
    tracing::error!(
        thread,
        location,
        cause = message,
        "panic: a defect of Weir; what the thread was doing ends"
    );
    let now_ms = u64::try_from(clock::unix_now().as_millis()).unwrap_or(u64::MAX);
    if is_known(&location, now_ms) {
        return;
    }
    let addresses = Backtrace::force_capture();
    let backtrace: &'static OnceLock<String> = Box::leak(Box::default());
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if kept.len() >= PLACES_MAX {
        return;
    }
    kept.push(KeptPanic {
        location: location.clone(),
        count: 1,
        first_ms: now_ms,
        last_ms: now_ms,
        thread: thread.to_owned(),
        message,
        backtrace,
    });
    drop(kept);
    // Without the thread there is a message and no backtrace.
    let _refused = std::thread::Builder::new().name("weir-panic".into()).spawn(move || {
        let text = backtrace::render(&addresses);
        tracing::error!(location, "the backtrace of that panic:");
        for line in text.lines() {
            tracing::error!("{line}");
        }
        let _first = backtrace.set(text);
    });
}

/// Whether panics of this place are kept already; counts one more there.
fn is_known(location: &str, now_ms: u64) -> bool {
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let known = kept.iter_mut().find(|known| known.location == location);
    known.is_some_and(|known| {
        known.count += 1;
        known.last_ms = now_ms;
        true
    })
}

fn message(info: &PanicHookInfo<'_>) -> String {
    let payload = info.payload();
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
    let fits = |at: &usize| text.is_char_boundary(*at);
    let end = (0..=text.len().min(MESSAGE_BYTES_MAX)).rev().find(fits).unwrap_or(0);
    text[..end].to_owned()
}
