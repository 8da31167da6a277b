//! What is believed of a source: its last servers stay through an outage, and an answer without any server counts only after a grace
//! period. Changes within ten milliseconds are sent as one. Pure: both clocks are passed in.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use weir_http::WallTime;

use crate::server_set::{DiscoveredServer, ServerSet, ServerSetOrigin};

/// Changes of one upstream within this time are one change.
const COALESCING: Duration = Duration::from_millis(10);

/// The servers of one upstream at most: a source that names more is not believed.
pub(crate) const SERVERS_MAX: usize = 10_000;

/// What a source reports.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum SourceReport {
    /// These are all servers now.
    Said {
        /// The servers.
        servers: Vec<DiscoveredServer>,
        /// What the source says beside that and has no effect.
        remark: Option<Box<str>>,
    },
    /// There is no answer that can be used, and why.
    Failed(Box<str>),
}

/// Since when a source has not answered whose servers of before are in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnansweredSince {
    /// The start of the process: an earlier one has left the servers.
    Start,
    /// The start of the process in an upgrade: the one before has the servers in use.
    Upgrade,
    /// A config with other settings of all sources, by which it is asked anew.
    Settings,
    /// A panic in the task of all sources, after which it is asked anew.
    Panic,
}

impl UnansweredSince {
    fn problem(self) -> &'static str {
        match self {
            Self::Start => "not answered yet since the start",
            Self::Upgrade => "not answered yet since this process has replaced another one",
            Self::Settings => "not answered yet since a reload has changed how sources are asked",
            Self::Panic => {
                "not answered yet since the task of all sources has ended by a defect of Weir and was begun anew: see the log"
            }
        }
    }
}

/// The state of one source.
#[derive(Debug)]
pub(crate) struct SourceState {
    upstream: Box<str>,
    source: Box<str>,
    empty_grace: Duration,
    /// What is believed; `None`: nothing yet.
    known: Option<(Vec<DiscoveredServer>, WallTime)>,
    problem: Option<Box<str>>,
    remark: Option<Box<str>>,
    is_stale: bool,
    unanswered: Option<UnansweredSince>,
    /// Whether it has neither answered nor failed.
    is_unheard: bool,
    /// When an empty answer is believed, unless servers come back.
    empty_at: Option<Instant>,
    send_at: Option<Instant>,
}

impl SourceState {
    pub(crate) fn new(upstream: Box<str>, source: Box<str>, empty_grace: Duration) -> Self {
        Self {
            upstream,
            source,
            empty_grace,
            known: None,
            problem: None,
            remark: None,
            is_stale: false,
            unanswered: None,
            is_unheard: true,
            empty_at: None,
            send_at: None,
        }
    }

    /// Takes over what was known before; sent at once, since the source may be away.
    pub(crate) fn remember(
        &mut self,
        servers: Vec<DiscoveredServer>,
        said_at: WallTime,
        unanswered: UnansweredSince,
        now: Instant,
    ) {
        self.known = Some((servers, said_at));
        self.is_stale = true;
        self.unanswered = Some(unanswered);
        self.problem = Some(unanswered.problem().into());
        self.send_at = Some(now);
    }

    /// Takes in a report.
    pub(crate) fn hear(&mut self, report: SourceReport, now: Instant, date: WallTime) {
        self.is_unheard = false;
        let (servers, remark) = match report {
            SourceReport::Said { servers, .. } if servers.len() > SERVERS_MAX => {
                let count = servers.len();
                return self.fail(format!("it names {count} servers; the most is {SERVERS_MAX}").into(), now);
            }
            SourceReport::Said { servers, remark } => (unique(servers), remark),
            SourceReport::Failed(problem) => return self.fail(problem, now),
        };
        self.unanswered = None;
        if self.remark != remark {
            self.remark = remark;
            self.send_soon(now);
        }
        let had_servers = self.known.as_ref().is_some_and(|(known, _)| !known.is_empty());
        if servers.is_empty() && had_servers {
            // It does answer; what it says is not believed yet.
            let seconds = self.empty_grace.as_secs_f64();
            let problem = format!("it names no server any more, which is believed after {seconds} s");
            self.empty_at.get_or_insert(now + self.empty_grace);
            return self.note(false, Some(problem.into()), now);
        }
        self.empty_at = None;
        let is_other = self.known.as_ref().is_none_or(|(known, _)| *known != servers);
        self.known = Some((servers, date));
        if is_other {
            self.send_soon(now);
        }
        self.note(false, None, now);
    }

