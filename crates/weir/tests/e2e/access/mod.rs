//! What routes ask of their clients: passwords, tokens, and the word of another server.

mod basic;
mod jwt;
mod kept_answers;
mod remote_keys;
mod forward_auth;
mod order;
mod satisfy;
mod client_address;
