//! A thousand clients at a time, everything at its default: every one of them gets every response.

use crate::harness::scripts::echo;
use crate::harness::{Client, Weir};

const CLIENTS: usize = 1_000;

#[test]
fn kept_alive() {
    let origin = echo();
    let weir = Weir::proxying(&origin);
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| Client::connect(weir.web())).collect();
    for round in 0..3 {
        // All requests are under way before the first response is read.
        for (n, client) in clients.iter_mut().enumerate() {
            client.send_get(&format!("/{round}/{n}"));
        }
        for (n, client) in clients.iter_mut().enumerate() {
            let response = client.response();
            assert_eq!((response.status, response.text()), (200, format!("/{round}/{n}")));
        }
    }
    assert_eq!(origin.requests().len(), 3 * CLIENTS);
    assert!(origin.connections() <= CLIENTS, "no more server connections than requests at a time");
}

#[test]
fn one_request_each() {
    let origin = echo();
    let weir = Weir::proxying(&origin);
    let mut clients: Vec<Client> = (0..CLIENTS)
        .map(|n| {
            let mut client = Client::connect(weir.web());
            client.send(format!(
                "POST /{n} HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\nContent-Length: 4\r\n\r\nbody"
            ));
            client
        })
        .collect();
    for (n, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.response().text(), format!("/{n}body"));
        client.assert_closed();
    }
}

/// Slow clients take room, not time: half a request each from a thousand of them delays no other client.
#[test]
fn half_requests() {
    let origin = echo();
    let weir = Weir::proxying(&origin);
    let mut slow: Vec<Client> = (0..CLIENTS)
        .map(|_| {
            let mut client = Client::connect(weir.web());
            client.send("POST /slow HTTP/1.1\r\nHost: a.test\r\nContent-Le");
            client
        })
        .collect();
    let mut quick = Client::connect(weir.web());
    for n in 0..100 {
        assert_eq!(quick.fetch(&format!("/{n}")).text(), format!("/{n}"));
    }
    for client in &mut slow {
        client.send("ngth: 4\r\n\r\nbody");
    }
    for client in &mut slow {
        assert_eq!(client.response().text(), "/slowbody");
    }
}
