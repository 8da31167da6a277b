//! `haproxy.cfg`: read as HAProxy reads it, and said in the words of Weir.

mod ignored;
mod admin;
mod frontend;
mod tables;
mod backend;
mod logs;
mod http_options;
mod errors;
mod rules;
mod userlist;
mod format;
mod acl;
mod process;
mod certificates;
mod output;
mod address;
mod proxy;
mod parse;

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use crate::document::{Draft, DraftTable};
use crate::report::Ledger;
use crate::source::{ImportError, SourceFiles, Statement, StatementId};
use acl::{AclCondition, AclConditions, HaproxyMapEntries, MapUse, Surroundings, TableFacts, VariableValue};
use backend::{ChosenServer, Clients};
use frontend::{BackendFacts, BackendTarget, FrontendParts};
use output::{Keys, NamedTables, literal};
use process::GlobalFacts;
use proxy::{ProxySection, name_of};

pub(crate) fn translate(
    names: &[&str],
    files: &dyn SourceFiles,
    ledger: &Ledger,
) -> Result<Draft, ImportError> {
    let sections = parse::parse(names, files, ledger)?;
    let superseded = RefCell::new(HashSet::new());
    let mut draft = Draft::default();
    let mut global = GlobalFacts::default();
    for section in sections.iter().filter(|section| section.name() == "global") {
        global.calls_scripts = process::calls_scripts(&sections);
        process::global(ledger, section, &mut global, &mut draft);
    }
    let of_kind = |kind: &str| -> Vec<&Statement> {
        sections.iter().filter(|section| section.name() == kind).collect()
    };
    for (index, section) in of_kind("resolvers").into_iter().enumerate() {
        process::resolvers(ledger, section, index == 0, &mut draft);
    }
    for section in of_kind("cache") {
        cache(ledger, section, &mut draft);
    }
    global.stores = certificates::stores(ledger, &of_kind("crt-store"));
    let proxies = proxies(ledger, &sections, &superseded);
    let users = userlist::user_lists(ledger, &of_kind("userlist"), files);
    let mut import = HaproxyImport { ledger, files, global, proxies, users, draft };
    import.run();
    let HaproxyImport { global, mut draft, .. } = import;
    for line in global.logs.iter().chain(&global.bind_defaults).filter(|line| !ledger.is_settled(line)) {
        ledger.meaningless(line, "no section makes use of it");
    }
    let superseded = superseded.borrow();
    for section in &sections {
        match section.name() {
            "frontend" | "backend" | "listen" | "defaults" => ignored::settle(ledger, section, &superseded),
            "global" | "resolvers" | "cache" | "userlist" | "crt-store" => {}
            "peers" if !process::peers_are_used(ledger, section, &sections) => {
                for line in section.children().iter().chain([section]) {
                    ledger.meaningless(line, "nothing counts in a table that it shares");
                }
            }
            _ => ignored::foreign_section(ledger, section),
        }
    }
    draft.root();
    Ok(draft)
}

/// Whether a text without a telling name begins like a config of HAProxy.
pub(crate) fn looks_like(text: &str) -> bool {
    let sections = ["global", "defaults", "frontend", "backend", "listen"];
    text.lines().filter_map(|line| line.split_whitespace().next()).any(|word| sections.contains(&word))
}

/// The sections with clients or servers, each with the `defaults` that it belongs to.
fn proxies<'s>(
    ledger: &'s Ledger,
    sections: &'s [Statement],
    superseded: &'s RefCell<HashSet<StatementId>>,
) -> Vec<ProxySection<'s>> {
    let mut named: HashMap<&str, Vec<&Statement>> = HashMap::new();
    let mut last: Vec<&Statement> = Vec::new();
    let mut proxies = Vec::new();
    for section in sections {
        let is_proxy = matches!(section.name(), "frontend" | "backend" | "listen");
        if section.name() != "defaults" && !is_proxy {
            continue;
        }
        let mut words = ledger.words(section);
        let from = words.value_of("from");
        let name = words.text();
        ledger.exact(section);
        let inherited = match from {
            Some(from) => named.get(from).cloned().unwrap_or_else(|| {
                ledger.unsupported(section, "there is no such `defaults` before it");
                Vec::new()
            }),
            None if is_proxy => last.clone(),
            None => Vec::new(),
        };
        if is_proxy {
            proxies.push(ProxySection::new(ledger, section, &inherited, superseded));
            continue;
        }
        last = inherited;
        last.push(section);
        if let Some(name) = name {
            named.insert(name, last.clone());
        }
    }
    proxies
}

