//! Consul, followed by blocking queries: the agent answers when something has changed, or after some minutes. `service` asks for the instances of
//! a service, `fragments` for keys that hold routes; both read answers without I/O.

mod service;
mod fragments;
mod instances;

use std::time::Duration;

use http::Method;
use weir_config::{ConsulAgent, ConsulService};

use self::fragments::FragmentQuestion;
use self::service::ServiceQuestion;
use crate::clock;
use crate::last_known::report::Reporter;
use crate::last_known::route_report::RouteReporter;
use crate::sources::backoff::Backoff;
use crate::sources::source_client::{Query, RequestProblem, SourceClient};

/// How long the agent waits for a change. It adds up to a sixteenth.
const WAIT: Duration = Duration::from_secs(60);

/// What an answer may take beyond that.
const EXTRA: Duration = Duration::from_secs(15);

/// Between answers of a service that changes all the time: no more than this many questions per second.
const PAUSE: Duration = Duration::from_millis(20);

/// What an agent is asked again and again.
trait BlockingQuestion {
    type Answer;
    /// The path of the API, with a query; an answer to an `index` other than 0 waits for a change behind that.
    fn target(&self, index: u64) -> String;
    /// Reads the body of an answer, or says what is wrong with it.
    fn read(&self, body: &[u8]) -> Result<Self::Answer, String>;
    /// What a 404 of the store means, if that is an answer.
    fn absent(&self) -> Option<Self::Answer>;
    /// This is so now.
    fn said(&self, answer: Self::Answer);
    /// There is no answer now.
    fn failed(&self, why: &RequestProblem);
}

/// Follows the instances of a service until the task is dropped.
pub(crate) async fn follow(service: ConsulService, agent: ConsulAgent, reporter: Reporter) {
    keep_asking(&agent, &ServiceQuestion { service, reporter }).await;
}

/// Follows the fragments below a prefix until the task is dropped.
pub(crate) async fn follow_routes(
    prefix: Box<str>,
    datacenter: Option<Box<str>>,
    agent: ConsulAgent,
    reporter: RouteReporter,
) {
    keep_asking(&agent, &FragmentQuestion { prefix, datacenter, reporter }).await;
}

async fn keep_asking<Q: BlockingQuestion>(agent: &ConsulAgent, question: &Q) {
    let mut client = SourceClient::new(agent.url.clone(), agent.tls.as_ref());
    let mut backoff = Backoff::default();
    let mut index = 0;
    loop {
        match ask(&mut client, question, agent, index).await {
            Ok((next, answer)) => {
                backoff.reset();
                index = next_index(index, next);
                question.said(answer);
                tokio::time::sleep(PAUSE).await;
            }
            Err(problem) => {
                // What was missed meanwhile must not be waited for.
                index = 0;
                question.failed(&problem);
                tokio::time::sleep(backoff.next_wait(clock::random())).await;
            }
        }
    }
}

/// The index of the next question: one that goes backwards is that of a registry that began anew, and 0 would not wait.
fn next_index(before: u64, answered: u64) -> u64 {
    if answered < before { 0 } else { answered.max(1) }
}

/// The index of an answer, and what it says.
async fn ask<Q: BlockingQuestion>(
    client: &mut SourceClient,
    question: &Q,
    agent: &ConsulAgent,
    index: u64,
) -> Result<(u64, Q::Answer), RequestProblem> {
    let target = question.target(index);
    let field = agent.token.as_ref().map(|token| ("X-Consul-Token", &*token.0));
    let query = Query { method: Method::GET, target: &target, field, body: "" };
    let wait = if index == 0 { EXTRA } else { WAIT + WAIT / 16 + EXTRA };
    let response = client.send(query, wait).await?.whole(EXTRA).await?;
    let (status, body) = (response.status().as_u16(), response.body());
    let index = response.headers().get("x-consul-index").and_then(|index| index.to_str().ok()?.parse().ok());
    let index = index.unwrap_or(0);
    // A 404 without an index is none of the store's.
    let absent = if status == 404 && index > 0 { question.absent() } else { None };
    let answer = match (status, absent) {
        (200, _) => {
            question.read(body).map_err(|why| RequestProblem::Refused(format!("{}: {why}", agent.url)))?
        }
        (_, Some(absent)) => absent,
        (status, None) => return Err(RequestProblem::Refused(refusal(status, body, agent))),
    };
    Ok((index, answer))
}

fn refusal(status: u16, body: &[u8], agent: &ConsulAgent) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(200)]);
    let hint = match (status, &agent.token) {
        (403, None) => "; name a file with a token: `discovery.consul.token_file`",
        (403, Some(_)) => "; the token needs `service:read` and `node:read`, and `key:read` for routes",
        _ => "",
    };
    format!("{} answered {status} ({}){hint}", agent.url, text.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_that_goes_backwards_begins_anew() {
        for (before, answered, next) in [(0, 5, 5), (5, 5, 5), (5, 9, 9), (9, 3, 0), (0, 0, 1), (1, 0, 0)] {
            assert_eq!(next_index(before, answered), next, "{before} {answered}");
        }
    }
}
