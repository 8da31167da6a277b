//! Agents of servers (`health.agent`): what they say, what it does beside probes and operators, and what hostile ones cannot do.

use std::sync::{Arc, Mutex};

use crate::harness::scripts::gated;
use crate::harness::{Client, Gate, Http2Client, Origin, Weir, eventually};

/// An agent that says a line to each connection, and can be made to say another.
struct Agent {
    line: Arc<Mutex<String>>,
    origin: Origin,
}

impl Agent {
    fn saying(line: &str) -> Agent {
        let line = Arc::new(Mutex::new(line.to_owned()));
        let said = Arc::clone(&line);
        let origin = Origin::start(move |conn| {
            conn.exempt("an agent speaks no HTTP");
            let line = said.lock().expect("no thread panics while it holds it").clone();
            conn.send(line)?;
            conn.wait_for_end();
            Some(())
        });
        Agent { line, origin }
    }

    fn say(&self, line: &str) {
        *self.line.lock().expect("no thread panics while it holds it") = line.to_owned();
    }

    /// Waits until it was asked twice more: then what it says has an effect, if it has one.
    fn wait_until_asked(&self) {
        self.origin.wait_for_connections(self.origin.connections() + 2);
    }

    fn port(&self) -> u16 {
        self.origin.address().port()
    }
}

/// Weir with two servers, of which only `a` has an agent.
fn config(a: &Origin, b: &Origin, agent: u16, more: &str) -> String {
    format!(
        r#"
        process.workers = 2
        admin = {{ address = "127.0.0.1:0", changes = true }}
        listener.web = {{ address = "127.0.0.1:0", upstream = "app", http2.prior_knowledge = "allowed" }}
        [upstream.app]
        balance = "round-robin"
        servers = [
            {{ name = "a", address = "{}" }},
            {{ name = "b", address = "{}", agent_port = "off" }},
        ]
        health = {{ interval = "20ms", agent = {{ port = {agent}, send = "a\n" }} }}
        {more}
        "#,
        a.address(),
        b.address()
    )
}

/// Which servers answer eight requests, over HTTP/1 and HTTP/2.
fn answering(weir: &Weir) -> String {
    let (mut one, mut two) = (Client::connect(weir.web()), Http2Client::connect(weir.web()));
    let mut answers: Vec<String> =
        (0..4).flat_map(|_| [one.fetch("/").text(), two.fetch("/").text()]).collect();
    answers.sort_unstable();
    answers.dedup();
    answers.concat()
}

#[test]
fn a_server_gets_what_its_agent_says() {
    let (a, b) = (Origin::serving("a"), Origin::serving("b"));
    let agent = Agent::saying("up 100%\n");
    let weir = Weir::start(&config(&a, &b, agent.port(), ""));
    for (line, expected) in [
        ("drain\n", "b"),
        ("ready\r\n", "ab"),
        ("Maint,\t50%\n", "b"),
        ("READY\n", "ab"),
        ("down # the disk is full\n", "b"),
        ("100% ready\n", "b"),
        ("up\n", "ab"),
        ("stopped\n", "b"),
        ("fail\n", "b"),
        ("up 0%\n", "b"),
        ("50% nonsense\n", "ab"),
    ] {
        agent.say(line);
        eventually(&format!("{line:?} has an effect"), || answering(&weir) == expected);
        agent.wait_until_asked();
        assert_eq!(answering(&weir), expected, "{line:?}");
        if line.contains('#') {
            let page = Client::get_by_address(weir.address("admin"), "/").text();
            assert!(page.contains("its agent says down") && page.contains("the disk is full"), "{page}");
        }
    }
    weir.line(&["the agent of the server changes its state", "drain"]);
}

#[test]
fn an_agent_limits_the_requests_of_its_server() {
    let gate = Gate::new();
    let a = gated(&gate, "/held", "a");
    let agent = Agent::saying("maxconn:1\n");
    let weir = Weir::start(&format!(
        r#"
        admin.address = "127.0.0.1:0"
        listener.web = {{ address = "127.0.0.1:0", upstream = "app" }}
        [upstream.app]
        servers = ["{}"]
        health = {{ interval = "20ms", agent = {{ port = {} }} }}
        "#,
        a.address(),
        agent.port()
    ));
    weir.line(&["the agent of the server changes its share", "maxconn:1"]);
    let mut first = Client::connect(weir.web());
    first.send_get("/held");
    a.wait_for_requests(1);
    let mut second = Client::connect(weir.web());
    second.send_get("/");
    let waiting = || weir.metrics().sum("weir_upstream_queue_length", &[]) == 1.0;
    eventually("the second waits", waiting);
    agent.say("maxconn:2\n");
    assert_eq!(second.response().text(), "a", "it need not wait any more");
    gate.open();
    assert_eq!(first.response().text(), "a");
}

