//! The resource of a control plane that an upstream follows. Plain data, in every build.

/// What an upstream follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FollowedResource {
    /// The endpoints of a cluster.
    Cluster(Box<str>),
    /// The endpoints of an assignment.
    Assignment(Box<str>),
}
