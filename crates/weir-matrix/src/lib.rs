//! The matrix: combinations of protocols, features, bodies and events, tried on the real program and judged by every byte that it writes.
//!
//! `array` chooses the cases, `config` and `exchange` say what each is, `peer` are its clients and servers, `run` runs it and records all bytes,
//! `oracle` judges the record, `plant` breaks records on purpose, `former` tries a program with former faults, and `reproduction` writes a failing case as a script that runs without this
//! crate. It names no crate of Weir but `weir-wire`, which shares nothing with the program: a shared bug would hide.

pub mod cli;
mod reproduction;
mod plant;
mod former;
mod oracle;
mod run;
mod peer;
mod config;
mod exchange;
mod array;
mod clock;
