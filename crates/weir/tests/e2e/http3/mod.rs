//! HTTP/3 to clients: QUIC over UDP beside TLS over TCP, on the same port.

mod messages;
mod connections;
mod surviving;
mod early;
mod arriving;
mod hostile;
