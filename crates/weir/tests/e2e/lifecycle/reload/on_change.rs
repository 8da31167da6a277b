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
    // An invalid one is reported and changes nothing; then a valid one is applied.
    weir.write_config("listener = 1\n");
    weir.line(&["ERROR", "the config was not reloaded"]);
    weir.write_config(&config(&[("x", &a)], on_change));
    eventually("the old server is used again", || Client::get(weir.web(), "/").text() == "a");
}

/// The file with the mistake was never part of a config in use.
#[test]
fn a_corrected_file_is_enough_where_the_mistake_is_in_a_new_one() {
    let (a, b) = (Origin::serving("a"), Origin::serving("b"));
    let on_change = "process.reload = \"on-change\"";
    let weir = Weir::start(&config(&[("x", &a)], on_change));
    let included = weir.folder().join("more.toml");
    std::fs::write(&included, "nonsense").expect("the test's own folder takes a file");
    let including = format!("include = \"more.toml\"\n{}", config(&[("x", &b)], on_change));
    weir.write_config(&including);
    weir.line(&["ERROR", "more.toml"]);
    weir.line(&["ERROR", "the config was not reloaded"]);
    std::fs::write(&included, "").expect("the test's own folder takes a file");
    eventually("the new server is used", || Client::get(weir.web(), "/").text() == "b");
}

/// What a refused config says about the way to read the next one counts for nothing.
#[test]
fn a_config_whose_address_cannot_be_bound_is_corrected_the_same_way() {
    let (a, b) = (Origin::serving("a"), Origin::serving("b"));
    let on_change = "process.reload = \"on-change\"";
    let weir = Weir::start(&config(&[("x", &a)], on_change));
    let taken = format!("listener.more = {{ address = \"{}\", upstream = \"app\" }}", a.address());
    weir.write_config(&config(&[("x", &b)], &taken));
    weir.line(&["ERROR", "listener `more` cannot use"]);
    weir.write_config(&config(&[("x", &b)], on_change));
    eventually("the new server is used", || Client::get(weir.web(), "/").text() == "b");
}
