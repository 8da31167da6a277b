//! The program `weir-lab`.

fn main() {}
