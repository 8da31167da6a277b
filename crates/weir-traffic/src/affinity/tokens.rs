//! Which token names which server, both ways.

use std::collections::HashMap;

use crate::server::ServerId;

/// The tokens of the servers of one upstream.
#[derive(Debug)]
pub(super) struct Tokens {
    texts: Box<[Box<str>]>,
    servers: HashMap<Box<[u8]>, ServerId>,
}

impl Tokens {
    /// `texts` by [`ServerId`]; of those that are the same, the last is meant.
    pub(super) fn new(texts: Vec<Box<str>>) -> Tokens {
        let known = (0..).zip(&texts).map(|(id, text)| (text.as_bytes().into(), ServerId(id)));
        Tokens { servers: known.collect(), texts: texts.into() }
    }

    /// Lets the token of `server` name this one, even if others have the same.
    pub(super) fn prefer(&mut self, server: ServerId) {
        self.servers.insert(self.texts[server.index()].as_bytes().into(), server);
    }

    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        self.texts.iter().map(|text| &**text)
    }

    pub(super) fn text(&self, server: ServerId) -> &str {
        &self.texts[server.index()]
    }

    /// The server that `token` names.
    pub(super) fn server(&self, token: &[u8]) -> Option<ServerId> {
        self.servers.get(token).copied()
    }
}
