//! The setup of a scenario, in no product's words: the target and its product, its protocol with clients, and the servers behind it.

pub mod target;
pub mod product;
pub mod listener;
pub mod upstream;
