//! A site that runs already: `weir-lab run --url`. Any paths, fields, methods and bodies, over HTTP/1.1, HTTP/2 or HTTP/3, at given
//! times or in a closed loop, or as an access log has them.
//!
//! The content of the answers is not known here, so that they are held to what the user says of them. Latency counts from the
//! time at which a request was due (decision 365). `command` reads the options, `rounds` measures, `driver` plays the clients.

pub mod command;
mod report;
mod request_file;
mod rounds;
mod export;
mod driver;
mod seat;
mod phase_outcome;
mod stream_connection;
mod http1_reader;
mod http2_streams;
mod prepared;
pub mod access_log;
pub mod arrivals;
pub mod request;
pub mod expectation;
pub mod site_url;