    fn fail(&mut self, problem: Box<str>, now: Instant) {
        // An outage does not confirm an empty answer: the grace begins again with the next one.
        self.empty_at = None;
        self.note(true, Some(problem), now);
    }

    fn note(&mut self, is_stale: bool, problem: Option<Box<str>>, now: Instant) {
        if (self.is_stale, &self.problem) != (is_stale, &problem) {
            (self.is_stale, self.problem) = (is_stale, problem);
            self.send_soon(now);
        }
    }

    fn send_soon(&mut self, now: Instant) {
        self.send_at.get_or_insert(now + COALESCING);
    }

    /// When [`Self::take`] has something to do next.
    pub(crate) fn due(&self) -> Option<Instant> {
        match (self.send_at, self.empty_at) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }

    /// The set to send now. Without any answer yet, there is none: an upstream whose source was never heard has no servers, which is
    /// not the same as being told so; but the reason is worth saying.
    pub(crate) fn take(&mut self, now: Instant, date: WallTime) -> Option<ServerSet> {
        if self.empty_at.is_some_and(|at| at <= now) {
            self.empty_at = None;
            self.known = Some((Vec::new(), date));
            self.problem = None;
            self.send_at = Some(now);
        }
        if self.send_at.is_none_or(|at| at > now) {
            return None;
        }
        self.send_at = None;
        let (servers, said_at) = self.known.clone().unwrap_or((Vec::new(), WallTime::EPOCH));
        let origin = ServerSetOrigin {
            source: self.source.clone(),
            said_at,
            is_stale: self.is_stale,
            is_unheard: self.is_unheard,
            problem: self.problem.clone(),
            remark: self.remark.clone(),
        };
        Some(ServerSet { upstream: self.upstream.clone(), servers, origin })
    }

    /// What a next process would want to know.
    pub(crate) fn known(&self) -> Option<(&[DiscoveredServer], WallTime)> {
        self.known.as_ref().map(|(servers, said_at)| (&servers[..], *said_at))
    }

    /// Since when it has not answered, if it has not since it was begun.
    pub(crate) fn unanswered(&self) -> Option<UnansweredSince> {
        self.unanswered
    }

    pub(crate) fn source(&self) -> &str {
        &self.source
    }
}

