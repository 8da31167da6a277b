//! The responses of files: which one a path names, and what of it the client gets.

pub(crate) mod listing;
pub(crate) mod path;
pub(crate) mod response;
