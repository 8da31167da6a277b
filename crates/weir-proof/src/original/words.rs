//! What single words say: addresses, networks, paths.

use std::net::{IpAddr, Ipv4Addr};

use super::{OriginalFacts, WantedFile};

impl OriginalFacts {
    /// Notes what a word names: a server, a port, a file.
    pub(super) fn note_word(&mut self, word: &str) {
        let word = word.trim_matches(['"', '\'']);
        if let Some(path) =
            word.split_once("unix:").or_else(|| word.split_once("unix@")).map(|(_, path)| path)
        {
            let path = path.split([':', ';']).next().unwrap_or_default();
            self.sockets.insert(path.to_owned());
            return;
        }
        let bare = word.rsplit_once("//").map_or(word, |(_, rest)| rest);
        let authority = bare.split(['/', '?', ',', ';']).next().unwrap_or_default();
        if let Some((host, port)) = authority.rsplit_once(':')
            && let Ok(port) = port.parse::<u16>()
        {
            self.ports.insert(port);
            if host == "localhost" || host == "[::1]" || host.starts_with("127.") {
                self.local_ports.insert(port);
            }
        } else if word.contains("//localhost") || word.contains("//127.0.0.1") {
            self.local_ports.insert(if word.starts_with("https") { 443 } else { 80 });
        } else if let Ok(port) = word.parse::<u16>()
            && port > 0
        {
            self.ports.insert(port);
        }
    }

    /// A file is wanted where its path is absolute.
    pub(super) fn want(&mut self, file: WantedFile) {
        let path = match &file {
            WantedFile::Certificate(path)
            | WantedFile::Folder(path)
            | WantedFile::Passwords(path)
            | WantedFile::Around(path)
            | WantedFile::Text(path) => path,
        };
        if path.starts_with('/') && path.len() > 1 && !path.contains('$') && !path.contains('*') {
            self.files.insert(file);
        }
    }
}

/// An address in a network.
pub(super) fn address_in(network: &str) -> Option<Ipv4Addr> {
    let (base, length) = network.split_once('/').unwrap_or((network, "32"));
    let (base, length): (Ipv4Addr, u32) = (base.parse().ok()?, length.parse().ok()?);
    if base.is_loopback() || base.is_unspecified() {
        return None;
    }
    let offset = if length >= 31 { 0 } else { 7.min((1_u32 << (32 - length)) - 2) };
    Some(Ipv4Addr::from(u32::from(base) | offset))
}

/// The address that a word is.
pub(super) fn address_of(word: &str) -> Option<IpAddr> {
    let host = word.strip_prefix('[').and_then(|rest| rest.split(']').next());
    let host = host.unwrap_or_else(|| word.split(':').next().unwrap_or(word));
    host.parse().ok()
}
