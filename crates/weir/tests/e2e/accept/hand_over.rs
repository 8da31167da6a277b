//! The kernel spreads connections by chance; a worker with clearly more connections than another hands new ones over.

use crate::harness::{Client, Metrics, Origin, Weir, eventually};

const CONNECTIONS: usize = 200;

fn open_connections(metrics: &Metrics) -> Vec<f64> {
    ["worker=\"0\"", "worker=\"1\""]
        .iter()
        .map(|worker| metrics.sum("weir_worker_connections_open", &[worker]))
        .collect()
}

fn serve(client: &mut Client) {
    assert_eq!(client.fetch("/").status, 200);
}

/// Opens connections one by one and tells which worker each went to; then leaves one worker with all of them.
#[test]
fn a_hot_worker_gets_relief() {
    let origin = Origin::serving("fine");
    let weir = Weir::proxying_with(&origin, "process.workers = 2\nadmin.address = \"127.0.0.1:0\"");
    let mut by_worker: [Vec<Client>; 2] = [Vec::new(), Vec::new()];
    for count in 1..=CONNECTIONS {
        let before = open_connections(&weir.metrics());
        let mut client = Client::connect(weir.web());
        serve(&mut client);
        let mut worker = 0;
        eventually("the new connection is counted", || {
            let now = open_connections(&weir.metrics());
            worker = usize::from(now[1] > before[1]);
            now.iter().sum::<f64>() >= before.iter().sum::<f64>() + 1.0
        });
        by_worker[worker].push(client);
        assert_eq!(by_worker.iter().map(Vec::len).sum::<usize>(), count);
    }
    let [cold, mut hot] = by_worker;
    drop(cold);
    eventually("one worker is left alone with its connections", || {
        open_connections(&weir.metrics())[0] <= 2.0
    });

    // The kernel goes on sending half of the new connections to the hot worker, which has to pass them on.
    let mut new: Vec<Client> = (0..hot.len() / 2).map(|_| Client::connect(weir.web())).collect();
    new.iter_mut().for_each(serve);
    let metrics = weir.metrics();
    let handed =
        metrics.sum("weir_worker_connections_handed_over_total", &["worker=\"1\"", "direction=\"out\""]);
    assert!(handed > 0.0, "the hot worker kept all of its new connections: {:?}", open_connections(&metrics));
    assert_eq!(
        metrics.sum("weir_worker_connections_handed_over_total", &["direction=\"in\""]),
        metrics.sum("weir_worker_connections_handed_over_total", &["direction=\"out\""]),
        "what one gives another takes"
    );
    let relief = open_connections(&metrics)[0];
    assert!(
        relief >= 0.9 * new.len() as f64,
        "{relief} of {} new connections went to the idle worker",
        new.len()
    );
    hot.iter_mut().for_each(serve);
    new.iter_mut().for_each(serve);
}

#[test]
fn connections_end_up_even() {
    let origin = Origin::serving("fine");
    let weir = Weir::proxying_with(&origin, "process.workers = 2\nadmin.address = \"127.0.0.1:0\"");
    let mut clients: Vec<Client> = (0..CONNECTIONS).map(|_| Client::connect(weir.web())).collect();
    clients.iter_mut().for_each(serve);
    let open = open_connections(&weir.metrics());
    let spread = (open[0] - open[1]).abs();
    assert!(spread <= CONNECTIONS as f64 / 4.0, "connections per worker: {open:?}");
}
