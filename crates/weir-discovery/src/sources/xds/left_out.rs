//! The client of xDS of a build without the feature `xds`: there is none, and a config that needs it is rejected.

use tokio::task::JoinHandle;
use weir_config::XdsControlPlane;

use super::followed_resource::FollowedResource;
use crate::last_known::report::Reporter;

/// Asks nothing.
pub(crate) struct XdsClient;

impl XdsClient {
    pub(crate) fn start(_: XdsControlPlane) -> Self {
        Self
    }

    /// Says that there is no client: what is read from a file was checked before, a `Config` made otherwise was not.
    #[expect(
        clippy::unused_self,
        clippy::needless_pass_by_value,
        reason = "the same calls as with the feature"
    )]
    pub(crate) fn follow(&self, follows: FollowedResource, reporter: Reporter) -> JoinHandle<()> {
        let name = match follows {
            FollowedResource::Cluster(name) | FollowedResource::Assignment(name) => name,
        };
        reporter.failed(&format!("`{name}` needs the feature `xds`, and this weir was built without it"));
        tokio::spawn(async {})
    }
}
