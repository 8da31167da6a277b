//! The answer of an agent: a line by which a server says how much it wants to get, in the grammar of HAProxy's `agent-check`.
//!
//! Words are separated by blanks, tabs or commas; of several of one kind the last counts, and what follows a `#` describes a status.
//! [`AgentReport`] adds up answers: what one does not mention stays as it was.

use crate::server::{Mode, PART_FULL, WEIGHT_MAX};

/// Bytes of an answer that are read to its end; a longer one is none.
pub const AGENT_ANSWER_BYTES_MAX: usize = 1024;

/// The largest percentage; more counts as this.
const PERCENT_MAX: u32 = 25_600;

/// The largest number of requests that an agent can allow; more counts as this.
const REQUESTS_MAX: u32 = 10_000_000;

/// What an agent says of the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentStatus {
    /// It works.
    Up,
    /// It does not.
    Down,
    /// It was stopped on purpose.
    Stopped,
    /// It runs and does not work.
    Fail,
}

impl AgentStatus {
    const ALL: [AgentStatus; 4] =
        [AgentStatus::Up, AgentStatus::Down, AgentStatus::Stopped, AgentStatus::Fail];

    /// The one of this name.
    pub fn named(name: &str) -> Option<AgentStatus> {
        AgentStatus::ALL.into_iter().find(|status| status.name() == name)
    }

    /// The word of the agent.
    pub const fn name(self) -> &'static str {
        match self {
            AgentStatus::Up => "up",
            AgentStatus::Down => "down",
            AgentStatus::Stopped => "stopped",
            AgentStatus::Fail => "fail",
        }
    }
}

/// One answer. What it does not mention is `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AgentAnswer {
    /// The share of the weight of the config, in percent.
    pub weight_percent: Option<u32>,
    /// Concurrent requests; 0: any number.
    pub max_requests: Option<u32>,
    /// `ready`, `drain`, `maint`.
    pub mode: Option<Mode>,
    /// `up`, `down`, `stopped`, `fail`.
    pub status: Option<AgentStatus>,
    /// What describes the status, without control characters; may be empty.
    pub description: Box<str>,
    /// The first word that is none, or whose number is none, without control characters.
    pub unknown: Option<Box<str>>,
}

impl AgentAnswer {
    /// Reads the first line of what an agent has sent; `None` while the line has no end, as of an agent that closes its connection within it.
    pub fn parse(received: &[u8]) -> Option<AgentAnswer> {
        let end = received.iter().position(|byte| matches!(byte, b'\r' | b'\n' | 0))?;
        let line = &received[..end];
        let begin = description_begin(line);
        let (words, description) = line.split_at(begin.unwrap_or(line.len()));
        let mut answer = AgentAnswer { description: printable(description), ..AgentAnswer::default() };
        let (mut weight, mut max_requests) = (None, None);
        let words = words.split(|byte| matches!(byte, b' ' | b'\t' | b',')).filter(|word| !word.is_empty());
        for word in words {
            let is = |known: &str| word.eq_ignore_ascii_case(known.as_bytes());
            match word {
                _ if is("up") => answer.status = Some(AgentStatus::Up),
                _ if is("down") => answer.status = Some(AgentStatus::Down),
                _ if is("stopped") => answer.status = Some(AgentStatus::Stopped),
                _ if is("fail") => answer.status = Some(AgentStatus::Fail),
                _ if is("ready") => answer.mode = Some(Mode::Serving),
                _ if is("drain") => answer.mode = Some(Mode::Draining),
                _ if is("maint") => answer.mode = Some(Mode::Maintenance),
                [b'0'..=b'9', ..] if word.contains(&b'%') => weight = Some(word),
                _ if word.len() >= 8 && word[..8].eq_ignore_ascii_case(b"maxconn:") => {
                    max_requests = Some(word);
                }
                _ => answer.note_unknown(word),
            }
        }
        if let Some(word) = weight {
            answer.weight_percent = word.strip_suffix(b"%").and_then(|digits| number(digits, PERCENT_MAX));
            answer.note_unless(answer.weight_percent.is_some(), word);
        }
        if let Some(word) = max_requests {
            answer.max_requests = number(&word[8..], REQUESTS_MAX);
            answer.note_unless(answer.max_requests.is_some(), word);
        }
        Some(answer)
    }

    fn note_unless(&mut self, is_known: bool, word: &[u8]) {
        if !is_known {
            self.note_unknown(word);
        }
    }

    fn note_unknown(&mut self, word: &[u8]) {
        self.unknown.get_or_insert_with(|| printable(word));
    }
}

/// Where the description begins: at a `#` at the beginning of a word.
fn description_begin(line: &[u8]) -> Option<usize> {
    (0..line.len()).find(|&at| line[at] == b'#' && (at == 0 || matches!(line[at - 1], b' ' | b'\t' | b',')))
}

/// A number in decimal digits, `max` if it is greater.
fn number(digits: &[u8], max: u32) -> Option<u32> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let add = |sum: u32, digit: &u8| sum.saturating_mul(10).saturating_add(u32::from(digit - b'0'));
    Some(digits.iter().fold(0, add).min(max))
}

/// The text behind a `#` and blanks, as it can be logged.
fn printable(text: &[u8]) -> Box<str> {
    const LEN_MAX: usize = 200;
    let text = String::from_utf8_lossy(text);
    let text = text.trim_start_matches('#').trim();
    text.chars().map(|it| if it.is_control() { '?' } else { it }).take(LEN_MAX).collect()
}

