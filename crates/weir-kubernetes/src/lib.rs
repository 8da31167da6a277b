//! A client of the Kubernetes API server for Weir.

#![forbid(unsafe_code)]

pub mod controller;
