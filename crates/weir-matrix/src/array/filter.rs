//! Which cases are meant, in words: `client=h2|h2c body=cut +cache -basic`.

use std::fmt;
use std::str::FromStr;

use anyhow::bail;

use super::factors::{Body, Case, Client, Event, Feature, Method, Server};

/// Conditions on a case, all of which it has to meet.
#[derive(Debug, Clone)]
pub(crate) struct CaseFilter {
    text: String,
    conditions: Vec<CaseCondition>,
}

#[derive(Debug, Clone)]
enum CaseCondition {
    Client(Vec<Client>),
    Server(Vec<Server>),
    Method(Vec<Method>),
    Body(Vec<Body>),
    Event(Vec<Event>),
    On(Feature),
    Off(Feature),
}

impl CaseFilter {
    pub(crate) fn matches(&self, case: &Case) -> bool {
        self.conditions.iter().all(|condition| match condition {
            CaseCondition::Client(values) => values.contains(&case.client),
            CaseCondition::Server(values) => values.contains(&case.server),
            CaseCondition::Method(values) => values.contains(&case.method),
            CaseCondition::Body(values) => values.contains(&case.body),
            CaseCondition::Event(values) => values.contains(&case.event),
            CaseCondition::On(feature) => case.has(*feature),
            CaseCondition::Off(feature) => !case.has(*feature),
        })
    }
}

impl FromStr for CaseFilter {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let conditions = text.split_ascii_whitespace().map(condition).collect::<anyhow::Result<_>>()?;
        Ok(Self { text: text.to_owned(), conditions })
    }
}

fn condition(word: &str) -> anyhow::Result<CaseCondition> {
    let read = || {
        if let Some(name) = word.strip_prefix('+') {
            return Feature::named(name).map(CaseCondition::On);
        }
        if let Some(name) = word.strip_prefix('-') {
            return Feature::named(name).map(CaseCondition::Off);
        }
        let (factor, values) = word.split_once('=')?;
        let values = values.split('|');
        Some(match factor {
            "client" => CaseCondition::Client(values.map(Client::named).collect::<Option<_>>()?),
            "server" => CaseCondition::Server(values.map(Server::named).collect::<Option<_>>()?),
            "method" => CaseCondition::Method(values.map(Method::named).collect::<Option<_>>()?),
            "body" => CaseCondition::Body(values.map(Body::named).collect::<Option<_>>()?),
            "event" => CaseCondition::Event(values.map(Event::named).collect::<Option<_>>()?),
            _ => return None,
        })
    };
    match read() {
        Some(condition) => Ok(condition),
        None => bail!("{word} names no factor, or no value of it"),
    }
}

impl fmt::Display for CaseFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
