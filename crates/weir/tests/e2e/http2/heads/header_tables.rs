//! The tables of HPACK (RFC 7541): what both sides remember of earlier fields, in sizes that the client changes.

use crate::harness::http2::start;
use crate::harness::{Http2Client, Origin, origin::ok};

/// The number of the setting for the size of the table at the client.
const HEADER_TABLE_SIZE: u16 = 1;

/// Answers with fields that recur, and one that does not.
fn origin() -> Origin {
    Origin::start(|conn| {
        loop {
            let target = conn.request()?.target().to_owned();
            let head = format!(
                "HTTP/1.1 200 OK\r\nServer: origin\r\nX-Once: {target}\r\nX-Long: {}\r\n",
                "y".repeat(900)
            );
            conn.send(ok("").replace("HTTP/1.1 200 OK\r\n", &head))?;
        }
    })
}

fn assert_fields(client: &mut Http2Client, round: usize) {
    let target = format!("/{round}");
    let response = client.fetch(&target);
    assert_eq!((response.status, response.field("x-once")), (200, Some(target.as_str())), "{round}");
    assert_eq!(
        (response.field("server"), response.field("x-long").map(str::len)),
        (Some("origin"), Some(900))
    );
}

#[test]
fn tables_of_every_size() {
    let origin = origin();
    let weir = start(&origin);
    for size in [0, 1, 100, 1_000, 4_096, 65_536] {
        let mut client = Http2Client::connect_with(weir.web(), &[(HEADER_TABLE_SIZE, size)]);
        (0..20).for_each(|round| assert_fields(&mut client, round));
    }
}

#[test]
fn a_table_that_shrinks_and_grows() {
    let origin = origin();
    let weir = start(&origin);
    let mut client = Http2Client::connect(weir.web());
    for (round, size) in [4_096, 0, 4_096, 50, 2_000, 0, 0, 1_000].into_iter().enumerate() {
        client.send_settings(&[(HEADER_TABLE_SIZE, size)]);
        client.settle();
        (0..5).for_each(|more| assert_fields(&mut client, round * 10 + more));
    }
    // Twice before the next head: the smallest of them counts as well.
    client.send_settings(&[(HEADER_TABLE_SIZE, 0)]);
    client.send_settings(&[(HEADER_TABLE_SIZE, 4_096)]);
    client.settle();
    (0..5).for_each(|more| assert_fields(&mut client, 100 + more));
}

/// An idle connection keeps no table: what the client remembers of it must not be referred to.
#[test]
fn a_connection_that_was_idle_goes_on() {
    let origin = origin();
    let weir = start(&origin);
    let mut client = Http2Client::connect(weir.web());
    for round in 0..2 {
        (0..5).for_each(|more| assert_fields(&mut client, round * 10 + more));
        // Memory is given back after a second.
        crate::harness::watchdog::work(std::time::Duration::from_millis(1_200));
    }
    (0..5).for_each(|more| assert_fields(&mut client, 50 + more));
}
