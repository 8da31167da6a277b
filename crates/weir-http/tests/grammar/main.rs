//! Everything that comes in, held against the grammar of RFC 9110, 9112 and 3986, from outside the crate.
//!
//! Tables first, then properties that hold for all bytes, then other parsers as a second opinion.

mod outcome;
mod lines;
mod framing;
mod targets;
mod relaxed;
mod responses;
mod bodies;
mod generate;
mod pieces;
mod oracles;
