//! Scripted servers: origins, what they answer, names.

pub(crate) mod origin;
pub(crate) mod fastcgi;
pub(crate) mod scripts;
pub(crate) mod name_server;
pub(crate) mod reserved_address;
