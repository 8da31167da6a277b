//! What routes ask of their clients: passwords, tokens, and the word of another server.

mod basic;
mod jwt;
mod forward_auth;