/// Neither `ready` nor `up` of an agent undoes what an operator or the probes say.
#[test]
fn operators_and_probes_have_their_say() {
    let (a, b) = (Origin::serving("a"), Origin::serving("b"));
    let agent = Agent::saying("up ready\n");
    let weir = Weir::start(&config(&a, &b, agent.port(), ""));
    weir.set_mode("a", "draining");
    agent.wait_until_asked();
    assert_eq!(answering(&weir), "b");
    agent.say("maint\n");
    agent.wait_until_asked();
    weir.set_mode("a", "serving");
    assert_eq!(answering(&weir), "b", "now it is the agent");
    agent.say("ready down\n");
    agent.wait_until_asked();
    assert_eq!(answering(&weir), "b");
    agent.say("up\n");
    eventually("both are well", || answering(&weir) == "ab");
    let address = a.address();
    drop(a);
    eventually("its probes fail", || answering(&weir) == "b");
    agent.wait_until_asked();
    assert_eq!(answering(&weir), "b", "{address}: `up` does not help");
}

#[test]
fn what_is_no_answer_changes_nothing() {
    let (a, b) = (Origin::serving("a"), Origin::serving("b"));
    let agent = Agent::saying("up\n");
    let weir = Weir::start(&config(&a, &b, agent.port(), ""));
    agent.wait_until_asked();
    for line in
        ["down", "", "\n", "what is this\n", "DOWN#now\n", "-5% maxconn:-1 5%x\n", "\u{1b}[2J\u{0}down\n"]
    {
        agent.say(line);
        agent.wait_until_asked();
        assert_eq!(answering(&weir), "ab", "{line:?}");
    }
    agent.say(&format!("{}down\n", " ".repeat(1_024)));
    agent.wait_until_asked();
    assert_eq!(answering(&weir), "ab", "a line that is too long");
    agent.say(&"x".repeat(1_000_000));
    agent.wait_until_asked();
    assert_eq!(answering(&weir), "ab");
}

/// What an agent has said stays over a reload and an upgrade, also while it is silent, until the config does not ask it any more.
#[test]
fn its_word_outlives_reload_and_upgrade() {
    let (a, b) = (Origin::serving("a"), Origin::serving("b"));
    let agent = Agent::saying("drain 50%\n");
    let text = config(&a, &b, agent.port(), "");
    let mut weir = Weir::start(&text);
    eventually("it drains", || answering(&weir) == "b");
    agent.say("");
    agent.wait_until_asked();
    weir.reload(&config(&a, &b, agent.port(), "slow_start = \"1s\""));
    assert_eq!(answering(&weir), "b");
    weir.reload(&text.replace("name = \"a\",", "name = \"a\", agent_port = \"off\","));
    eventually("nothing is asked, so nothing counts", || answering(&weir) == "ab");
    agent.say("drain 50%\n");
    weir.reload(&text);
    eventually("it drains", || answering(&weir) == "b");
    agent.say("");
    agent.wait_until_asked();
    weir.upgrade();
    weir.wait_for_exit_of_the_first();
    assert_eq!(answering(&weir), "b", "it drains in the next process");
    agent.say("ready\n");
    eventually("it gets requests again", || answering(&weir) == "ab");
}

/// A share of a weight of 1 is neither nothing nor all of it.
#[test]
fn a_share_is_that_of_the_requests() {
    let (a, b) = (Origin::serving("a"), Origin::serving("b"));
    let agent = Agent::saying("25%\n");
    let weir = Weir::start(&config(&a, &b, agent.port(), "").replace("workers = 2", "workers = 1"));
    weir.line(&["the agent of the server changes its share", "25%"]);
    let before = a.requests().len();
    let mut client = Client::connect(weir.web());
    for _ in 0..50 {
        client.fetch("/");
    }
    let share = a.requests().len() - before;
    assert!((9..=11).contains(&share), "one for each four of the other: {share}");
}