/// The rules of a section, as those of the routes that lead to it.
fn of_routes<'s>(
    proxy: &ProxySection<'s>,
    mut rules: rules::SectionRules<'s>,
    files: &dyn SourceFiles,
    forwarded: &http_options::ForwardedBy<'s>,
) -> rules::SectionRules<'s> {
    http_options::options(proxy, &mut rules.route, &mut rules.requests, files, Some(forwarded));
    let listener = std::mem::take(&mut rules.listener);
    rules.route.extend(&listener);
    // They are about clients of the listener.
    for key in ["trusted_proxies", "client_address_header", "forwarded", "proxy_protocol"] {
        rules.route.remove(key);
    }
    rules
}

/// `cache NAME`.
fn cache(ledger: &Ledger, section: &Statement, draft: &mut Draft) {
    let name = name_of(ledger.words(section).text().unwrap_or_default());
    ledger.exact(section);
    let table = draft.table(&["cache", &name]);
    table.originate(section);
    for line in section.children() {
        let mut words = ledger.words(line);
        let number = words.text().and_then(|text| text.parse::<i64>().ok());
        match (line.name(), number) {
            ("total-max-size", Some(size)) => {
                table.set("memory", format!("{}MiB", size.max(1)), line);
                ledger.exact(line);
            }
            ("max-object-size", Some(size)) => {
                table.set("response_max", format!("{}B", size.max(1024)), line);
                ledger.exact(line);
            }
            ("max-age", Some(_)) => ledger.approximated(line, "responses are fresh for as long as they say: `ttl` of a route's `cache` is for those that say nothing"),
            ("process-vary" | "max-secondary-entries", _) => {
                words.rest();
                ledger.by_default(line, "`Vary` of responses counts");
            }
            _ => ledger.unsupported(line, "`[cache.NAME]` has no such key"),
        }
    }
    // A response is in memory while it is fetched: the default is more than a small cache has.
    let is_small = |memory: &str| {
        memory.strip_suffix("MiB").and_then(|size| size.parse::<i64>().ok()).is_some_and(|size| size < 8)
    };
    if let Some(memory) = table.text("memory").filter(|memory| is_small(memory)).map(str::to_owned)
        && !table.has("response_max")
    {
        table.set_plain("response_max", memory);
    }
}

/// An import under way.
struct HaproxyImport<'s, 'f> {
    ledger: &'s Ledger,
    files: &'f dyn SourceFiles,
    global: GlobalFacts<'s>,
    proxies: Vec<ProxySection<'s>>,
    users: HashMap<&'s str, userlist::UserList<'s>>,
    draft: Draft,
}

/// What sections share while their rules are read.
#[derive(Default)]
struct SharedState {
    tables: HashMap<String, TableFacts>,
    maps: RefCell<Vec<MapUse>>,
    variables: RefCell<HashMap<String, VariableValue>>,
    /// What each section with clients captures of requests, and what backends may ask for.
    captures: HashMap<usize, Vec<String>>,
    trusts_peers: bool,
    /// The slots of frontends.
    slots: HashMap<u8, String>,
}

impl SharedState {
    /// What conditions of a section may refer to.
    fn around<'a>(&'a self, files: &'a dyn SourceFiles, section: &'a str) -> Surroundings<'a> {
        Surroundings {
            files,
            tables: &self.tables,
            tables_are_known: !section.is_empty(),
            section,
            frontend: None,
            slots: HashMap::new(),
            maps: &self.maps,
            variables: &self.variables,
            trusts_peers: self.trusts_peers,
            captures: &[],
        }
    }
}

