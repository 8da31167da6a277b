//! The instances of a service in Consul, by `/v1/health/service`; `instances` reads the answers.

use weir_config::ConsulService;

use super::instances::servers_of;
use super::{BlockingQuestion, WAIT};
use crate::last_known::report::Reporter;
use crate::server_set::DiscoveredServer;
use crate::sources::source_client::{RequestProblem, percent_encoded};

/// What the instances of a service are now.
pub(super) struct ServiceQuestion {
    pub(super) service: ConsulService,
    pub(super) reporter: Reporter,
}

impl BlockingQuestion for ServiceQuestion {
    type Answer = Vec<DiscoveredServer>;

    fn target(&self, index: u64) -> String {
        target(&self.service, index)
    }

    fn read(&self, body: &[u8]) -> Result<Self::Answer, String> {
        servers_of(body, self.service.nearest)
    }

    /// A service that is not known has no instances, and is answered so with 200.
    fn absent(&self) -> Option<Self::Answer> {
        None
    }

    fn said(&self, servers: Self::Answer) {
        self.reporter.said(servers);
    }

    fn failed(&self, why: &RequestProblem) {
        self.reporter.failed(why);
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_name_what_is_wanted() {
        let mut service = ConsulService::new("my app");
        service.tags = vec!["v2".into(), "eu&us".into()];
        service.datacenter = Some("dc1".into());
        service.filter = Some("Service.Meta.v == \"2\"".into());
        service.nearest = Some(2);
        assert_eq!(
            target(&service, 0),
            "/v1/health/service/my%20app?dc=dc1&tag=v2&tag=eu%26us&filter=Service.Meta.v%20%3D%3D%20%222%22&near=_agent"
        );
        let plain = ConsulService::new("app");
        assert_eq!(target(&plain, 0), "/v1/health/service/app");
        assert_eq!(target(&plain, 7), "/v1/health/service/app?index=7&wait=60s");
    }
}
