//! Requests that are made from the facts of an original: each thing that it names, by itself and with what lies at its edges, then mixtures of
//! all of them until there are as many as are wanted. The same file and the same seed give the same requests.

use fastrand::Rng;

use crate::original::{Ingredient, IngredientKind, OriginalFacts, ProofEndpoint};

/// A request of a proof.
#[derive(Clone, Debug)]
pub(crate) struct ProofRequest {
    /// Which endpoint of the original.
    pub(crate) endpoint: usize,
    pub(crate) host: String,
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: usize,
    /// The address that it comes from.
    pub(crate) source: Option<String>,
    /// Lines of the original that its parts come from.
    pub(crate) lines: Vec<u32>,
    /// Where the host is from; 0 for those that any file gets.
    pub(crate) host_line: u32,
}

/// What servers are asked to answer.
const ANSWERS: [&str; 18] = [
    "301", "302", "cookie", "fields", "long", "cached", "json", "201", "401", "403", "404", "413", "500",
    "502", "503", "504", "close", "200",
];

/// What is asked for beside the paths that a file names.
const COMMON: [&str; 14] = [
    "/",
    "/index.html",
    "/nothing-here",
    "/a%20b",
    "/%2e%2e/x",
    "/a//b",
    "/style.css?v=1",
    "/app.js",
    "/image.png",
    "/.well-known/acme-challenge/token",
    "/.git/config",
    "/favicon.ico",
    "/robots.txt",
    "/index.php?a=1",
];

/// Fields that programs look at of themselves.
const FIELDS: [(&str, &str); 12] = [
    ("Accept-Encoding", "gzip"),
    ("Upgrade", "websocket"),
    ("X-Forwarded-For", "203.0.113.9"),
    ("X-Forwarded-Proto", "https"),
    ("X-Forwarded-Host", "evil.example"),
    ("X-Real-IP", "203.0.113.9"),
    ("Origin", "https://app.example.com"),
    ("Range", "bytes=0-9"),
    ("If-None-Match", "\"one\""),
    ("Authorization", "Basic cHJvb2Y6cHJvb2Y="),
    ("User-Agent", "Mozilla/5.0 (compatible; bingbot/2.0)"),
    ("Cookie", "session=abc; other=1"),
];

/// What goes with `Upgrade`.
const UPGRADE: [(&str, &str); 3] = [
    ("Connection", "Upgrade"),
    ("Sec-WebSocket-Version", "13"),
    ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
];

/// All requests of a proof.
pub(crate) fn requests(facts: &OriginalFacts, count: usize, seed: u64) -> Vec<ProofRequest> {
    let maker = Maker { facts, hosts: hosts(facts), paths: paths(facts) };
    let mut rng = Rng::with_seed(seed);
    let mut all = maker.systematic();
    // Where there are too many, all kinds of them are kept in their share.
    if all.len() > count {
        let kept = all.len();
        let mut index = 0;
        all.retain(|_| {
            index += 1;
            index * count / kept != (index - 1) * count / kept
        });
    }
    while all.len() < count && !facts.endpoints.is_empty() {
        all.push(maker.mixture(&mut rng));
    }
    for (number, request) in all.iter_mut().enumerate() {
        let is_asked_to = request.fields.iter().any(|(name, _)| name == "X-Proof-Answer");
        if facts.has_cache && is_asked_to {
            // No other request gets an answer that was made for this one.
            let sign = if request.target.contains('?') { '&' } else { '?' };
            request.target.push_str(&format!("{sign}n={number}"));
        }
        request.fields.push(("X-Proof".to_owned(), number.to_string()));
    }
    all
}

struct Maker<'f> {
    facts: &'f OriginalFacts,
    hosts: Vec<(String, u32)>,
    paths: Vec<(String, u32)>,
}

fn of_kind(facts: &OriginalFacts, kind: IngredientKind) -> impl Iterator<Item = &Ingredient> {
    facts.ingredients.iter().filter(move |ingredient| ingredient.kind == kind)
}

fn hosts(facts: &OriginalFacts) -> Vec<(String, u32)> {
    let mut hosts: Vec<_> = of_kind(facts, IngredientKind::Host)
        .filter(|host| !host.value.is_empty() && host.value.bytes().all(|byte| byte.is_ascii_graphic()))
        .map(|host| (host.value.clone(), host.line))
        .collect();
    hosts.sort_by_key(|(_, line)| *line);
    hosts.push(("unknown.example".to_owned(), 0));
    hosts
}

