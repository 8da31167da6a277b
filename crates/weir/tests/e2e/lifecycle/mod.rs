//! The process itself: how it starts, reloads its config and stops, and how it shares out its descriptors.

mod descriptors;
mod reload;
mod graceful_stop;
