//! Which route a request takes and what the route does with it: rules and paths, rewrites, redirects and fixed responses.
//!
//! Which server of the upstream is chosen then belongs to `upstream`.

mod routes;
mod normal_paths;
