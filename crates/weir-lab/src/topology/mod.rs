//! What a scenario sets up, in no product's words: the target and its product, what it speaks with clients, and the servers behind it.

pub mod target;
pub mod product;
pub mod listener;
pub mod upstream;
