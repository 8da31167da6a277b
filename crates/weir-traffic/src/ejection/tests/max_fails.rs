//! nginx's own behaviour as a table, and against nginx's own rules written down a second time.

use proptest::prelude::*;

use super::*;

fn rules(max_fails: u32) -> EjectionRules {
    EjectionRules::MaxFails(MaxFailsRules { max_fails, fail_timeout: Duration::from_secs(10) })
}

/// Plays a script on the first of two servers: `+` and `-` are requests that succeed and fail, `(` is one that begins, `)` and
/// `x` are its success and its failure, numbers are seconds that pass. Gives what each request met: itself when it was
/// let through, `.` when the server was unavailable.
fn played(max_fails: u32, script: &str) -> String {
    let mut upstream = TestUpstream::new(rules(max_fails), 2);
    let mut seen = String::new();
    let mut began_ms = 0;
    for step in script.split_whitespace() {
        if let Ok(seconds) = step.parse::<f64>() {
            upstream.wait(seconds);
            continue;
        }
        for letter in step.chars() {
            let let_through = match letter {
                '+' | '-' => upstream.request(0, letter == '+'),
                '(' => {
                    began_ms = upstream.now_ms;
                    upstream.begin(0)
                }
                _ => {
                    upstream.end(0, began_ms, letter == ')');
                    true
                }
            };
            seen.push(if let_through { letter } else { '.' });
        }
    }
    seen
}

#[test]
fn as_nginx_does() {
    for (max_fails, script, seen) in [
        // The default of nginx: one failure, ten seconds, inclusive.
        (1, "+ - + 10 + 0.001 +", "+-..+"),
        // Two failures; a success in between within fail_timeout does not clear the first.
        (2, "- + - +", "-+-."),
        (2, "- + 9 - +", "-+-."),
        // A success after more than fail_timeout since the failure does.
        (2, "- 10.001 + - +", "-+-+"),
        (2, "- 10 + - +", "-+-."),
        // Time alone does not: the next failure is the second, however late.
        (2, "- 3600 - +", "--."),
        // One trial; its success clears all.
        (2, "-- + 10.001 ( + ) + - +", "--.(.)+-+"),
        // Its failure counts on, and makes the server unavailable again.
        (2, "-- 10.001 - + 10 + 0.001 - +", "---..-."),
        // A trial that takes longer than fail_timeout is followed by another.
        (1, "- 10.001 ( + 10 + 0.001 +", "-(..+"),
        // A failure of a request that was under way begins fail_timeout anew.
        (1, "( - 9 x 2 + 8.001 +", "(-x.+"),
        // A success of a request that was under way does not help while no request was let through,
        (1, "( - 5 ) +", "(-)."),
        // and does once one was.
        (3, "( -- 11 ( ) -- +", "(--()--+"),
    ] {
        assert_eq!(played(max_fails, script), seen, "max_fails {max_fails}: {script}");
    }
}

#[test]
fn a_single_server_is_never_unavailable() {
    let mut upstream = TestUpstream::new(rules(1), 1);
    upstream.fail(0, 10);
    assert_eq!(upstream.standing(), "+");
}

#[test]
fn all_may_be_unavailable() {
    let mut upstream = TestUpstream::new(rules(1), 3);
    (0..3).for_each(|server| upstream.fail(server, 1));
    assert_eq!(upstream.standing(), "---");
    upstream.wait(10.001);
    assert_eq!(upstream.standing(), "???");
    assert!(upstream.request(1, true) && upstream.request(2, false));
    assert_eq!(upstream.standing(), "?+-");
}

#[test]
fn each_ejection_is_reported_once() {
    let mut upstream = TestUpstream::new(rules(2), 2);
    let began_ms = upstream.now_ms;
    upstream.fail(0, 2);
    upstream.wait(3.0);
    upstream.end(0, began_ms, false);
    upstream.wait(10.001);
    upstream.request(0, false);
    let server = ServerId(0);
    let ejected = |grounds| OutlierChange::Ejected { server, grounds, for_ms: 10_001, times: 1 };
    assert_eq!(
        upstream.changes(),
        [
            ejected(EjectionReason::MaxFails(2)),
            OutlierChange::OnTrial { server },
            ejected(EjectionReason::Trial)
        ]
    );
}

/// `ngx_http_upstream_rr_peer_t`, and what is done with it when a request begins and ends.
#[derive(Debug, Default)]
struct NginxPeer {
    fails: u32,
    accessed: u64,
    checked: u64,
}

impl NginxPeer {
    fn is_available(&self, max_fails: u32, now: u64) -> bool {
        !(self.fails >= max_fails && now - self.checked <= 10_000)
    }

    fn get(&mut self, now: u64) {
        if now - self.checked > 10_000 {
            self.checked = now;
        }
    }

    fn free(&mut self, failed: bool, now: u64) {
        if failed {
            self.fails += 1;
            (self.accessed, self.checked) = (now, now);
        } else if self.accessed < self.checked {
            self.fails = 0;
        }
    }
}

proptest! {
    /// Any mixture of requests that begin, succeed and fail, of time that passes, against nginx's rules.
    #[test]
    fn every_history_is_as_in_nginx(
        max_fails in 1_u32..4,
        steps in prop::collection::vec((0_u8..6, 0_u64..12_000), 1..120),
    ) {
        let mut upstream = TestUpstream::new(rules(max_fails), 2);
        let mut peer = NginxPeer::default();
        let mut under_way = Vec::new();
        for (step, number) in steps {
            match step {
                0 => upstream.wait(number as f64 / 1000.0),
                1..=3 => {
                    let available = peer.is_available(max_fails, upstream.now_ms);
                    prop_assert_eq!(upstream.begin(0), available);
                    if available {
                        peer.get(upstream.now_ms);
                        under_way.push(upstream.now_ms);
                    }
                }
                _ if under_way.is_empty() => {}
                _ => {
                    let began_ms = under_way.swap_remove(number as usize % under_way.len());
                    upstream.end(0, began_ms, step == 4);
                    peer.free(step != 4, upstream.now_ms);
                }
            }
            prop_assert_eq!(upstream.states[0].is_eligible(), peer.is_available(max_fails, upstream.now_ms));
        }
    }
}