fn paths(facts: &OriginalFacts) -> Vec<(String, u32)> {
    let named = of_kind(facts, IngredientKind::Path).map(|path| (path.value.clone(), path.line));
    let mut paths: Vec<_> = named.collect();
    paths.sort_by_key(|(_, line)| *line);
    for (path, _) in &mut paths {
        if !path.starts_with('/') {
            path.insert(0, '/');
        }
        *path = path
            .replace(' ', "%20")
            .replace('#', "%23")
            .replace(|next: char| next.is_control() || !next.is_ascii(), "_");
    }
    if paths.is_empty() {
        paths.push(("/".to_owned(), 0));
    }
    paths
}

/// A path, and those at its edges.
fn edges(path: &str) -> Vec<String> {
    let bare = path.trim_end_matches('/');
    let mut found = vec![
        path.to_owned(),
        bare.to_owned(),
        format!("{bare}/"),
        format!("{bare}x"),
        format!("{bare}/x"),
        format!("{bare}/sub/file.txt?a=1&b=%20c"),
        format!("/{path}"),
        format!("{bare}/x/../y"),
        format!("{bare}/../z"),
        format!("{bare}/%2e%2e/z"),
        format!("{bare}/a%2fb"),
        format!("{bare}/./x"),
        format!("{bare}/x.php"),
        format!("{bare}/x.php/info?q=1"),
        format!("{bare}/x.jpg"),
        format!("{path}?"),
        format!("{path}?url=http://a/b&x=%41+b"),
        path.to_uppercase(),
    ];
    if let Some(first) = bare.as_bytes().get(1) {
        found.push(format!("/%{first:02x}{}", &bare[2..]));
    }
    found.retain(|path| path.starts_with('/'));
    let mut known = std::collections::BTreeSet::new();
    found.retain(|path| known.insert(path.clone()));
    found
}

impl Maker<'_> {
    fn request(
        &self,
        endpoint: usize,
        (host, host_line): &(String, u32),
        (path, line): (&str, u32),
    ) -> ProofRequest {
        ProofRequest {
            endpoint,
            host: host.clone(),
            method: "GET".to_owned(),
            target: path.to_owned(),
            fields: Vec::new(),
            body: 0,
            source: None,
            lines: [line].into_iter().filter(|line| *line > 0).collect(),
            host_line: *host_line,
        }
    }

    fn systematic(&self) -> Vec<ProofRequest> {
        let mut all = Vec::new();
        let endpoints = || 0..self.facts.endpoints.len();
        for endpoint in endpoints() {
            for host in &self.hosts {
                for path in COMMON {
                    all.push(self.request(endpoint, host, (path, 0)));
                }
                for (path, line) in &self.paths {
                    let edges = edges(path);
                    // The first host with all edges of a path, others with the path.
                    let is_first = host == &self.hosts[0];
                    let some = if is_first { &edges[..] } else { &edges[..1] };
                    all.extend(some.iter().map(|edge| self.request(endpoint, host, (edge, *line))));
                }
            }
            for (path, line) in &self.paths {
                for answer in ANSWERS {
                    let mut request = self.request(endpoint, &self.hosts[0], (path, *line));
                    request.fields.push(("X-Proof-Answer".to_owned(), answer.to_owned()));
                    all.push(request);
                }
                for method in ["POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"] {
                    let mut request = self.request(endpoint, &self.hosts[0], (path, *line));
                    request.method = method.to_owned();
                    request.body = if matches!(method, "POST" | "PUT" | "PATCH") { 1000 } else { 0 };
                    all.push(request);
                }
            }
            self.special(endpoint, &mut all);
        }
        all
    }

    /// What the file compares with, at some paths, and what programs look at of themselves.
    fn special(&self, endpoint: usize, all: &mut Vec<ProofRequest>) {
        let paths = self.paths.iter().map(|(path, line)| (path.as_str(), *line));
        for (path, line) in [("/", 0)].into_iter().chain(paths.take(6)) {
            for ingredient in &self.facts.ingredients {
                let mut request = self.request(endpoint, &self.hosts[0], (path, line));
                if add(&mut request, ingredient) {
                    all.push(request);
                }
            }
            for (name, value) in FIELDS {
                let mut request = self.request(endpoint, &self.hosts[0], (path, line));
                request.fields.push((name.to_owned(), value.to_owned()));
                if name == "Upgrade" {
                    request.fields.extend(UPGRADE.map(|(name, value)| (name.to_owned(), value.to_owned())));
                }
                all.push(request);
            }
        }
        for size in [1_000_000, 1_100_000, 12_000_000] {
            let mut request = self.request(endpoint, &self.hosts[0], ("/", 0));
            request.method = "POST".to_owned();
            request.body = size;
            all.push(request);
        }
    }

    fn mixture(&self, rng: &mut Rng) -> ProofRequest {
        let endpoint = rng.usize(..self.facts.endpoints.len());
        let host = &self.hosts[rng.usize(..self.hosts.len())];
        let (path, line) = &self.paths[rng.usize(..self.paths.len())];
        let edges = edges(path);
        let edge = if rng.bool() { path } else { &edges[rng.usize(..edges.len())] };
        let mut request = self.request(endpoint, host, (edge, *line));
        let ingredients: Vec<&Ingredient> = self.facts.ingredients.iter().collect();
        for _ in 0..rng.usize(..3) {
            if !ingredients.is_empty() {
                add(&mut request, ingredients[rng.usize(..ingredients.len())]);
            }
        }
        if rng.u8(..3) == 0 {
            let (name, value) = FIELDS[rng.usize(..FIELDS.len())];
            request.fields.push((name.to_owned(), value.to_owned()));
        }
        if rng.u8(..3) == 0 {
            let answer = ANSWERS[rng.usize(..ANSWERS.len())];
            request.fields.push(("X-Proof-Answer".to_owned(), answer.to_owned()));
        }
        request
    }
}

