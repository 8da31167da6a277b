//! What HAProxy's `monitor-uri` and `monitor fail` do, by two routes: a path for balancers in front that Weir answers by itself, as its servers
//! are, without a line in the log.

use crate::harness::{Client, Http2Client, Origin, Weir, eventually};

#[test]
fn a_path_answers_by_the_servers_that_are_usable() {
    let origin = Origin::serving("app");
    let route = |when: &str, status: u16| {
        format!(
            "[[listener.web.route]]\npath_exact = \"/up\"\n{when}respond = {{ status = {status} }}\naccess_log = false\n"
        )
    };
    let weir = Weir::start(&format!(
        r#"
        process.workers = 1
        admin = {{ address = "127.0.0.1:0", changes = true }}
        upstream.app.servers = [{{ name = "a", address = "{}" }}]
        [listener.web]
        address = "127.0.0.1:0"
        http2.prior_knowledge = "allowed"
        access_log = {{ format = "common", output = "file:{{dir}}/access.log" }}
        {}
        {}
        [[listener.web.route]]
        upstream = "app"
        "#,
        origin.address(),
        route("when = 'upstream.app.usable < 1'\n", 503),
        route("", 200),
    ));
    let statuses = |target: &str| {
        let over_http2 = Http2Client::connect(weir.web()).fetch(target).status;
        let over_http1 = Client::get(weir.web(), target).status;
        assert_eq!(over_http1, over_http2, "{target}");
        over_http1
    };
    assert_eq!((statuses("/up"), statuses("/up?x")), (200, 200));
    assert_eq!(statuses("/update"), 200);
    weir.set_mode("a", "maintenance");
    eventually("no server is usable", || statuses("/up") == 503);
    weir.set_mode("a", "serving");
    eventually("one is again", || statuses("/up") == 200);
    assert_eq!(Client::get(weir.web(), "/last").text(), "app");
    let log = weir.access_log(3);
    assert!(log.iter().all(|line| !line.contains("/up ") && !line.contains("/up?")), "{log:?}");
    assert!(log.iter().any(|line| line.contains("/last")), "{log:?}");
    assert_eq!(origin.targets(), ["/update", "/update", "/last"], "no server has seen the others");
}
