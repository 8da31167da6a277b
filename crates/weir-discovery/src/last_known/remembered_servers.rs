//! What is known of sources of servers before any is asked: from the state file of an earlier process, and from the running process that this one
//! replaces. Such servers are in use from the first request on.

use std::collections::BTreeMap;
use std::path::PathBuf;

use weir_config::{DiscoverySettings, Upstream};
use weir_http::WallTime;

use crate::last_known::names_in_use::KnownAddresses;
use crate::last_known::source_state::UnansweredSince;
use crate::last_known::state_file::{self, StoredState, StoredUpstream};
use crate::server_set::DiscoveredServer;

/// What is known, by upstream.
#[derive(Debug, Clone, Default)]
pub struct RememberedServers {
    pub(crate) upstreams: BTreeMap<Box<str>, (StoredUpstream, UnansweredSince)>,
    /// Addresses of names that the file has.
    pub(crate) names: KnownAddresses,
    /// The file that was read.
    pub(crate) state_file: Option<PathBuf>,
}

/// The servers of an upstream before its source has answered.
#[derive(Debug, Clone, PartialEq)]
pub struct RememberedUpstream {
    /// The servers.
    pub servers: Vec<DiscoveredServer>,
    /// When they were named.
    pub said_at: WallTime,
    /// Whether the source that the upstream has now has named them.
    pub is_of_source: bool,
    /// Whether a process that still runs has them in use.
    pub is_handed_over: bool,
}

impl RememberedServers {
    /// What the state file has, which an earlier process has left; nothing, with a warning, where it cannot be read.
    pub fn stored(settings: &DiscoverySettings) -> Self {
        let state_file = settings.state_file.clone();
        let stored = state_file.as_deref().map(state_file::read).unwrap_or_default();
        let of_before = |(upstream, known)| (upstream, (known, UnansweredSince::Start));
        let StoredState { upstreams, names } = stored;
        Self { upstreams: upstreams.into_iter().map(of_before).collect(), names, state_file }
    }

    /// The same with what a process that runs has in use, which is newer.
    #[must_use]
    pub fn handed_over(mut self, upstreams: BTreeMap<Box<str>, StoredUpstream>) -> Self {
        let handed = upstreams.into_iter().map(|(name, known)| (name, (known, UnansweredSince::Upgrade)));
        self.upstreams.extend(handed);
        self
    }

    /// The addresses that names of servers had when the file was written.
    pub fn names(&self) -> &KnownAddresses {
        &self.names
    }

    /// The servers of an upstream with a source. Those that another source has left in a file are not its servers; those of a process that is
    /// replaced stay until the source answers, as over a reload.
    pub fn of(&self, upstream: &Upstream) -> Option<RememberedUpstream> {
        let source = upstream.discovery.as_ref()?;
        let (known, unanswered) = self.upstreams.get(&upstream.name)?;
        let is_of_source = source.to_string() == *known.source;
        let is_handed_over = *unanswered == UnansweredSince::Upgrade;
        let (servers, said_at) = known.servers().filter(|_| is_of_source || is_handed_over)?;
        Some(RememberedUpstream { servers, said_at, is_of_source, is_handed_over })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weir_config::{ServerSource, UpstreamParts};

    use super::*;

    fn stored(source: &str, address: &str) -> StoredUpstream {
        let server = DiscoveredServer::new(address.parse().unwrap());
        StoredUpstream::new(source, &[server], WallTime::EPOCH)
    }

    fn upstream(file: &str) -> Upstream {
        let mut parts = UpstreamParts::new("app", Vec::new());
        parts.discovery = Some(Arc::new(ServerSource::File(file.into())));
        Upstream::from_parts(parts).unwrap()
    }

    #[test]
    fn a_running_process_knows_more_than_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("servers.json");
        let mut settings = DiscoverySettings::default();
        settings.state_file = Some(path.clone());
        assert_eq!(RememberedServers::stored(&settings).of(&upstream("x")), None);
        let source = upstream("x").discovery.as_ref().unwrap().to_string();
        let upstreams = BTreeMap::from([("app".into(), stored(&source, "10.0.0.1:80"))]);
        state_file::write(&path, StoredState { upstreams, ..StoredState::default() }).unwrap();
        let of_file = RememberedServers::stored(&settings);
        let known = of_file.of(&upstream("x")).unwrap();
        assert_eq!(&*known.servers[0].shown_name(), "10.0.0.1:80");
        assert!(known.is_of_source && !known.is_handed_over);
        assert_eq!(of_file.of(&upstream("y")), None, "another source has other servers");
        let handed = BTreeMap::from([("app".into(), stored(&source, "10.0.0.2:80"))]);
        let known = of_file.handed_over(handed);
        assert_eq!(&*known.of(&upstream("x")).unwrap().servers[0].shown_name(), "10.0.0.2:80");
        let of_another = known.of(&upstream("y")).unwrap();
        assert!(!of_another.is_of_source && of_another.is_handed_over, "they serve until it answers");
    }
}
