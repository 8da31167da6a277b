//! A service in Consul, followed by blocking queries of `/v1/health/service`: the agent answers when something has changed, or after some
//! minutes. `instances` reads the answers, without I/O.

mod fragments;
mod instances;

use std::time::Duration;

use weir_config::{ConsulAgent, ConsulService};

use self::instances::servers_of;
use crate::backoff::Backoff;
use crate::clock;
use crate::http_client::{HttpClient, Query, RequestProblem, percent_encoded};
use crate::report::Reporter;
use crate::route_sources::RouteReporter;

/// How long the agent waits for a change. It adds up to a sixteenth.
const WAIT: Duration = Duration::from_secs(60);

/// What an answer may take beyond that.
const EXTRA: Duration = Duration::from_secs(15);

/// Between answers of a service that changes all the time: no more than this many questions per second.
const PAUSE: Duration = Duration::from_millis(20);

/// Asks until the task is dropped.
pub(crate) async fn follow(service: ConsulService, agent: ConsulAgent, reporter: Reporter) {
    let mut client = HttpClient::new(agent.url.clone(), agent.tls.as_ref());
    let mut backoff = Backoff::default();
    let mut index = 0;
    loop {
        match ask(&mut client, &service, &agent, index).await {
            Ok((next, servers)) => {
                backoff.reset();
                index = next_index(index, next);
                reporter.said(servers);
                tokio::time::sleep(PAUSE).await;
            }
            Err(problem) => {
                // What was missed meanwhile must not be waited for.
                index = 0;
                reporter.failed(&problem);
                tokio::time::sleep(backoff.next_wait(clock::random())).await;
            }
        }
    }
}

/// Asks for the fragments below a prefix until the task is dropped.
pub(crate) async fn follow_routes(
    prefix: Box<str>,
    datacenter: Option<Box<str>>,
    agent: ConsulAgent,
    reporter: RouteReporter,
) {
    let mut client = HttpClient::new(agent.url.clone(), agent.tls.as_ref());
    let mut backoff = Backoff::default();
    let mut index = 0;
    loop {
        match fragments::ask(&mut client, &prefix, datacenter.as_deref(), &agent, index).await {
            Ok((next, fragments)) => {
                backoff.reset();
                index = next_index(index, next);
                reporter.said(fragments);
                tokio::time::sleep(PAUSE).await;
            }
            Err(problem) => {
                index = 0;
                reporter.failed(&problem);
                tokio::time::sleep(backoff.next_wait(clock::random())).await;
            }
        }
    }
}

/// The index of the next question: one that goes backwards is that of a registry that began anew, and 0 would not wait.
fn next_index(before: u64, answered: u64) -> u64 {
    if answered < before { 0 } else { answered.max(1) }
}

async fn ask(
    client: &mut HttpClient,
    service: &ConsulService,
    agent: &ConsulAgent,
    index: u64,
) -> Result<(u64, Vec<crate::DiscoveredServer>), RequestProblem> {
    let target = target(service, index);
    let token = agent.token.as_ref().map(|token| ("X-Consul-Token", &*token.0));
    let fields: Vec<(&str, &str)> = token.into_iter().collect();
    let query = Query { method: "GET", target: &target, fields: &fields, body: "" };
    let wait = if index == 0 { EXTRA } else { WAIT + WAIT / 16 + EXTRA };
    let (head, body) = client.send(&query, wait).await?.whole(EXTRA).await?;
    if head.status != 200 {
        return Err(RequestProblem::Refused(refusal(head.status, &body, agent)));
    }
    let index = head.field("x-consul-index").and_then(|index| index.parse().ok()).unwrap_or(0);
    let servers = servers_of(&body, service.nearest)
        .map_err(|why| RequestProblem::Refused(format!("{}: {why}", agent.url)))?;
    Ok((index, servers))
}

fn target(service: &ConsulService, index: u64) -> String {
    let mut target = format!("/v1/health/service/{}?", percent_encoded(&service.name));
    if index > 0 {
        target.push_str(&format!("index={index}&wait={}s&", WAIT.as_secs()));
    }
    if let Some(datacenter) = &service.datacenter {
        target.push_str(&format!("dc={}&", percent_encoded(datacenter)));
    }
    for tag in &service.tags {
        target.push_str(&format!("tag={}&", percent_encoded(tag)));
    }
    if let Some(filter) = &service.filter {
        target.push_str(&format!("filter={}&", percent_encoded(filter)));
    }
    // The answer is sorted by round trip times, from the agent on.
    if service.nearest.is_some() {
        target.push_str("near=_agent&");
    }
    target.pop();
    target
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
    fn questions_name_what_is_wanted() {
        let service = ConsulService {
            name: "my app".into(),
            tags: vec!["v2".into(), "eu&us".into()],
            datacenter: Some("dc1".into()),
            filter: Some("Service.Meta.v == \"2\"".into()),
            nearest: Some(2),
        };
        assert_eq!(
            target(&service, 0),
            "/v1/health/service/my%20app?dc=dc1&tag=v2&tag=eu%26us&filter=Service.Meta.v%20%3D%3D%20%222%22&near=_agent"
        );
        let plain = ConsulService {
            name: "app".into(),
            tags: Vec::new(),
            datacenter: None,
            filter: None,
            nearest: None,
        };
        assert_eq!(target(&plain, 0), "/v1/health/service/app");
        assert_eq!(target(&plain, 7), "/v1/health/service/app?index=7&wait=60s");
    }

    #[test]
    fn an_index_that_goes_backwards_begins_anew() {
        for (before, answered, next) in [(0, 5, 5), (5, 5, 5), (5, 9, 9), (9, 3, 0), (0, 0, 1), (1, 0, 0)] {
            assert_eq!(next_index(before, answered), next, "{before} {answered}");
        }
    }
}
