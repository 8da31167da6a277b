//! Certificates and keys: read anew from files, ordered from authorities, made by the internal one.

pub(super) mod credentials;
pub(super) mod acme;
pub(super) mod certificates;
pub(super) mod internal_authority;