/// What faces servers, and the sections that face clients.
#[derive(Default)]
struct ServerSide<'s> {
    backends: HashMap<String, BackendFacts<'s>>,
    upstreams: Vec<(String, Keys<'s>)>,
    frontends: Vec<ReadSection<'s>>,
}

/// A section with its rules.
struct ReadSection<'s> {
    index: usize,
    rules: rules::SectionRules<'s>,
    /// The rules of a `listen` that others lead to, as they hold for these.
    as_backend: Option<rules::SectionRules<'s>>,
    targets: Vec<BackendTarget<'s>>,
    increments: Vec<(String, AclCondition, &'static str)>,
    /// Servers that rules choose.
    chosen: Vec<ChosenServer<'s>>,
}

impl<'s> HaproxyImport<'s, '_> {
    fn run(&mut self) {
        let mut state = SharedState::default();
        state.trusts_peers = self.trusts_peers();
        state.tables = {
            let around = self.around(&state, "");
            tables::facts(&self.proxies, &around)
        };
        state.slots = self.slots_of_frontends();
        state.captures = self.captures();
        self.modes();
        let disabled: Vec<usize> = (0..self.proxies.len()).filter(|index| self.is_disabled(*index)).collect();
        // Variables that frontends set, backends ask for.
        let mut order: Vec<usize> =
            (0..self.proxies.len()).filter(|index| !disabled.contains(index)).collect();
        order.sort_by_key(|index| (!self.proxies[*index].is_frontend(), *index));
        let (none, mut before) = (rules::ChangesBefore::default(), rules::ChangesBefore::default());
        let mut sections: Vec<ReadSection<'s>> = Vec::new();
        for index in order {
            let is_backend = !self.proxies[index].is_frontend();
            let section = self.read(index, &state, if is_backend { &before } else { &none });
            // A choice is made by the section whose rules make it.
            state.variables.borrow_mut().retain(|_, value| matches!(value, VariableValue::Named(_)));
            if !is_backend {
                before.headers.extend(section.rules.changed.iter().cloned());
                before.path |= section.rules.path_is_old;
            }
            sections.push(section);
        }
        // Rules of a `listen` hold for what others send to it, too.
        for section in self.led_by_others(&sections) {
            sections[section].as_backend = Some(self.read(sections[section].index, &state, &before).rules);
        }
        sections.sort_by_key(|section| section.index);
        self.tables(&state, &sections);
        let servers = self.servers(&state, sections);
        let listeners = self.listeners(&state, &servers);
        NamedTables { kind: "listener", block: "clients", tables: listeners }.write(&mut self.draft);
        NamedTables { kind: "upstream", block: "servers", tables: servers.upstreams }.write(&mut self.draft);
        self.maps(&state);
    }

    fn modes(&self) {
        for proxy in &self.proxies {
            match proxy.value("mode") {
                Some(("http" | "tcp", line)) => self.ledger.exact(line),
                Some((_, line)) => self.ledger.unsupported(line, "a listener speaks `http` or `tcp`"),
                None => {}
            }
        }
    }

    fn is_disabled(&self, index: usize) -> bool {
        let proxy = &self.proxies[index];
        let Some(line) = proxy.one(&["disabled"]) else { return false };
        for line in proxy.header.children().iter().chain([proxy.header, line]) {
            self.ledger.meaningless(line, "the section is disabled");
        }
        true
    }

    fn around<'a>(&'a self, state: &'a SharedState, section: &'a str) -> Surroundings<'a> {
        state.around(self.files, section)
    }

    /// Whether `option forwardfor except` makes trusted proxies; behind PROXY headers, the peer is not who HAProxy takes for it.
    fn trusts_peers(&self) -> bool {
        let has = |line: &Statement, text: &str| line.words.iter().any(|word| word.text == text);
        let frontends = || self.proxies.iter().filter(|proxy| proxy.is_frontend());
        let excepts = frontends().filter_map(|proxy| proxy.one(&["option", "forwardfor"]));
        let mut binds = frontends().flat_map(|proxy| proxy.all(&["bind", "tcp-request"]));
        excepts.into_iter().any(|line| has(line, "except"))
            && !binds.any(|line| has(line, "accept-proxy") || has(line, "expect-proxy"))
    }

    /// The `option forwardfor` of each section that faces clients. Its header is added to what servers get, where HAProxy lets a backend with an
    /// option of its own decide.
    fn forwarded(&self) -> Vec<Option<&'s Statement>> {
        let of_clients = || self.proxies.iter().filter(|proxy| proxy.is_frontend() && !proxy.is_tcp());
        for proxy in of_clients() {
            let Some(own) = proxy.option("forwardfor") else { continue };
            let decides = |other: &&ProxySection<'s>| {
                other.is_backend()
                    && other.name != proxy.name
                    && other.option("forwardfor").is_some_and(|line| line.id != own.id)
            };
            if own.words.iter().any(|word| word.text == "header")
                && self.proxies.iter().any(|other| decides(&other))
            {
                let difference =
                    "servers of backends with an `option forwardfor` of their own get this header, too";
                self.ledger.approximated(own, difference);
            }
        }
        of_clients().map(|proxy| proxy.option("forwardfor")).collect()
    }

    /// What sections with clients capture of requests, in the order of the slots.
    fn captures(&self) -> HashMap<usize, Vec<String>> {
        let frontends = self.proxies.iter().enumerate().filter(|(_, proxy)| proxy.is_frontend());
        frontends.map(|(index, proxy)| (index, logs::captures(proxy))).collect()
    }

    fn read(&self, index: usize, state: &SharedState, before: &rules::ChangesBefore) -> ReadSection<'s> {
        let proxy = &self.proxies[index];
        let mut slots = if proxy.is_frontend() { HashMap::new() } else { state.slots.clone() };
        slots.extend(tables::slots(proxy));
        // A backend has what the one section with clients has captured.
        let captures = match proxy.is_frontend() || state.captures.len() != 1 {
            true => state.captures.get(&index),
            false => state.captures.values().next(),
        };
        let captures = captures.map_or(&[][..], Vec::as_slice);
        let frontend = Some(proxy.name).filter(|_| proxy.is_frontend());
        let around =
            Surroundings { slots: slots.clone(), captures, frontend, ..self.around(state, proxy.name) };
        let conditions = AclConditions::new(self.ledger, &proxy.all(&["acl"]), around);
        let increments = tables::increments(proxy, &conditions, &slots);
        let rules = rules::read(proxy, &conditions, &self.users, before);
        let changes = rules::ChangesBefore { headers: rules.changed.clone(), path: rules.path_is_old };
        let has_servers =
            proxy.is_backend() && !proxy.all(&["server", "server-template", "dispatch"]).is_empty();
        let targets = if proxy.is_frontend() {
            frontend::targets(proxy, &conditions, has_servers, &changes)
        } else {
            Vec::new()
        };
        let chosen = backend::chosen(proxy, &conditions, &changes);
        conditions.settle_unused();
        ReadSection { index, rules, as_backend: None, targets, increments, chosen }
    }

    /// The places of `listen` sections that other sections lead to.
    fn led_by_others(&self, sections: &[ReadSection<'s>]) -> Vec<usize> {
        let is_led = |own: &ReadSection<'s>| {
            let proxy = &self.proxies[own.index];
            let others = sections.iter().filter(|section| section.index != own.index);
            proxy.is_frontend()
                && proxy.is_backend()
                && others.flat_map(|section| &section.targets).any(|target| target.backend == proxy.name)
        };
        (0..sections.len()).filter(|place| is_led(&sections[*place])).collect()
    }

    /// What frontends count, which backends ask for.
    fn slots_of_frontends(&self) -> HashMap<u8, String> {
        let frontends = self.proxies.iter().filter(|proxy| proxy.is_frontend());
        frontends.flat_map(tables::slots).collect()
    }

    fn tables(&mut self, state: &SharedState, sections: &[ReadSection<'s>]) {
        for proxy in &self.proxies {
            if !proxy.all(&["stick"]).is_empty() {
                continue;
            }
            let name = name_of(proxy.name);
            let increments: Vec<(AclCondition, &'static str)> = sections
                .iter()
                .flat_map(|section| &section.increments)
                .filter(|(table, _, _)| table == proxy.name)
                .map(|(_, condition, counter)| (condition.clone(), *counter))
                .collect();
            let is_used = sections.iter().any(|section| section.rules.tracks.contains(&name));
            let when = sections
                .iter()
                .flat_map(|section| &section.rules.track_conditions)
                .find(|(table, _)| *table == name);
            tables::write(
                proxy,
                &state.tables,
                is_used,
                &increments,
                when.map(|(_, when)| when.as_str()),
                &mut self.draft,
            );
        }
    }

    /// Makes what faces servers.
    fn servers(&mut self, state: &SharedState, sections: Vec<ReadSection<'s>>) -> ServerSide<'s> {
        let mut made = ServerSide::default();
        let clients = self.clients(&sections);
        let forwarded = self.forwarded();
        let mut names: Vec<String> = Vec::new();
        for mut section in sections {
            let proxy = &self.proxies[section.index];
            let around = self.around(state, proxy.name);
            let rules = match proxy.is_frontend() {
                true => section.as_backend.take(),
                false => Some(std::mem::take(&mut section.rules)),
            };
            let rules =
                rules.map(|rules| of_routes(proxy, rules, self.files, &forwarded)).unwrap_or_default();
            let mut facts =
                BackendFacts { upstream: None, chosen: Vec::new(), rules, is_tcp: proxy.is_tcp() };
            if proxy.is_backend() {
                let none = Clients::default();
                let clients = clients.get(proxy.name).unwrap_or(&none);
                if let Some(keys) = backend::upstream(proxy, &self.global, clients, &around) {
                    let name = address::free_name(proxy.name, &names);
                    names.push(name.clone());
                    facts.upstream = Some(name.clone());
                    made.upstreams.push((name, keys));
                }
                for rule in std::mem::take(&mut section.chosen) {
                    let keys = rule
                        .server
                        .and_then(|server| backend::upstream_of_one(proxy, &self.global, clients, server));
                    let name = keys.map(|keys| {
                        let wanted = format!("{}-{}", proxy.name, rule.server.unwrap_or_default());
                        let known = made.upstreams.iter().find(|(_, known)| known.equals(&keys));
                        if let Some((name, _)) = known.filter(|(name, _)| *name == name_of(&wanted)) {
                            return name.clone();
                        }
                        let name = address::free_name(&wanted, &names);
                        names.push(name.clone());
                        made.upstreams.push((name.clone(), keys));
                        name
                    });
                    facts.chosen.push((rule, name));
                }
            }
            if !proxy.is_frontend() {
                admin::stats(proxy, None, &mut self.draft);
            }
            // A frontend may have the name of a backend.
            if proxy.is_backend() {
                made.backends.insert(proxy.name.to_owned(), facts);
            }
            if proxy.is_frontend() {
                made.frontends.push(section);
            }
        }
        made
    }

    /// Makes what faces clients.
    fn listeners(&mut self, state: &SharedState, servers: &ServerSide<'s>) -> Vec<(String, Keys<'s>)> {
        let mut listeners = Vec::new();
        let mut taken = Vec::new();
        for ReadSection { index, rules, targets, .. } in &servers.frontends {
            let proxy = &self.proxies[*index];
            let around = Surroundings { frontend: Some(proxy.name), ..state.around(self.files, proxy.name) };
            let groups = frontend::groups(proxy, &self.global, self.files);
            let only_page = targets.is_empty() && rules.terminals.is_empty();
            let address = groups.first().and_then(|group| group.address()).filter(|_| only_page);
            let has_stats = admin::stats(proxy, address.as_deref(), &mut self.draft);
            if rules.metrics && !self.draft.table(&["admin"]).has("address") {
                self.draft
                    .table(&["admin"])
                    .set_plain("address", address.clone().unwrap_or_else(|| "127.0.0.1:8404".to_owned()));
            }
            if (has_stats || rules.metrics) && only_page {
                self.settle_page(*index);
                continue;
            }
            let backends = &servers.backends;
            let parts = FrontendParts { proxy, rules, global: &self.global, targets, backends };
            listeners.extend(frontend::listeners(&parts, groups, &around, &mut taken, &mut self.draft));
        }
        listeners
    }

    /// A section that is the status page and nothing else becomes `[admin]`.
    fn settle_page(&self, index: usize) {
        let proxy = &self.proxies[index];
        let _ = proxy.is_tcp();
        for line in proxy.innermost(&["log"]) {
            self.ledger.words(line).rest();
            self.ledger.approximated(line, "requests of the status page have no lines in the log");
        }
        for line in proxy.header.children() {
            if !self.ledger.is_settled(line)
                && ["mode", "maxconn", "timeout", "log", "option", "default_backend", "balance", "no"]
                    .contains(&line.name())
            {
                self.ledger.meaningless(line, "the admin listener has settings of its own");
            }
        }
    }

    /// What each section with clients means for those that it leads to.
    fn clients(&self, sections: &[ReadSection<'s>]) -> HashMap<String, Clients> {
        let mut all: HashMap<String, Clients> = HashMap::new();
        for section in sections {
            let proxy = &self.proxies[section.index];
            if !proxy.is_frontend() {
                continue;
            }
            let timeout = proxy.timeout("client").map(|(time, _)| time);
            let formats = ["httplog", "tcplog", "httpslog"];
            let has_format = formats.iter().any(|name| proxy.option(name).is_some())
                || proxy.one(&["log-format"]).is_some();
            let names = has_format && !proxy.all(&["log"]).is_empty() || self.names_servers();
            let mut ports = Vec::new();
            for bind in proxy.all(&["bind"]) {
                let written = bind.words.get(1).map_or("", |word| word.text.as_str());
                ports.extend(written.split(',').map(|text| address::parse_address(text).port_number()));
                // Who says by a PROXY header where it has connected to, need not have named this port.
                if bind.words.iter().any(|word| word.text == "accept-proxy") {
                    ports.push(None);
                }
            }
            let own = Some(proxy.name).filter(|_| proxy.is_backend());
            let led: HashSet<&str> =
                section.targets.iter().map(|target| target.backend.as_str()).chain(own).collect();
            for backend in led {
                let clients = all.entry(backend.to_owned()).or_default();
                clients.timeouts.push(timeout);
                clients.names |= names;
                clients.ports.extend(&ports);
            }
        }
        all
    }

    /// The first line that has a text in it.
    fn line_with(&self, text: &str) -> Option<&'s Statement> {
        let lines = self.proxies.iter().flat_map(ProxySection::lines);
        let has_text = |line: &&'s Statement| line.words.iter().any(|word| word.text.contains(text));
        lines.filter(has_text).min_by_key(|line| line.id)
    }

    /// Whether a rule asks for the name of a server.
    fn names_servers(&self) -> bool {
        let rules = self.proxies.iter().flat_map(|proxy| {
            proxy.all(&["http-request", "http-response", "http-after-response", "acl", "use_backend"])
        });
        let asks = |text: &str| text.contains("srv_name") || text.ends_with("%s") || text.contains("%s ");
        rules.into_iter().any(|line| line.words.iter().any(|word| asks(&word.text)))
    }

    fn maps(&mut self, state: &SharedState) {
        for map in state.maps.borrow().iter() {
            let from = self.line_with(&map.written);
            let table = self.draft.table(&["map", &map.name]);
            if let Some(from) = from {
                *table = DraftTable::silently_of(from);
            }
            table.set_plain("source", map.source.clone());
            if let Some(default) = &map.default {
                table.set_plain("default", literal(default));
            }
            match &map.entries {
                HaproxyMapEntries::File { path, kind } => {
                    match from {
                        Some(from) => table.set_beside("file", literal(path), from),
                        None => table.set_plain("file", literal(path)),
                    }
                    if *kind != "exact" {
                        table.set_plain("file_kind", *kind);
                    }
                }
                HaproxyMapEntries::Listed { keys, kind } => {
                    let own = table.table(kind);
                    keys.iter().for_each(|key| own.set_plain(&literal(key), "1"));
                }
                HaproxyMapEntries::Regex { pattern, value } => {
                    table.table("regex").set_plain(&literal(pattern), literal(value));
                }
            }
            if map.ignore_case {
                table.set_plain("ignore_case", true);
            }
        }
    }
}
