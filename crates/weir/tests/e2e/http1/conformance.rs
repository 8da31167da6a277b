//! Plays the varnishtest scripts in `conformance/` against the program: an independent check of bytes on the wire.

use std::path::PathBuf;
use std::process::Command;

#[test]
fn varnishtest_scripts() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../conformance");
    let mut scripts: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("the repository has a folder conformance/")
        .map(|entry| entry.expect("the folder can be read").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "vtc"))
        .collect();
    scripts.sort();
    assert!(scripts.len() >= 10, "the scripts are missing: {scripts:?}");
    let program = concat!("weir=", env!("CARGO_BIN_EXE_weir"));
    let output = Command::new("varnishtest")
        .args(["-k", "-j2", "-t", "20", "-q", "-D", program])
        .args(&scripts)
        .output()
        .unwrap_or_else(|error| panic!("cannot run varnishtest ({error}): apt-get install varnish"));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
}
