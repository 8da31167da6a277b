//! Requests that go on elsewhere inside of a listener: rewrites, routes by name, fallbacks, error pages that are routes.

mod rewrites;
mod fallback;
mod error_targets;
mod meetings;