/// The servers by name, each address and each name once: the first of several stays.
fn unique(mut servers: Vec<DiscoveredServer>) -> Vec<DiscoveredServer> {
    let (mut addresses, mut names) = (HashSet::new(), HashSet::new());
    servers.retain(|server| addresses.insert(server.address.clone()) && names.insert(server.shown_name()));
    servers.sort_by_cached_key(DiscoveredServer::shown_name);
    servers
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(30);

    fn servers(ports: &[u16]) -> Vec<DiscoveredServer> {
        ports.iter().map(|port| DiscoveredServer::new(format!("127.0.0.1:{port}").parse().unwrap())).collect()
    }

    struct Source {
        state: SourceState,
        start: Instant,
    }

    impl Source {
        fn new() -> Self {
            Self { state: SourceState::new("app".into(), "file x".into(), GRACE), start: crate::clock::now() }
        }

        fn at(&self, millis: u64) -> (Instant, WallTime) {
            (self.start + Duration::from_millis(millis), WallTime::EPOCH + Duration::from_millis(millis))
        }

        fn say(&mut self, millis: u64, ports: &[u16]) {
            let (now, date) = self.at(millis);
            self.state.hear(SourceReport::Said { servers: servers(ports), remark: None }, now, date);
        }

        fn fail(&mut self, millis: u64, why: &str) {
            let (now, date) = self.at(millis);
            self.state.hear(SourceReport::Failed(why.into()), now, date);
        }

        /// Ports, staleness and problem of the set that is sent at this moment.
        fn sent(&mut self, millis: u64) -> Option<(Vec<u16>, bool, Option<String>)> {
            let (now, date) = self.at(millis);
            let set = self.state.take(now, date)?;
            let ports = set.servers.iter().map(|server| server.address.port().unwrap()).collect();
            Some((ports, set.origin.is_stale, set.origin.problem.map(String::from)))
        }
    }

    #[test]
    fn changes_within_ten_milliseconds_are_one() {
        let mut source = Source::new();
        source.say(0, &[1]);
        source.say(4, &[1, 2]);
        assert_eq!(source.sent(9), None);
        source.say(9, &[1, 2, 3]);
        assert_eq!(source.sent(10), Some((vec![1, 2, 3], false, None)));
        source.say(20, &[3, 2, 1, 1]);
        assert_eq!(source.sent(1000), None, "another order and a repetition are no change");
        assert_eq!(source.state.due(), None);
    }

    #[test]
    fn an_outage_changes_no_server_and_is_said_once() {
        let mut source = Source::new();
        source.say(0, &[1]);
        source.sent(10).unwrap();
        source.fail(100, "refused");
        assert_eq!(source.sent(110), Some((vec![1], true, Some("refused".to_owned()))));
        source.fail(200, "refused");
        assert_eq!(source.sent(300), None);
        source.say(400, &[2]);
        assert_eq!(source.sent(410), Some((vec![2], false, None)));
    }

    #[test]
    fn an_empty_answer_is_believed_after_the_grace_only() {
        let mut source = Source::new();
        source.say(0, &[1]);
        source.sent(10).unwrap();
        source.say(100, &[]);
        let (ports, is_stale, problem) = source.sent(110).unwrap();
        assert_eq!((ports, is_stale), (vec![1], false));
        assert!(problem.unwrap().contains("believed after 30 s"));
        source.say(20_000, &[]);
        assert_eq!(source.sent(30_099), None);
        assert_eq!(source.sent(30_100), Some((vec![], false, None)));
        source.say(40_000, &[5]);
        assert_eq!(source.sent(40_010), Some((vec![5], false, None)), "back at once");
    }

    #[test]
    fn servers_that_come_back_and_outages_end_the_grace() {
        let mut source = Source::new();
        source.say(0, &[1]);
        source.say(100, &[]);
        source.say(200, &[1]);
        assert_eq!(source.sent(60_000), Some((vec![1], false, None)));
        source.say(70_000, &[]);
        source.fail(80_000, "refused");
        assert_eq!(source.sent(300_000).unwrap().0, [1], "an outage does not confirm it");
        source.say(300_000, &[]);
        assert_eq!(source.sent(329_999).unwrap().0, [1]);
        assert_eq!(source.sent(330_000).unwrap().0, [0; 0]);
    }

    #[test]
    fn the_first_answer_is_believed_even_if_empty() {
        let mut source = Source::new();
        source.say(0, &[]);
        assert_eq!(source.sent(10), Some((vec![], false, None)));
    }

    #[test]
    fn what_an_earlier_process_knew_is_sent_at_once() {
        let mut source = Source::new();
        let (now, date) = source.at(0);
        source.state.remember(servers(&[7]), date, UnansweredSince::Start, now);
        let problem = UnansweredSince::Start.problem().to_owned();
        assert_eq!(source.sent(0), Some((vec![7], true, Some(problem))));
        source.fail(20, "refused");
        assert_eq!(source.state.unanswered(), Some(UnansweredSince::Start));
        source.say(50, &[]);
        assert_eq!(source.sent(60).unwrap().0, [7], "the grace holds for it, too");
        assert_eq!(source.state.unanswered(), None);
    }

    #[test]
    fn a_remark_is_sent_when_it_changes() {
        let mut source = Source::new();
        let remark = |source: &mut Source, millis: u64, remark: Option<&str>| {
            let (now, date) = source.at(millis);
            let report = SourceReport::Said { servers: servers(&[1]), remark: remark.map(Into::into) };
            source.state.hear(report, now, date);
            let (now, date) = source.at(millis + 10);
            source.state.take(now, date).map(|set| (set.origin.remark.map(String::from), set.origin.problem))
        };
        assert_eq!(remark(&mut source, 0, Some("a")), Some((Some("a".to_owned()), None)));
        assert_eq!(remark(&mut source, 100, Some("a")), None);
        assert_eq!(remark(&mut source, 200, None), Some((None, None)));
    }

    #[test]
    fn too_many_servers_are_not_believed() {
        let mut source = Source::new();
        source.say(0, &[1]);
        let (now, date) = source.at(5);
        let many = (0..=SERVERS_MAX).map(|number| {
            DiscoveredServer::new(format!("10.0.{}.{}:80", number / 256, number % 256).parse().unwrap())
        });
        source.state.hear(SourceReport::Said { servers: many.collect(), remark: None }, now, date);
        let (ports, is_stale, problem) = source.sent(20).unwrap();
        assert_eq!((ports, is_stale), (vec![1], true));
        assert_eq!(problem.unwrap(), "it names 10001 servers; the most is 10000");
    }
}
