//! `/stub_status`: the counts of all workers as the text that nginx's module of that name writes, for programs that read it. Must not be asked
//! for more than this text has; `/metrics` has everything.

use weir_observe::overview::WorkerOverview;

/// Connections and requests of clients, of the process as a whole. Every connection that is accepted is handled, and the head of a request is
/// read before it counts: so nothing is ever reading.
pub(super) fn text(workers: &[WorkerOverview]) -> String {
    let sum = |count: fn(&WorkerOverview) -> u64| workers.iter().map(count).sum::<u64>();
    let open = |worker: &WorkerOverview| worker.stats.connections_open.now.max(0).cast_unsigned();
    let active = workers.iter().map(open).sum::<u64>();
    let writing = sum(|worker| worker.stats.exchanges_open.now.max(0).cast_unsigned());
    let accepted = sum(|worker| worker.stats.connections_accepted);
    let requests = sum(|worker| worker.stats.exchanges);
    written(active, accepted, requests, writing)
}

fn written(active: u64, accepted: u64, requests: u64, writing: u64) -> String {
    // Streams of one connection of HTTP/2 are more than it.
    let waiting = active.saturating_sub(writing);
    format!(
        "Active connections: {active} \nserver accepts handled requests\n {accepted} {accepted} {requests} \n\
         Reading: 0 Writing: {writing} Waiting: {waiting} \n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_that_of_nginx() {
        let expected = "Active connections: 3 \nserver accepts handled requests\n 10 10 20 \nReading: 0 Writing: 1 Waiting: 2 \n";
        assert_eq!(written(3, 10, 20, 1), expected);
        assert!(written(1, 1, 9, 9).ends_with("Writing: 9 Waiting: 0 \n"));
        assert!(text(&[]).starts_with("Active connections: 0 \n"));
    }
}
