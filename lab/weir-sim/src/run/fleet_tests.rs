//! Many balancers and many servers, small: outages, sources that are late, retries. Properties, not figures; the large versions and their
//! figures are in `lab/runs/2026-11-27-scale`.

use crate::model::SECOND;
use crate::report::Report;
use crate::run::tests::{read, to_its_end};
use crate::tally::{RequestTally, STRETCHES, TimeStretch};

/// 20 balancers, 200 servers of 4 slots, 60 % of their 1600 requests per second, for 40 s.
fn fleet(rate: u32, events: &str, variant: &str) -> RequestTally {
    let text = format!(
        r#"
question = "fleet"
length = "40s"
warm_up = "2s"
balancers = 20
[[servers]]
count = 200
slots = 4
[[clients]]
name = "all"
count = 1000
rate = {rate}
service = {{ exponential = "500ms" }}
in_time = "3s"
{events}
[[variant]]
name = "it"
{variant}
"#
    );
    to_its_end(&read(&text), 0, 1)
}

fn event(at: u32, servers: &str, action: &str) -> String {
    format!("[[event]]\nat = \"{at}s\"\nservers = \"{servers}\"\naction = \"{action}\"\n")
}

/// The stretches from one second to another.
fn between(tally: &RequestTally, from: u64, until: u64) -> &[TimeStretch] {
    let stretch = |second: u64| (second * SECOND * STRETCHES as u64 / tally.window.1) as usize;
    &tally.stretches[stretch(from)..stretch(until)]
}

fn sum(stretches: &[TimeStretch], of: impl Fn(&TimeStretch) -> u64) -> f64 {
    stretches.iter().map(of).sum::<u64>() as f64
}

/// Attempts for each request.
fn amplification(stretches: &[TimeStretch]) -> f64 {
    sum(stretches, |it| it.attempts) / sum(stretches, |it| it.begun)
}

#[test]
fn balancers_that_know_nothing_of_each_other_spread_work_evenly() {
    for (policy, share_max) in
        [("least-requests", 1.35), ("round-robin", 1.35), ("power-of-two", 1.5), ("random", 1.5)]
    {
        let tally = fleet(960, "", &format!("balance = \"{policy}\""));
        let counts: Vec<u64> = tally.servers.iter().map(|server| server.requests).collect();
        let mean = counts.iter().sum::<u64>() as f64 / counts.len() as f64;
        let (least, most) = (*counts.iter().min().unwrap() as f64, *counts.iter().max().unwrap() as f64);
        assert!(
            most <= share_max * mean && least >= (2.0 - share_max) * mean,
            "{policy}: {least} {mean} {most}"
        );
        assert_eq!(tally.fleet.ejections, 0, "{policy}");
    }
}

/// Each balancer has a server that comes back behind all others in its turns: if it went next, all balancers would send their next
/// request to it.
#[test]
fn a_rack_that_comes_back_is_not_overrun() {
    let world = |balance: &str| {
        let text = format!(
            r#"
question = "herd"
length = "12s"
balancers = 200
[[servers]]
count = 100
slots = 20
[[clients]]
name = "all"
count = 1000
rate = 12000
service = {{ exponential = "50ms" }}
{}{}
[[variant]]
name = "it"
balance = "{balance}"
health = {{ interval = "1s", rise = 1, fall = 1 }}
"#,
            event(3, "0-9", "stop"),
            event(6, "0-9", "recover"),
        );
        let tally = to_its_end(&read(&text), 0, 1);
        between(&tally, 6, 12).iter().map(|stretch| stretch.server_most).max().unwrap()
    };
    let chance = world("random");
    for balance in ["least-requests", "round-robin"] {
        let most = world(balance);
        assert!(most <= 2 * chance, "{balance}: {most} at one server at once, by chance {chance}");
    }
}

#[test]
fn the_retry_budget_bounds_the_load_of_an_outage() {
    let outage = event(8, "0-65", "hang") + &event(20, "0-65", "recover");
    let run = |retry: &str| {
        let retry = format!("on_timeout = true, attempts_max = 3, {retry}");
        fleet(
            1200,
            &outage,
            &format!("ejection = \"off\"\ntimeouts = {{ response = \"2s\" }}\nretry = {{ {retry} }}"),
        )
    };
    // A balancer has 60 requests per second, so the least of three retries per second adds nothing to a fifth of them.
    let default = amplification(between(&run("budget = \"20%\""), 8, 22));
    assert!(default <= 1.22 && default > 1.1, "{default}");
    let without_least = amplification(between(&run("budget = \"20%\", budget_per_second = 0"), 8, 22));
    assert!((without_least - default).abs() < 0.01, "{without_least}, {default}");
    // Twenty a second are a third of them.
    let with_much = amplification(between(&run("budget = \"20%\", budget_per_second = 20"), 8, 22));
    assert!(with_much > default + 0.02, "{with_much}, {default}");
    let unbounded = amplification(between(&run("budget = \"1000%\""), 8, 22));
    assert!(unbounded > default + 0.1, "without a budget the outage is the larger: {unbounded}, {default}");
}

