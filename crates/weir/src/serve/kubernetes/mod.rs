//! `weir serve --kubernetes`: routes and servers come from the API server of a cluster.

#[cfg(feature = "kubernetes")]
mod routes;
#[cfg(not(feature = "kubernetes"))]
mod left_out;

#[cfg(not(feature = "kubernetes"))]
pub(super) use left_out::AbsentRoutes as KubernetesRoutes;
#[cfg(feature = "kubernetes")]
pub(super) use routes::KubernetesRoutes;