/// Gives a request what an ingredient says; hosts and paths have requests of their own.
fn add(request: &mut ProofRequest, ingredient: &Ingredient) -> bool {
    let Ingredient { kind, name, value, line } = ingredient;
    let is_text = |text: &str| text.bytes().all(|byte| (32..127).contains(&byte));
    if !is_text(value) {
        return false;
    }
    match kind {
        IngredientKind::Method if value.bytes().all(|byte| byte.is_ascii_alphabetic()) => {
            request.method.clone_from(value);
        }
        IngredientKind::Field if !name.is_empty() => {
            request.fields.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
            request.fields.push((name.clone(), value.clone()));
        }
        IngredientKind::Cookie => request.fields.push(("Cookie".to_owned(), format!("{name}={value}"))),
        IngredientKind::Argument => {
            let sign = if request.target.contains('?') { '&' } else { '?' };
            let pair = if name.is_empty() { value.clone() } else { format!("{name}={value}") };
            request.target.push(sign);
            request.target.push_str(&pair.replace(' ', "%20"));
        }
        IngredientKind::Source => request.source = Some(value.clone()),
        _ => return false,
    }
    request.lines.push(*line);
    true
}

impl ProofRequest {
    /// The bytes that are sent.
    pub(crate) fn bytes(&self, endpoint: &ProofEndpoint) -> Vec<u8> {
        let mut text = String::new();
        if endpoint.has_proxy_header {
            text.push_str("PROXY TCP4 203.0.113.77 127.0.0.1 5555 80\r\n");
        }
        text.push_str(&format!("{} {} HTTP/1.1\r\nHost: {}\r\n", self.method, self.target, self.host));
        if !self.fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("User-Agent")) {
            text.push_str("User-Agent: proof\r\n");
        }
        for (name, value) in &self.fields {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        if self.body > 0 {
            text.push_str(&format!("Content-Type: text/plain\r\nContent-Length: {}\r\n", self.body));
        }
        text.push_str("\r\n");
        let mut bytes = text.into_bytes();
        bytes.resize(bytes.len() + self.body, b'b');
        bytes
    }

    /// On one line.
    pub(crate) fn summary(&self) -> String {
        let fields = self.fields.iter().filter(|(name, _)| name != "X-Proof");
        let fields: Vec<String> = fields.map(|(name, value)| format!("{name}: {value}")).collect();
        let source = self.source.as_ref().map(|source| format!(" from {source}")).unwrap_or_default();
        let body = if self.body > 0 { format!(" ({} bytes)", self.body) } else { String::new() };
        format!("{} {}{}{body}{source} [{}]", self.method, self.host, self.target, fields.join("; "))
    }
}
