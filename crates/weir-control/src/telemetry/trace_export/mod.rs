//! Sampled exchanges that are over, on their way from the workers to a collector (OpenTelemetry, OTLP over HTTP).
//!
//! A worker hands over a copy of fixed size and goes on: it never waits, and what finds no room is dropped and counted. A thread makes
//! spans of them (`spans`) and has them delivered (`collector_client`). Without the feature `traces` there is only `left_out`.

#[cfg(feature = "traces")]
mod export;
#[cfg(feature = "traces")]
mod thread;
#[cfg(feature = "traces")]
mod spans;
#[cfg(feature = "traces")]
mod collector_client;
#[cfg(not(feature = "traces"))]
mod left_out;

#[cfg(feature = "traces")]
pub(crate) use export::TraceExport;
#[cfg(not(feature = "traces"))]
pub(crate) use left_out::TraceExport;
