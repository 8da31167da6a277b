//! How far a planned hand-over of this node's traffic to another node has come.
//!
//! It is written by the control plane, and read by workers where a connection waits for its next request. Each step includes the ones before.

use std::sync::atomic::{AtomicU8, Ordering};

/// A step of a planned hand-over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeHandOver {
    /// There is none.
    None,
    /// Connections end with their next response.
    Closing,
    /// Idle connections are closed, too.
    ClosingIdle,
    /// The other node is told to take over; what still arrives is served.
    Done,
}

/// The step that has been reached.
#[derive(Debug, Default)]
pub struct NodeHandOverStep(AtomicU8);

impl NodeHandOverStep {
    /// The present step.
    pub fn load(&self) -> NodeHandOver {
        match self.0.load(Ordering::Relaxed) {
            0 => NodeHandOver::None,
            1 => NodeHandOver::Closing,
            2 => NodeHandOver::ClosingIdle,
            _ => NodeHandOver::Done,
        }
    }

    /// Goes on to a step, or back to none.
    pub fn store(&self, step: NodeHandOver) {
        self.0.store(step as u8, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_read_as_it_was_written() {
        let step = NodeHandOverStep::default();
        assert_eq!(step.load(), NodeHandOver::None);
        for next in [NodeHandOver::Closing, NodeHandOver::ClosingIdle, NodeHandOver::Done, NodeHandOver::None]
        {
            step.store(next);
            assert_eq!(step.load(), next);
        }
    }
}
