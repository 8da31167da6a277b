//! What holds for a class or a Gateway as a whole.

pub(super) mod parameters;
pub(super) mod settings;
pub(super) mod isolation;
