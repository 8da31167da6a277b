//! Declares `cfg(fuzzing)`, which `cargo xtask fuzz` sets and cargo does not know.

fn main() {
    println!("cargo::rustc-check-cfg=cfg(fuzzing)");
    println!("cargo::rerun-if-changed=build.rs");
}
