//! The facts of a `haproxy.cfg`.

use std::collections::{BTreeMap, BTreeSet};

use super::words::address_in;
use super::{IngredientKind, OriginalFacts, ProofEndpoint, WantedFile, reachable};
use crate::samples::samples;

/// Reads a file.
pub(crate) fn facts(text: &str) -> OriginalFacts {
    let mut facts = OriginalFacts::default();
    let (mut is_tcp_by_default, mut section) = (true, Section::default());
    // Sections `defaults` by name, of which others name one by `from`.
    let mut is_tcp_by_name = BTreeMap::new();
    for (line, words) in (1..).zip(text.lines().map(words)) {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let Some(name) = words.first().copied() else { continue };
        if matches!(
            name,
            "global"
                | "defaults"
                | "frontend"
                | "backend"
                | "listen"
                | "resolvers"
                | "peers"
                | "userlist"
                | "cache"
        ) {
            if section.name == "defaults" {
                is_tcp_by_default = section.is_tcp;
                is_tcp_by_name.insert(section.label.clone(), section.is_tcp);
            }
            section.last = line - 1;
            facts.finish(std::mem::take(&mut section));
            let from =
                words.windows(2).find(|two| two[0] == "from").and_then(|two| is_tcp_by_name.get(two[1]));
            let is_tcp = from.copied().unwrap_or(name == "defaults" || is_tcp_by_default);
            let label = words.get(1).copied().unwrap_or_default().to_owned();
            section = Section { name: name.to_owned(), label, is_tcp, first: line, ..Section::default() };
            continue;
        }
        facts.line(&words, line, &mut section);
    }
    section.last = u32::MAX;
    facts.finish(section);
    facts
}

#[derive(Default)]
struct Section {
    /// Its keyword.
    name: String,
    label: String,
    is_tcp: bool,
    first: u32,
    last: u32,
    endpoints: Vec<ProofEndpoint>,
    servers: BTreeSet<String>,
}

impl OriginalFacts {
    fn finish(&mut self, section: Section) {
        for mut endpoint in section.endpoints {
            endpoint.is_tcp = section.is_tcp;
            self.endpoint(endpoint);
        }
        self.groups.push(section.servers);
        self.blocks.push((section.first, section.last));
    }

    fn line(&mut self, words: &[&str], line: u32, section: &mut Section) {
        let first = words.get(1).copied().unwrap_or_default();
        match words[0] {
            "mode" => section.is_tcp = first == "tcp",
            "daemon" => self.is_daemon = true,
            "user" | "group" if section.name == "global" => {
                self.accounts.insert(first.to_owned());
            }
            "bind" => self.bind(words, line, section),
            "server" => {
                let server = words.get(2).copied().unwrap_or_default();
                let default = if server.contains(':') { String::new() } else { ":80".to_owned() };
                section.servers.insert(format!("{}{default}", server.replace("localhost", "127.0.0.1")));
                self.note_word(&format!("{server}{default}"));
            }
            "nameserver" => {
                let address = words.get(2).and_then(|word| word.rsplit_once(':'));
                self.resolvers.extend(address.and_then(|(host, _)| host.parse::<std::net::IpAddr>().ok()));
            }
            "chroot" => self.want(WantedFile::Folder(first.to_owned())),
            "errorfile" => {
                self.want(WantedFile::Text(words.get(2).copied().unwrap_or_default().to_owned()));
            }
            "log" if first.starts_with('/') => self.want(WantedFile::Around(first.to_owned())),
            _ => {}
        }
        if matches!(words[0], "server" | "default-server" | "http-check" | "tcp-check") {
            words[1..].iter().for_each(|word| self.note_word(word));
        }
        for pair in words.windows(2) {
            match pair[0] {
                "crt" | "ca-file" | "ca-base" | "crt-base" => {
                    self.want(WantedFile::Certificate(pair[1].to_owned()));
                }
                "-f" => self.want(WantedFile::Text(pair[1].to_owned())),
                "socket" | "pidfile" => self.want(WantedFile::Around(pair[1].to_owned())),
                _ => {}
            }
        }
        self.fetches(words, line);
    }

