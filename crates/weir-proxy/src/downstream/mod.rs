//! The client side: from the listening socket to the request.

pub(crate) mod exchange_pool;
mod lease;
pub(crate) mod session;
mod tls;
mod abort;
pub(crate) mod proxy_header;
pub(crate) mod tcp;
pub(crate) mod http1;
pub(crate) mod ending;
