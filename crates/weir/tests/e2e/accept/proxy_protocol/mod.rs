//! The PROXY protocol on both sides: by its bytes, and against the programs that others run.

mod incoming;
mod values;
mod outgoing;
mod other_programs;