/// What an agent has said by now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentReport {
    /// The share of the weight of the config, in percent; `None`: all of it.
    pub weight_percent: Option<u32>,
    /// Concurrent requests, 0 for any number; `None`: as many as the config says.
    pub max_requests: Option<u32>,
    /// The mode that it wants; that of the operator counts if it allows less.
    pub mode: Mode,
    /// What it says of the service.
    pub status: AgentStatus,
    /// Why.
    pub description: Box<str>,
}

impl Default for AgentReport {
    fn default() -> Self {
        AgentReport {
            weight_percent: None,
            max_requests: None,
            mode: Mode::Serving,
            status: AgentStatus::Up,
            description: Box::default(),
        }
    }
}

impl AgentReport {
    /// The same with what an answer says.
    #[must_use]
    pub fn with(&self, answer: AgentAnswer) -> AgentReport {
        let status = answer.status.unwrap_or(self.status);
        let says_status = answer.status.is_some() || !answer.description.is_empty();
        AgentReport {
            weight_percent: answer.weight_percent.or(self.weight_percent),
            max_requests: answer.max_requests.or(self.max_requests),
            mode: answer.mode.unwrap_or(self.mode),
            status,
            description: if says_status { answer.description } else { self.description.clone() },
        }
    }

    /// The weight of a server to which the config gives `configured`, and the part of it that counts, in 1/32: together the share that the agent
    /// wants, also of a small weight.
    pub fn weight(&self, configured: u32) -> (u32, u32) {
        let Some(percent) = self.weight_percent else { return (configured, PART_FULL) };
        let hundredths = configured * percent;
        let weight = hundredths.div_ceil(100);
        match weight {
            0 => (0, PART_FULL),
            WEIGHT_MAX.. => (WEIGHT_MAX, PART_FULL),
            _ => (weight, (hundredths * PART_FULL / (weight * 100)).max(1)),
        }
    }

    /// Whether the service does not work.
    pub fn is_down(&self) -> bool {
        self.status != AgentStatus::Up
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn answer() -> AgentAnswer {
        AgentAnswer::default()
    }

    #[test]
    fn answers_are_read_as_haproxy_reads_them() {
        let up = Some(AgentStatus::Up);
        for (line, expected) in [
            ("up\n", AgentAnswer { status: up, ..answer() }),
            ("UP\r\nthe rest", AgentAnswer { status: up, ..answer() }),
            ("75%\n", AgentAnswer { weight_percent: Some(75), ..answer() }),
            ("0%\n", AgentAnswer { weight_percent: Some(0), ..answer() }),
            ("99999999999%\n", AgentAnswer { weight_percent: Some(25_600), ..answer() }),
            ("maxconn:30\n", AgentAnswer { max_requests: Some(30), ..answer() }),
            (
                " ready,\tup  50% MAXCONN:7\n",
                AgentAnswer {
                    status: up,
                    mode: Some(Mode::Serving),
                    weight_percent: Some(50),
                    max_requests: Some(7),
                    ..answer()
                },
            ),
            ("drain maint\n", AgentAnswer { mode: Some(Mode::Maintenance), ..answer() }),
            (
                "fail # the queue is full, 90%\n",
                AgentAnswer {
                    status: Some(AgentStatus::Fail),
                    description: "the queue is full, 90%".into(),
                    ..answer()
                },
            ),
            ("stopped #\n", AgentAnswer { status: Some(AgentStatus::Stopped), ..answer() }),
            ("down#x\n", AgentAnswer { unknown: Some("down#x".into()), ..answer() }),
            ("7%x 3\n", AgentAnswer { unknown: Some("3".into()), ..answer() }),
            ("50% 7%x\n", AgentAnswer { unknown: Some("7%x".into()), ..answer() }),
            ("-5%\n", AgentAnswer { unknown: Some("-5%".into()), ..answer() }),
            ("maxconn:\n", AgentAnswer { unknown: Some("maxconn:".into()), ..answer() }),
            ("maxconn:-1\n", AgentAnswer { unknown: Some("maxconn:-1".into()), ..answer() }),
            ("\n", answer()),
            ("\x1b[2J\n", AgentAnswer { unknown: Some("?[2J".into()), ..answer() }),
        ] {
            assert_eq!(AgentAnswer::parse(line.as_bytes()), Some(expected), "{line:?}");
        }
        for line in ["", "up", "75% # half"] {
            assert_eq!(AgentAnswer::parse(line.as_bytes()), None, "{line:?} has no end");
        }
    }

    #[test]
    fn what_is_not_mentioned_stays() {
        let read =
            |report: &AgentReport, line: &str| report.with(AgentAnswer::parse(line.as_bytes()).unwrap());
        let first = read(&AgentReport::default(), "drain 50% maxconn:9 down # disk\n");
        assert_eq!((first.weight(10), first.is_down()), ((5, PART_FULL), true));
        assert_eq!((first.weight(1), first.weight(3)), ((1, PART_FULL / 2), (2, PART_FULL * 3 / 4)));
        let second = read(&first, "ready\n");
        assert_eq!(second, AgentReport { mode: Mode::Serving, ..first });
        let third = read(&second, "up 300%\n");
        assert_eq!(
            (third.weight(256), &*third.description, third.max_requests),
            ((256, PART_FULL), "", Some(9))
        );
        let fourth = read(&third, "0%\n");
        assert_eq!((fourth.weight(256), fourth.weight(0)), ((0, PART_FULL), (0, PART_FULL)));
        assert_eq!(read(&third, "what is this\n"), third);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Some(answer) = AgentAnswer::parse(&bytes) {
                let report = AgentReport::default().with(answer);
                for configured in [0, 1, 7, 256] {
                    let (weight, part) = report.weight(configured);
                    prop_assert!(weight <= WEIGHT_MAX && (1..=PART_FULL).contains(&part));
                }
                prop_assert!(!report.description.chars().any(char::is_control));
            }
        }
    }
}
