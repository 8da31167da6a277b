//! Faults on demand, for tests of what becomes of a defect: a turn of a kept task that panics.
//!
//! Compiled with debug assertions only, so never in a release or a package.

#[cfg(debug_assertions)]
static STRIKE: std::sync::OnceLock<fn(&'static str)> = std::sync::OnceLock::new();

/// Has each turn of each kept task begin with `strike`, which gets the name of the task and may panic. The first call counts.
#[cfg_attr(not(debug_assertions), expect(unused_variables, reason = "there are no faults in a release"))]
pub fn strike_tasks_by(strike: fn(&'static str)) {
    #[cfg(debug_assertions)]
    let _set_before = STRIKE.set(strike);
}

/// Strikes the task if that is ordered; kept tasks do that themselves, at each turn.
#[cfg_attr(not(debug_assertions), expect(unused_variables, reason = "there are no faults in a release"))]
pub fn strike(what: &'static str) {
    #[cfg(debug_assertions)]
    if let Some(strike) = STRIKE.get() {
        strike(what);
    }
}
