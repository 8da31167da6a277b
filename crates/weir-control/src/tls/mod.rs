//! Certificates and keys: read anew from files, ordered from authorities.

pub(super) mod credentials;
pub(super) mod acme;
pub(super) mod certificates;
