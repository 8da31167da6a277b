//! The process itself: how it starts, reloads its config, is replaced by another process and stops, and how it divides its file descriptors.

mod start;
mod descriptors;
mod reload;
mod graceful_stop;
mod upgrade;
mod launcher;
mod upgrade_tables;
mod privileges;
mod sandbox;
mod supervisor;
#[cfg(debug_assertions)]
mod panics;
#[cfg(debug_assertions)]
mod crashes;
#[cfg(debug_assertions)]
mod task_panics;
