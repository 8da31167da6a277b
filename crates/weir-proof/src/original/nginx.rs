//! The facts of an `nginx.conf`.

use std::path::Path;

use super::words::{address_in, address_of};
use super::{IngredientKind, OriginalFacts, ProofEndpoint, WantedFile, reachable};
use crate::samples::samples;

/// A directive with its block.
#[derive(Clone, Debug)]
struct ProofDirective {
    line: u32,
    /// The line that its block ends at.
    end: u32,
    words: Vec<String>,
    block: Vec<ProofDirective>,
}

/// Reads a file, and what it includes.
pub(crate) fn facts(path: &Path, text: &str) -> OriginalFacts {
    let mut facts = OriginalFacts { is_daemon: true, ..OriginalFacts::default() };
    let folder = path.parent().unwrap_or(Path::new("/"));
    let directives = read(text, folder, 0);
    let place = ProofPlace { is_stream: false, is_listening: false };
    for directive in &directives {
        facts.directive(directive, place);
    }
    facts.has_cache = text.contains("_cache ");
    if facts.endpoints.is_empty() && text.contains("server") {
        facts.endpoint(endpoint("80", &[], 1, false));
    }
    facts
}

#[derive(Clone, Copy)]
struct ProofPlace {
    is_stream: bool,
    is_listening: bool,
}

impl OriginalFacts {
    fn directive(&mut self, directive: &ProofDirective, place: ProofPlace) {
        let words: Vec<&str> = directive.words.iter().map(String::as_str).collect();
        let line = directive.line;
        let (name, rest) = (words[0], &words[1..]);
        let first = rest.first().copied().unwrap_or_default();
        let mut place = place;
        if name == "location" || name == "server" || name == "if" {
            self.blocks.push((line, directive.end));
        }
        match name {
            "stream" => {
                self.has_stream = true;
                place.is_stream = true;
            }
            "daemon" => self.is_daemon = false,
            "user" => self.accounts.extend(rest.iter().map(|word| (*word).to_owned())),
            "server" if !directive.block.is_empty() => {
                place.is_listening = true;
                if !directive.block.iter().any(|inner| inner.words[0] == "listen") {
                    self.endpoint(endpoint("80", &[], line, place.is_stream));
                }
            }
            "listen" if place.is_listening => self.endpoint(endpoint(first, rest, line, place.is_stream)),
            "server_name" => rest.iter().for_each(|host| self.host(host, line)),
            "location" => self.location(rest, line),
            "if" => self.condition(rest, line),
            "rewrite" => self.expression(IngredientKind::Path, "", first, line),
            "map" | "geo" | "split_clients" => self.table(name, first, &directive.block),
            "upstream" => self.group(&directive.block),
            "valid_referers" => self.add(IngredientKind::Field, "Referer", "http://example.com/", line),
            "allow" | "deny" | "set_real_ip_from" => self.source(first, line),
            "resolver" => self.resolvers.extend(rest.iter().filter_map(|word| address_of(word))),
            "limit_except" => rest.iter().for_each(|one| self.add(IngredientKind::Method, "", one, line)),
            _ => self.file(name, first, rest),
        }
        if !matches!(name, "listen" | "client_max_body_size") {
            rest.iter().for_each(|word| self.note_word(word));
        }
        self.variables(rest, line);
        if !matches!(name, "map" | "geo" | "types" | "split_clients") {
            directive.block.iter().for_each(|inner| self.directive(inner, place));
        }
    }

    fn host(&mut self, host: &str, line: u32) {
        if let Some(pattern) = host.strip_prefix('~') {
            self.expression(IngredientKind::Host, "", pattern, line);
        } else if let Some(rest) = host.strip_prefix("*.").or_else(|| host.strip_prefix('.')) {
            self.add(IngredientKind::Host, "", &format!("sub.{rest}"), line);
            self.add(IngredientKind::Host, "", rest, line);
        } else if let Some(start) = host.strip_suffix(".*") {
            self.add(IngredientKind::Host, "", &format!("{start}.org"), line);
        } else if !host.is_empty() && host != "_" && !host.contains('$') {
            self.add(IngredientKind::Host, "", host, line);
        }
    }

    fn location(&mut self, words: &[&str], line: u32) {
        match words {
            ["~" | "~*", pattern] => self.expression(IngredientKind::Path, "", pattern, line),
            ["=" | "^~", path] | [path] if path.starts_with('/') => {
                self.add(IngredientKind::Path, "", path, line);
            }
            [word] => {
                for prefix in ["~*", "~", "^~", "="] {
                    if let Some(rest) = word.strip_prefix(prefix) {
                        return self.location(&[prefix, rest], line);
                    }
                }
            }
            _ => {}
        }
    }

    fn expression(&mut self, kind: IngredientKind, name: &str, pattern: &str, line: u32) {
        for sample in samples(pattern) {
            let text = match kind {
                IngredientKind::Path if !sample.starts_with('/') && pattern.starts_with('^') => {
                    format!("/{sample}")
                }
                IngredientKind::Path if !sample.starts_with('/') => format!("/p{sample}"),
                _ => sample,
            };
            self.add(kind, name, &text, line);
        }
    }

