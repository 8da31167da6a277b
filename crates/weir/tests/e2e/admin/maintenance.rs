//! A listener in maintenance: one command, the page for it, back into service; other listeners go on.

use crate::harness::{Client, Http2Client, Origin, Weir, config_with, temporary_folder};

fn start(origin: &Origin) -> Weir {
    let folder = temporary_folder();
    std::fs::write(folder.path().join("page.html"), "back at noon").expect("the folder takes a file");
    let text = config_with(
        &[origin.named("a")],
        "admin.socket = \"unix:{dir}/weir.sock\"\nadmin.socket_changes = true
         listener.web.error_pages = [{ status = 503, html = \"page.html\" }]
         listener.web.http2.prior_knowledge = \"allowed\"
         listener.other = { address = \"127.0.0.1:0\", upstream = \"app\" }
         listener.tcp = { address = \"127.0.0.1:0\", protocol = \"tcp\", upstream = \"raw\" }
         upstream.raw.servers = [\"127.0.0.1:1\"]",
    );
    Weir::start_in(folder, &text)
}

#[test]
fn one_command_puts_listeners_into_maintenance_and_back() {
    let origin = Origin::serving("fine");
    let weir = start(&origin);
    let mut client = Client::connect(weir.web());
    assert_eq!(client.fetch("/").text(), "fine");
    let said = weir.run_over_socket(&["ctl", "maintenance", "on", "web", "--retry-after", "2m"]);
    assert_eq!((said.code, said.stdout.as_str()), (Some(0), "web: in maintenance\n"));
    let response = client.fetch("/");
    assert_eq!(
        (response.status, response.reason(), response.text().as_str()),
        (503, Some("maintenance"), "back at noon")
    );
    assert_eq!(response.field("retry-after"), Some("120"));
    assert_eq!(Http2Client::connect(weir.web()).fetch("/").status, 503);
    assert_eq!(Client::get(weir.address("other"), "/").status, 200, "the other listener serves");
    weir.hang_up("the config was reloaded");
    assert_eq!(client.fetch("/").status, 503, "a reload does not end it");
    let overview = Client::get_by_address(weir.address("admin"), "/api/overview").text();
    assert!(overview.contains("\"maintenance\":120"), "{overview}");
    assert!(Client::get_by_address(weir.address("admin"), "/").text().contains("in maintenance"));

    let said = weir.run_over_socket(&["ctl", "maintenance", "off"]);
    assert_eq!((said.code, said.stdout.as_str()), (Some(0), "web: serving\nother: serving\n"));
    assert_eq!(client.fetch("/").text(), "fine");
    weir.line(&["the listener is now in maintenance", "web"]);
}

#[test]
fn what_cannot_be_in_maintenance_is_said() {
    let origin = Origin::serving("fine");
    let weir = start(&origin);
    for (arguments, said) in [
        (&["ctl", "maintenance", "on", "none"][..], "there is no listener `none`"),
        (&["ctl", "maintenance", "on", "tcp"], "the listener `tcp` speaks `tcp`"),
        (&["ctl", "maintenance", "on", "--retry-after", "soon"], "`retry_after`"),
    ] {
        let outcome = weir.run_over_socket(arguments);
        assert_eq!(outcome.code, Some(1), "{arguments:?}");
        assert!(outcome.stderr.contains(said), "{arguments:?}: {}", outcome.stderr);
    }
    assert_eq!(Client::get(weir.web(), "/").status, 200);
}
