//! One exchange from its request to the last byte of its response, in any protocol: fields about
//! the client, bodies of any size, slow readers, early responses, clients that leave, and the error responses of Weir itself.
//!
//! How a protocol frames all this belongs to `http1`, a server that misbehaves to `resilience`.

mod forwarded_fields;
mod stripped_trailers;
mod large_bodies;
mod grpc;
mod compression;
mod rewriting;
mod expiry;
mod accel;
mod rerouted;
mod backpressure;
mod buffering;
mod cache;
mod early_response;
mod last_bytes;
mod client_disconnect;
mod client_aborts;
mod failures;
mod field_names;
