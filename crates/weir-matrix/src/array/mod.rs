//! The cases: what varies (`factors`), which combinations exist (`possible`), and the fewest cases that have all pairs or triples (`covering`).

mod covering;
mod possible;
mod factors;

pub(crate) use covering::{Coverage, cover};
pub(crate) use factors::{Body, Case, Client, Event, Feature, Method, Server};
