//! Programs that tests start: Weir's commands, browsers, PHP, and others, in namespaces where they need them.

pub(crate) mod browser;
pub(crate) mod php;
pub(crate) mod program;
pub(crate) mod foreign_program;
pub(crate) mod namespace;
