//! Heads of requests and responses, trailers included: what is well-formed, what is written, and what never leaves.

mod messages;
mod header_tables;
mod interim_responses;
mod trailers;
mod identity;
mod malformed;
mod smuggling;
