//! The client side: from the listening socket to the request.

pub(crate) mod listener;
pub(crate) mod session;
pub(crate) mod proxy_header;
pub(crate) mod client_hello;
pub(crate) mod http1;
