//! The cases: what varies (`factors`), which combinations exist (`possible`), what had a fault once (`former`), and the fewest
//! cases that have all pairs or triples (`covering`). `filter` means some of them, in words.

mod covering;
mod former;
mod filter;
mod possible;
mod factors;

pub(crate) use covering::{Coverage, cover};
pub(crate) use factors::{Body, Case, Client, Event, Feature, Method, Server};
pub(crate) use filter::CaseFilter;
