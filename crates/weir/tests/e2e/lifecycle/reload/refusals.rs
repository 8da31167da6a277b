//! A rejected reload: nothing changes, and the log has each error with its place.

use super::config;
use crate::harness::tls::ECDSA;
use crate::harness::{CertificateAuthority, Client, Origin, ReservedAddress, Weir};

fn reloads(weir: &Weir, outcome: &str) -> f64 {
    weir.metrics().sum("weir_config_reloads_total", &[&format!("outcome=\"{outcome}\"")])
}

#[test]
fn a_config_with_errors_changes_nothing_and_all_are_logged() {
    let origin = Origin::serving("x");
    let good = config(&[("a", &origin)], "");
    let line = good.lines().count() + 1;
    let weir = Weir::start(&good);
    let mut client = Client::connect(weir.web());
    weir.reload_in_vain(&format!("{good}upstream.app.balnce = \"random\"\nprocess.stop_grace = \"soon\"\n"));
    assert_eq!(client.fetch("/").text(), "x");
    weir.line(&["ERROR", &format!("weir.toml:{line}:"), "balnce", "balance"]);
    weir.line(&["ERROR", &format!("weir.toml:{}:", line + 1), "soon"]);
    weir.line(&["ERROR", "the config was not reloaded", "errors=2"]);
    assert_eq!((reloads(&weir, "failed"), reloads(&weir, "succeeded")), (1.0, 0.0));
    assert_eq!(weir.metrics().sum("weir_config_last_reload_successful", &[]), 0.0);
    weir.reload(&good);
    assert_eq!(weir.metrics().sum("weir_config_last_reload_successful", &[]), 1.0);
    assert_eq!(weir.metrics().sum("weir_config_generation", &[]), 2.0);
}

#[test]
fn a_config_that_is_gone_changes_nothing() {
    let origin = Origin::serving("x");
    let weir = Weir::start(&config(&[("a", &origin)], ""));
    std::fs::remove_file(weir.folder().join("weir.toml")).expect("it is there");
    weir.hang_up("the config was not reloaded");
    weir.line(&["ERROR", "weir.toml", "the file cannot be read"]);
    assert_eq!(Client::get(weir.web(), "/").status, 200);
}

#[test]
fn a_missing_certificate_changes_nothing() {
    let origin = Origin::serving("x");
    let weir = Weir::start(&config(&[("a", &origin)], ""));
    let with_tls =
        "listener.web.tls.certificates = [{ certificate = \"{dir}/a.pem\", key = \"{dir}/a.key\" }]";
    weir.reload_in_vain(&config(&[("a", &origin)], with_tls));
    weir.line(&["ERROR", "weir.toml:", "a.pem"]);
    assert_eq!(Client::get(weir.web(), "/").status, 200);
    // And then it is there.
    let authority = CertificateAuthority::new();
    authority.issue(weir.folder(), "a", &["a.test"], ECDSA);
    weir.hang_up("the config was reloaded");
    authority.connect(weir.web()).assert_alive();
}

#[test]
fn an_address_in_use_changes_nothing() {
    let origin = Origin::serving("x");
    let weir = Weir::start(&config(&[("a", &origin)], ""));
    let place = ReservedAddress::new();
    let (taken, address) = (place.listener(), place.address());
    let more = format!(
        "listener.more = {{ address = \"{address}\", upstream = \"app\" }}\nlistener.web.limits.target_size = \"256B\""
    );
    weir.reload_in_vain(&config(&[("a", &origin)], &more));
    weir.line(&["ERROR", "listener `more` cannot use", "stop it, or change `listener.more.address`"]);
    assert_eq!(
        Client::get(weir.web(), &format!("/{}", "a".repeat(500))).status,
        200,
        "nothing else has changed"
    );
    drop(taken);
    weir.hang_up("the config was reloaded");
    assert_eq!(Client::get(address, "/").status, 200);
}
