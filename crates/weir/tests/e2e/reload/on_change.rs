//! A config that is read again as soon as it has changed.

use super::config;
use crate::harness::{Client, Origin, Weir, eventually};

#[test]
fn a_changed_file_is_enough() {
    let (a, b) = (Origin::serving("a"), Origin::serving("b"));
    let on_change = "process.reload = \"on-change\"";
    let weir = Weir::start(&config(&[("x", &a)], on_change));
    weir.write_config(&config(&[("x", &b)], on_change));
    eventually("the new server is used", || Client::get(weir.web(), "/").text() == "b");
    // A bad one is told of, and changes nothing; then a good one ends that.
    weir.write_config("listener = 1\n");
    weir.line(&["ERROR", "the config was not reloaded"]);
    weir.write_config(&config(&[("x", &a)], on_change));
    eventually("the old server is used again", || Client::get(weir.web(), "/").text() == "a");
}