#[test]
fn goodput_is_back_after_a_zone_was_away() {
    for action in ["stop", "hang", "fail"] {
        let outage = event(8, "0-65", action) + &event(18, "0-65", "recover");
        let tally = fleet(
            960,
            &outage,
            "timeouts = { response = \"6s\" }\nretry = { on_timeout = true, on_status = [503] }",
        );
        let late = between(&tally, 32, 40);
        let good = sum(late, |it| it.in_time) / sum(late, |it| it.begun);
        assert!(good > 0.95, "{action}: {good} of the requests are in time again");
        let failed = sum(between(&tally, 32, 40), |it| it.failed);
        assert_eq!(failed, 0.0, "{action}");
    }
}

#[test]
fn servers_that_all_fail_are_not_all_ejected() {
    let outage = event(8, "0-199", "fail") + &event(14, "0-199", "recover");
    let tally = fleet(1200, &outage, "source = { subset = 20 }");
    let ejections = tally.fleet.ejections;
    assert!(
        ejections > 100 && ejections <= 20 * 10,
        "each balancer ejects half of its 20 at most: {ejections}"
    );
    assert_eq!(sum(between(&tally, 15, 40), |it| it.failed), 0.0, "all are served as soon as servers are");
    assert_eq!(tally.fleet.ejections_wrong, 0);
}

/// A balancer that sends a server one request in many seconds never sees several failures in a row; with a subset it does.
#[test]
fn ejection_needs_servers_that_a_balancer_knows() {
    let outage = event(8, "0-5", "fail") + &event(30, "0-5", "recover");
    let failed = |source: &str| {
        let tally = fleet(240, &outage, source);
        sum(between(&tally, 20, 30), |it| it.failed) / sum(between(&tally, 20, 30), |it| it.begun)
    };
    let (all, subset) = (failed("source = { subset = \"off\" }"), failed("source = { subset = 10 }"));
    assert!(subset < 0.5 * all, "{subset} with ten servers each, {all} with all");
    assert!(all > 0.015, "{all}");
}

#[test]
fn late_sources_cost_retries_until_the_last_balancer_has_heard() {
    let replaced = event(0, "180-199", "leave")
        + &event(10, "0-19", "stop")
        + &event(10, "0-19", "leave")
        + &event(10, "180-199", "join");
    let tally = fleet(480, &replaced, "source = { delay = { uniform = [\"0s\", \"10s\"] } }");
    let retried = |from, until| {
        let stretches = between(&tally, from, until);
        sum(stretches, |it| it.attempts) - sum(stretches, |it| it.begun)
    };
    assert!(retried(10, 12) > 20.0, "the first of them are refused: {}", retried(10, 12));
    assert!(retried(20, 40) == 0.0, "all have heard: {}", retried(20, 40));
    assert!(retried(10, 13) > retried(17, 20), "fewer and fewer have not");
    // Two attempts may both meet servers that are gone: a tenth of a tenth at the beginning.
    let failed: u64 = tally.total().failures.iter().sum();
    assert!((failed as f64) < 0.02 * sum(between(&tally, 10, 20), |it| it.begun), "{failed}");
    let after: u64 = tally.servers[180..].iter().map(|server| server.requests).min().unwrap();
    assert!(after > 20, "servers that joined have work: {after}");
}

#[test]
fn a_subset_keeps_connections() {
    let model_figures = |variant: &str| {
        let tally = fleet(960, "", &format!("pool = {{ idle = \"2s\" }}\n{variant}"));
        (tally.fleet.connections_new as f64 / tally.fleet.attempts as f64, tally.fleet.connections_most)
    };
    let (all, at_one) = model_figures("");
    let (subset, at_one_of_subset) = model_figures("source = { subset = 50 }");
    // A request of one balancer to one server each 4 s, or each second.
    assert!(all > 0.9 && subset < 0.4, "{all} {subset}");
    assert!(at_one_of_subset <= 5 && at_one > 10, "{at_one} {at_one_of_subset}");
}

/// A world with everything that is drawn: subsets, delays, ejections.
#[test]
fn the_same_seed_gives_the_same_fleet() {
    let text = |seed: u64| {
        let events = event(5, "0-30", "fail") + &event(9, "0-30", "leave") + &event(12, "0-30", "join");
        let text = format!(
            "question = \"?\"\nlength = \"20s\"\nbalancers = 20\n[[servers]]\ncount = 100\nslots = 4\n[[clients]]\n\
             name = \"all\"\nrate = 500\nservice = \"100ms\"\n{events}[[variant]]\nname = \"it\"\n\
             source = {{ subset = 20, delay = {{ exponential = \"2s\" }} }}\n"
        );
        let model = read(&text);
        serde_json::to_string(&Report::new("test", &model, 0, &[to_its_end(&model, 0, seed)])).unwrap()
    };
    assert_eq!(text(3), text(3));
    assert_ne!(text(3), text(4));
}
