//! Where features act, for the test that compares what they do with the table of their order. In the program, a note is nothing.

use weir_config::{Feature, Stage};

#[cfg(test)]
thread_local! {
    /// The rows of the table that have acted in this thread, in their order.
    static ACTED: std::cell::RefCell<Vec<(Stage, Feature)>> = const { std::cell::RefCell::new(Vec::new()) };
}

/// A feature acts at a stage.
#[inline(always)]
pub(in crate::exchange) fn note(stage: Stage, feature: Feature) {
    #[cfg(test)]
    ACTED.with_borrow_mut(|acted| acted.push((stage, feature)));
    #[cfg(not(test))]
    let _ = (stage, feature);
}

/// The rows that have acted since this was asked last.
#[cfg(test)]
pub(in crate::exchange) fn take() -> Vec<(Stage, Feature)> {
    ACTED.take()
}