    /// `if ($variable operator value)`.
    fn condition(&mut self, words: &[&str], line: u32) {
        let joined = words.join(" ");
        let inner = joined.trim_start_matches('(').trim_end_matches(')').trim();
        let mut parts = inner.splitn(3, ' ');
        let (variable, operator, value) = (parts.next(), parts.next(), parts.next());
        let (Some(variable), Some(operator)) = (variable.and_then(|word| word.strip_prefix('$')), operator)
        else {
            return;
        };
        let value = value.unwrap_or_default().trim_matches(['"', '\'']);
        self.value_of(variable, value, operator.contains('~'), line);
    }

    /// A value that a variable is compared with.
    fn value_of(&mut self, variable: &str, value: &str, is_pattern: bool, line: u32) {
        let (kind, name) = match variable {
            "request_method" => (IngredientKind::Method, String::new()),
            "host" | "http_host" | "server_name" => (IngredientKind::Host, String::new()),
            "uri" | "request_uri" | "document_uri" => (IngredientKind::Path, String::new()),
            "args" | "query_string" => (IngredientKind::Argument, String::new()),
            "remote_addr" => return self.source(value, line),
            _ => match variable.split_once('_') {
                Some(("http", field)) => (IngredientKind::Field, field.replace('_', "-")),
                Some(("cookie", cookie)) => (IngredientKind::Cookie, cookie.to_owned()),
                Some(("arg", argument)) => (IngredientKind::Argument, argument.to_owned()),
                _ => return,
            },
        };
        if is_pattern {
            self.expression(kind, &name, value, line);
        } else if !value.is_empty() && !value.contains('$') {
            self.add(kind, &name, value, line);
        }
    }

    fn table(&mut self, name: &str, source: &str, block: &[ProofDirective]) {
        for entry in block {
            let key = entry.words[0].as_str();
            if matches!(key, "default" | "hostnames" | "volatile" | "include" | "proxy") {
                continue;
            }
            match (name, source.strip_prefix('$')) {
                ("geo", _) => self.source(key, entry.line),
                ("map", Some(variable)) => {
                    let pattern = key.strip_prefix("~*").or_else(|| key.strip_prefix('~'));
                    self.value_of(variable, pattern.unwrap_or(key), pattern.is_some(), entry.line);
                }
                _ => {}
            }
        }
    }

    fn source(&mut self, network: &str, line: u32) {
        if let Some(address) = address_in(network) {
            self.add(IngredientKind::Source, "", &address.to_string(), line);
        }
    }

    fn group(&mut self, block: &[ProofDirective]) {
        let servers = block.iter().filter(|inner| inner.words[0] == "server");
        let names =
            servers.filter_map(|inner| inner.words.get(1)).map(|server| match server.strip_prefix("unix:") {
                Some(path) => path.to_owned(),
                None if server.contains(':') => server.replace("localhost", "127.0.0.1"),
                None => format!("{server}:80"),
            });
        let names: std::collections::BTreeSet<String> = names.collect();
        if names.contains("127.0.0.1:80") {
            self.local_ports.insert(80);
        }
        self.groups.push(names);
    }

    /// What a directive wants to be there.
    fn file(&mut self, name: &str, first: &str, rest: &[&str]) {
        let path = first.to_owned();
        match name {
            "ssl_certificate"
            | "ssl_certificate_key"
            | "ssl_trusted_certificate"
            | "ssl_client_certificate"
            | "proxy_ssl_trusted_certificate"
            | "proxy_ssl_certificate"
            | "proxy_ssl_certificate_key" => {
                self.want(WantedFile::Certificate(path));
            }
            "root" | "alias" => self.want(WantedFile::Folder(path)),
            "auth_basic_user_file" => self.want(WantedFile::Passwords(path)),
            "access_log" => {
                self.want(WantedFile::Around(path.clone()));
                self.logs.insert(path);
            }
            "ssl_dhparam" => self.want(WantedFile::Text(path)),
            _ if name.ends_with("_path")
                || name.ends_with("_store")
                || name.ends_with("_log")
                || name == "pid" =>
            {
                self.want(WantedFile::Around(path));
            }
            _ => {}
        }
        if name == "try_files" {
            for word in rest.iter().filter(|word| word.starts_with('/') && !word.contains('$')) {
                self.add(IngredientKind::Path, "", word, 0);
            }
        }
    }

    /// Variables of requests that stand anywhere.
    fn variables(&mut self, words: &[&str], line: u32) {
        for word in words {
            for piece in word.split('$').skip(1) {
                let piece = piece.trim_start_matches('{');
                let end = piece.find(|next: char| !next.is_ascii_alphanumeric() && next != '_');
                let variable = &piece[..end.unwrap_or(piece.len())];
                if let Some(("http" | "cookie" | "arg", _)) = variable.split_once('_')
                    && !matches!(variable, "http_host" | "http_upgrade")
                {
                    self.value_of(variable, "proof", false, line);
                }
            }
        }
    }
}

