//! What the program refuses before it starts anything.

#![expect(clippy::expect_used, reason = "a test that cannot start the program has failed")]

use std::process::{Command, Output};

fn run(arguments: &[&str]) -> (Option<i32>, String) {
    let output: Output =
        Command::new(env!("CARGO_BIN_EXE_weir-proof")).args(arguments).output().expect("it is built");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// The argument with which it starts itself in namespaces of its own, given by hand: there, it would mount and write on the machine.
#[test]
fn it_does_nothing_outside_of_namespaces_of_its_own() {
    for outside in ["", "1", "net:[1],mnt:[1],pid:[1],ipc:[1],uts:[1]", "net,mnt,pid,ipc,uts"] {
        let (code, said) =
            run(&["/etc/hostname", "--weir", "/bin/true", "--from", "nginx", "--inside", outside]);
        assert_eq!(code, Some(2), "{said}");
        let is_refused = said.contains("starts itself") || said.contains("first process");
        assert!(is_refused, "{outside}: {said}");
    }
}

#[test]
fn files_that_are_not_there_are_named() {
    let (code, said) = run(&["/no/such/nginx.conf", "--weir", "/bin/true"]);
    assert_eq!(code, Some(2));
    assert!(said.contains("/no/such/nginx.conf"), "{said}");
}
