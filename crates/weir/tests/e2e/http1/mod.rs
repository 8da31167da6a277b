//! HTTP/1 on the wire: how messages are framed, what is rejected, and whether the two connections are kept.
//!
//! A test belongs here when it would make no sense in another version of HTTP: chunks, keep-alive, pipelining, `Expect`, `Upgrade`.
//! `cases` is the table of malformed and ambiguous messages, `conformance` plays the scripts of varnishtest. What every protocol
//! has to do for an exchange belongs to `exchange`.

mod cases;

mod messages_pass;
mod random_segments;
mod absolute_form;
mod keep_alive;
mod pipelining;
mod expect_continue;
mod interim_responses;
mod head_and_no_body;
mod chunked;
mod close_delimited;
mod upgrade_websocket;
mod conformance;