    fn bind(&mut self, words: &[&str], line: u32, section: &mut Section) {
        for place in words.get(1).copied().unwrap_or_default().split(',') {
            let Some((host, ports)) = place.rsplit_once(':') else { continue };
            let Some(port) = ports.split('-').next().and_then(|port| port.parse().ok()) else { continue };
            section.endpoints.push(ProofEndpoint {
                address: reachable(if host == "*" { "" } else { host }),
                port,
                has_tls: words.contains(&"ssl"),
                is_tcp: false,
                has_proxy_header: words.contains(&"accept-proxy"),
                line,
            });
        }
    }

    /// What samples are compared with, in `acl` lines and in braces.
    fn fetches(&mut self, words: &[&str], line: u32) {
        for (index, word) in words.iter().enumerate() {
            let values: Vec<&str> = words[index + 1..]
                .iter()
                .copied()
                .skip_while(|word| word.starts_with('-') || *word == "str" || *word == "==")
                .take_while(|word| !matches!(*word, "}" | "||" | "or" | "if" | "unless" | "{"))
                .collect();
            let (fetch, argument) = word.split_once('(').unwrap_or((word, ""));
            let argument = argument.split([')', ',']).next().unwrap_or_default();
            let is_pattern = fetch.ends_with("_reg") || words.contains(&"reg");
            for value in values.iter().take(8) {
                let texts = if is_pattern { samples(value) } else { vec![(*value).to_owned()] };
                for text in texts {
                    self.fetched(fetch, argument, &text, line);
                }
            }
        }
    }

    fn fetched(&mut self, fetch: &str, argument: &str, value: &str, line: u32) {
        let base = fetch.strip_prefix("req.").unwrap_or(fetch);
        let is_host = argument.eq_ignore_ascii_case("host");
        if base.starts_with("hdr") && is_host {
            let value =
                value.strip_prefix('.').map_or_else(|| value.to_owned(), |rest| format!("sub.{rest}"));
            self.add(IngredientKind::Host, "", value.trim_end_matches(":80"), line);
        } else if base.starts_with("hdr") || base.starts_with("fhdr") {
            self.add(IngredientKind::Field, argument, value, line);
        } else if base.starts_with("path")
            || base.starts_with("url") && argument.is_empty()
            || base == "base_beg"
        {
            let path = if value.starts_with('/') { value.to_owned() } else { format!("/p{value}") };
            self.add(IngredientKind::Path, "", &path, line);
        } else if base.starts_with("method") {
            self.add(IngredientKind::Method, "", value, line);
        } else if base.starts_with("cook") {
            self.add(IngredientKind::Cookie, argument, value, line);
        } else if base.starts_with("urlp") || base.starts_with("url_param") {
            self.add(IngredientKind::Argument, argument, value, line);
        } else if (base == "src" || base == "hdr_ip")
            && let Some(address) = address_in(value)
        {
            self.add(IngredientKind::Source, "", &address.to_string(), line);
        } else if base == "ssl_fc_sni" || base == "req_ssl_sni" || base == "req.ssl_sni" {
            self.add(IngredientKind::Host, "", value, line);
        }
    }
}

/// The words of a line, without quotes and comments.
fn words(line: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.chars();
    let mut quote = None;
    while let Some(next) = chars.next() {
        match (quote, next) {
            (None, '#') => break,
            (None, '"' | '\'') => {
                quote = Some(next);
                word.get_or_insert_default();
            }
            (Some(open), _) if open == next => quote = None,
            (None | Some('"'), '\\') => word.get_or_insert_default().extend(chars.next()),
            (None, _) if next.is_whitespace() => found.extend(word.take()),
            _ => word.get_or_insert_default().push(next),
        }
    }
    found.extend(word);
    found
}

#[cfg(test)]
mod tests {
    use super::facts;

    #[test]
    fn defaults_are_those_that_a_section_names() {
        let text = "defaults base\n mode http\ndefaults slow from base\n timeout server 1m\nfrontend a from slow\n bind :80\n\
                    defaults\nfrontend b\n bind :81\nfrontend c from base\n bind :82\n";
        let is_tcp: Vec<(u16, bool)> =
            facts(text).endpoints.iter().map(|endpoint| (endpoint.port, endpoint.is_tcp)).collect();
        assert_eq!(is_tcp, [(80, false), (81, true), (82, false)]);
    }
}
