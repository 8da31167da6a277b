//! See the package description in Cargo.toml.

fn main() {}
