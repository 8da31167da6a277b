//! Which route a request takes and what the route does with it: rules, paths, rewrites, redirects and fixed responses.
//!
//! Which server of the upstream then gets the request belongs to `upstream`.

mod routes;
mod monitor;
mod conditions;
mod route_order;
mod rerouting;
mod maps;
mod conditions_of_features;
mod routes_from_store;
mod placeholders;
mod cors;
mod access_lists;
mod normal_paths;
mod spellings;
mod files;
mod files_by_curl;
mod error_pages;
mod remote_error_pages;
mod mirror;
mod mirror_of_targets;
