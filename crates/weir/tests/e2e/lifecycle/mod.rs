//! The process itself: how it starts, reloads its config and stops, and how it divides its file descriptors.

mod start;
mod descriptors;
mod reload;
mod graceful_stop;
mod privileges;
mod sandbox;
mod supervisor;
