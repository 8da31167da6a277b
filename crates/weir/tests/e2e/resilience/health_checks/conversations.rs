//! Probes of other protocols than HTTP: presets, texts of the config, and how they end.

use super::*;
use crate::harness::Connection;

/// A Weir with a TCP listener whose servers are probed as `health` says.
fn weir(servers: &[String], health: &str) -> Weir {
    let health = format!("{health}, interval = \"30ms\", timeout = \"15s\"");
    Weir::start(&format!("{}listener.web.protocol = \"tcp\"\n", config(servers, &health)))
}

/// A server that greets with `first`, answers one message of `wanted` with `answer`, and expects `last` before the end.
fn scripted(first: &'static [u8], steps: &'static [(usize, &'static [u8])], last: &'static [u8]) -> Origin {
    Origin::start(move |conn: &mut Connection| {
        conn.send(first)?;
        for (len, answer) in steps {
            conn.take(*len)?;
            conn.send(*answer)?;
        }
        let (rest, end) = conn.wait_for_end();
        assert_eq!((rest.as_slice(), end), (last, End::Closed), "{}", rest.escape_ascii());
        Some(())
    })
}

/// Two probes pass, each on a connection that ends in order, and the server is up.
fn assert_passes(origin: &Origin, health: &str) {
    let weir = weir(&[origin.named("a")], health);
    wait_for_probes(&weir, "a", "passed", 2.0);
    assert_eq!(origin.wait_for_end(0), End::Closed, "{health}");
    assert!(weir.is_up("a"), "{health}");
    assert_eq!(probes(&weir.metrics(), "a", "failed"), 0.0, "{health}");
}

#[test]
fn presets_pass_and_end_as_the_protocol_has_it() {
    assert_passes(&scripted(b"", &[(6, b"+PONG\r\n")], b"QUIT\r\n"), "preset = \"redis\"");
    const GREETED: &[(usize, &[u8])] = &[(16, b"250-mail\r\n250 SIZE 100\r\n")];
    assert_passes(&scripted(b"220-mail\r\n220 ready\r\n", GREETED, b"QUIT\r\n"), "preset = \"smtp\"");
    assert_passes(&scripted(b"", &[(8, b"N")], b""), "preset = \"postgresql\"");
    const TRUSTED: &[(usize, &[u8])] = &[(48, b"R\0\0\0\x08\0\0\0\0S\0\0\0\x0ba\0b\0xyz")];
    let login = scripted(b"", TRUSTED, b"X\0\0\0\x04");
    assert_passes(&login, "preset = \"postgresql\", user = \"weir\"");
    let mysql = scripted(
        b"\x08\0\0\0\x0a8.0.36\0",
        &[(64, b"\x1a\0\0\x02\xfecaching_sha2_password\0abc"), (5, b"\x07\0\0\x04\0\0\0\x02\0\0\0")],
        b"\x01\0\0\0\x01",
    );
    assert_passes(&mysql, "preset = \"mysql\", user = \"weir\"");
}

#[test]
fn texts_of_the_config_are_sent_and_expected() {
    let own = scripted(b"", &[(4, b"noise and fine\n")], b"bye");
    assert_passes(&own, "send = \"hex:61 20 62 00\", expect = \"fine\", quit = \"bye\"");
    assert_passes(&scripted(b"hello there", &[], b""), "expect = \"there\"");
}

/// A server that takes connections and says nothing is the one that a plain TCP probe takes for well.
#[test]
fn errors_are_reported() {
    let wrong = |answer: &'static [u8]| {
        Origin::start(move |conn| {
            conn.take(6)?;
            conn.send(answer)?;
            conn.wait_for_end();
            Some(())
        })
    };
    let closing = Origin::start(|conn| {
        conn.take(6)?;
        conn.finish();
        Some(())
    });
    let silent = Origin::start(|conn| {
        conn.wait_for_end();
        Some(())
    });
    let loading = wrong(b"-LOADING dataset\r\n");
    let servers = [loading.named("loading"), closing.named("closing")];
    let first = weir(&servers, "preset = \"redis\"");
    let health = "preset = \"redis\", interval = \"300ms\", timeout = \"300ms\"";
    let second = Weir::start(&format!(
        "{}listener.web.protocol = \"tcp\"\n",
        config(&[silent.named("silent")], health)
    ));
    for (weir, name, reason) in [
        (&first, "loading", "response-unexpected-answer"),
        (&first, "closing", "response-closed"),
        (&second, "silent", "response-timeout"),
    ] {
        let down = weir.line(&["the server is down", &format!("server=\"{name}\"")]);
        assert!(down.contains(&format!("reason=\"{reason}\"")), "{name}: {down}");
        assert!(!weir.is_up(name), "{name}");
    }
    first.line(&["something else than expected", "-LOADING dataset"]);
}