fn endpoint(first: &str, rest: &[&str], line: u32, is_stream: bool) -> ProofEndpoint {
    let (host, port) = match first.rsplit_once(':') {
        Some((host, port)) if port.parse::<u16>().is_ok() => (host, port.parse().unwrap_or(80)),
        _ => match first.parse::<u16>() {
            Ok(port) => ("", port),
            Err(_) => (first, 80),
        },
    };
    ProofEndpoint {
        address: reachable(host),
        port,
        has_tls: rest.contains(&"ssl"),
        is_tcp: is_stream,
        has_proxy_header: rest.contains(&"proxy_protocol"),
        line,
    }
}

/// The directives of a text; files that are included take the place of the line that names them.
fn read(text: &str, folder: &Path, depth: usize) -> Vec<ProofDirective> {
    let mut tokens = tokens(text).into_iter().peekable();
    let mut stack: Vec<(Vec<ProofDirective>, Option<ProofDirective>)> = vec![(Vec::new(), None)];
    let mut words: Vec<String> = Vec::new();
    let mut line = 0;
    for token in tokens.by_ref() {
        match token {
            ProofToken::Word(at, word) => {
                if words.is_empty() {
                    line = at;
                }
                words.push(word);
            }
            ProofToken::End if !words.is_empty() => {
                let words = std::mem::take(&mut words);
                let Some((level, _)) = stack.last_mut() else { break };
                if words[0] == "include" && depth < 8 {
                    for included in included(folder, words.get(1).map_or("", String::as_str)) {
                        let mut inner = read(&included, folder, depth + 1);
                        // Lines of other files are told as the line that includes them.
                        inner.iter_mut().for_each(|directive| directive.line = line);
                        level.append(&mut inner);
                    }
                }
                level.push(ProofDirective { line, end: line, words, block: Vec::new() });
            }
            ProofToken::Open if !words.is_empty() => {
                let open =
                    ProofDirective { line, end: line, words: std::mem::take(&mut words), block: Vec::new() };
                stack.push((Vec::new(), Some(open)));
            }
            ProofToken::Close(end) if stack.len() > 1 => {
                if let Some((block, Some(mut open))) = stack.pop() {
                    open.block = block;
                    open.end = end;
                    if let Some((level, _)) = stack.last_mut() {
                        level.push(open);
                    }
                }
            }
            _ => {}
        }
    }
    stack.swap_remove(0).0
}

fn included(folder: &Path, pattern: &str) -> Vec<String> {
    let path = folder.join(pattern);
    if !pattern.contains('*') {
        return std::fs::read_to_string(path).into_iter().collect();
    }
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Vec::new() };
    let name = name.to_string_lossy().into_owned();
    let (before, after) = name.split_once('*').unwrap_or((&name, ""));
    let entries = std::fs::read_dir(parent).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut paths: Vec<_> = entries
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(before) && name.ends_with(after)
        })
        .collect();
    paths.sort();
    paths.into_iter().filter_map(|path| std::fs::read_to_string(path).ok()).collect()
}

enum ProofToken {
    Word(u32, String),
    End,
    Open,
    Close(u32),
}

fn tokens(text: &str) -> Vec<ProofToken> {
    let mut found = Vec::new();
    let mut chars = text.chars().peekable();
    let mut line = 1;
    while let Some(next) = chars.next() {
        match next {
            '\n' => line += 1,
            ';' => found.push(ProofToken::End),
            '{' => found.push(ProofToken::Open),
            '}' => found.push(ProofToken::Close(line)),
            '#' => {
                while chars.peek().is_some_and(|next| *next != '\n') {
                    chars.next();
                }
            }
            '"' | '\'' => {
                let (mut word, start) = (String::new(), line);
                while let Some(inner) = chars.next() {
                    line += u32::from(inner == '\n');
                    match inner {
                        '\\' => match chars.next() {
                            Some(escaped) if escaped == next || escaped == '\\' => word.push(escaped),
                            Some(other) => word.extend(['\\', other]),
                            None => {}
                        },
                        _ if inner == next => break,
                        _ => word.push(inner),
                    }
                }
                found.push(ProofToken::Word(start, word));
            }
            space if space.is_whitespace() => {}
            _ => {
                let mut word = next.to_string();
                while let Some(&inner) = chars.peek() {
                    let is_variable = inner == '{' && word.ends_with('$');
                    if inner.is_whitespace() || inner == ';' || (inner == '{' && !is_variable) {
                        break;
                    }
                    word.push(inner);
                    chars.next();
                    if inner == '\\'
                        && let Some(escaped) = chars.next()
                    {
                        word.push(escaped);
                    }
                }
                found.push(ProofToken::Word(line, word));
            }
        }
    }
    found
}
