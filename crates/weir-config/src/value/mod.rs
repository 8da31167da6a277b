//! The kinds of value that a key can have, each with the one way it is written: `"250ms"`, `"64KiB"`, `"500B/s"`,
//! `"10.0.0.1:80"`.
//!
//! Each kind parses from text and prints as the text that parses to it again. Nothing here knows a key.

mod address;
mod progress;
mod rate;
mod size;

pub use address::{ListenAddress, ServerAddress};
pub use progress::Progress;
pub use rate::Rate;
pub use size::Size;
