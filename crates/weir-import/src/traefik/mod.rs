//! Traefik's dynamic configuration in YAML or TOML, beside its static one where that is given.
//!
//! Entry points become listeners, routers routes, services upstreams. Middlewares are read for each router that lists them, since what they
//! come to depends on what is before them.

mod listeners;
mod routers;
mod tcp;
mod tls;
mod entry_points;
mod middlewares;
mod services;
mod transports;
mod installation;
mod rule;
mod tree;
mod parse;

use std::cell::RefCell;
use std::collections::HashMap;

use crate::document::Draft;
use crate::report::Ledger;
use crate::source::{ImportError, SourceFiles, Statement, TextLimit};

use entry_points::EntryPoint;
use installation::DynamicFiles;
use listeners::ListenerMaker;
use routers::{RouterMaker, TraefikRouter};
use services::TraefikServices;
use tcp::TcpConfig;
use tls::TraefikTls;
use tree::{key, refuse};

/// How many folders of a path are looked for beside the static config, which may be in a container where it runs.
const FOLDERS_MAX: usize = 3;

/// Everything that the files say.
struct TraefikConfig<'s> {
    points: Vec<EntryPoint<'s>>,
    /// Whether there is a static config.
    has_static: bool,
    routers: Vec<TraefikRouter<'s>>,
    middlewares: Vec<(&'s str, &'s Statement)>,
    services: TraefikServices<'s>,
    tcp: TcpConfig<'s>,
    tls: TraefikTls<'s>,
}

pub(crate) fn translate(
    names: &[&str],
    files: &dyn SourceFiles,
    ledger: &Ledger,
) -> Result<Draft, ImportError> {
    let limit = TextLimit::default();
    let mut texts = Vec::new();
    for name in names {
        texts.push(parse::read(name, files, &limit, None, ledger)?);
    }
    let mut further = Vec::new();
    if let ([name], [own]) = (names, texts.as_slice()) {
        for named in installation::named_files(own, ledger) {
            further.extend(read_named(name, named, files, &limit, ledger)?);
        }
    } else {
        for named in texts.iter().flat_map(|own| installation::named_files(own, ledger)) {
            ledger.exact(named.statement);
        }
    }
    let mut draft = Draft::default();
    let roots: Vec<&Statement> = texts.iter().chain(&further).flatten().collect();
    let mut config = TraefikConfig::read(&roots, &mut draft, ledger);
    config.assume_entry_points();
    config.write(&mut draft);
    Ok(draft)
}

/// Whether a file is named after Traefik.
pub(crate) fn is_named(file: &str) -> bool {
    file.contains("traefik") && [".yml", ".yaml", ".toml"].iter().any(|end| file.ends_with(end))
}

/// Whether a text looks like a config of Traefik.
pub(crate) fn looks_like(text: &str) -> bool {
    let begins = |keys: &[&str]| text.lines().any(|line| keys.iter().any(|key| line.trim_end() == *key));
    let inside = ["routers:", "services:", "middlewares:", "serversTransports:"];
    let has_inner = text.lines().any(|line| line.starts_with(' ') && inside.contains(&line.trim()));
    let tables = ["[http.routers.", "[http.services.", "[http.middlewares.", "[tcp.routers.", "[entryPoints"];
    let is_table = |line: &str| {
        tables
            .iter()
            .any(|table| line.trim_start_matches('[').starts_with(&table[1..]) && line.starts_with('['))
    };
    begins(&["http:", "tcp:"]) && has_inner || begins(&["entryPoints:"]) || text.lines().any(is_table)
}

/// The files that a static config names; where they are not, those of the same name beside it.
fn read_named(
    beside: &str,
    named: DynamicFiles<'_>,
    files: &dyn SourceFiles,
    limit: &TextLimit,
    ledger: &Ledger,
) -> Result<Vec<Vec<Statement>>, ImportError> {
    let folder = beside.rsplit_once('/').map_or("", |(folder, _)| folder);
    let path = named.path.trim_end_matches('/');
    let mut candidates = vec![path.to_owned()];
    for (at, _) in path.rmatch_indices('/').take(FOLDERS_MAX) {
        let end = &path[at + 1..];
        candidates.push(if folder.is_empty() { end.to_owned() } else { format!("{folder}/{end}") });
    }
    for path in candidates.iter().filter(|path| !path.is_empty()) {
        let found: Vec<String> = if named.is_folder {
            let ends = ["yml", "yaml", "toml"].iter();
            let mut found: Vec<String> =
                ends.flat_map(|end| files.matching(&format!("{path}/*.{end}"))).collect();
            found.sort();
            found
        } else if files.read(path).is_ok() {
            vec![path.clone()]
        } else {
            Vec::new()
        };
        if !found.is_empty() {
            ledger.exact(named.statement);
            let read = |path: &String| parse::read(path, files, limit, Some(&named.statement.at), ledger);
            return found.iter().map(read).collect();
        }
    }
    ledger
        .unsupported(named.statement, "there are no such files: name those with the routers behind this one");
    Ok(Vec::new())
}

impl<'s> TraefikConfig<'s> {
    fn read(roots: &[&'s Statement], draft: &mut Draft, ledger: &'s Ledger) -> TraefikConfig<'s> {
        let mut config = TraefikConfig {
            points: Vec::new(),
            has_static: false,
            routers: Vec::new(),
            middlewares: Vec::new(),
            services: TraefikServices::new(ledger),
            tcp: TcpConfig::default(),
            tls: TraefikTls::default(),
        };
        for root in roots {
            match key(root).as_str() {
                "http" => config.http(root, ledger),
                "tcp" => config.tcp.read(root, ledger),
                "tls" => config.tls.read(root, ledger),
                "udp" => refuse(ledger, root, "Weir forwards TCP; UDP is not supported"),
                "entrypoints" => {
                    config.has_static = true;
                    config.points.extend(entry_points::read(root, ledger));
                }
                "certificatesresolvers" => config.tls.read_resolvers(root, ledger),
                "serverstransport" => config.services.usual_transport = Some(root),
                _ => config.has_static |= installation::read(root, draft, ledger),
            }
        }
        for ping in roots.iter().filter(|root| key(root) == "ping") {
            let name = installation::ping_point(ping, ledger);
            let point = config.points.iter_mut().find(|point| Some(point.name.as_str()) == name);
            match point {
                Some(point) => point.ping = Some(ping),
                None => {
                    refuse(
                        ledger,
                        ping,
                        "`[admin]` answers `/health` and `/ready`, at an address of its own",
                    );
                }
            }
        }
        config
    }

    fn http(&mut self, statement: &'s Statement, ledger: &Ledger) {
        for part in statement.children() {
            let own = part.children().iter().map(|own| (own.name(), own));
            match key(part).as_str() {
                "routers" => {
                    self.routers.extend(part.children().iter().map(|own| TraefikRouter::read(own, ledger)));
                }
                "services" => self.services.definitions.extend(own),
                "middlewares" => self.middlewares.extend(own),
                "serverstransports" => self.services.transports.extend(own),
                _ => continue,
            }
            ledger.exact(part);
        }
        ledger.exact(statement);
    }

    /// Without a static config, the ports that names of entry points usually stand for.
    fn assume_entry_points(&mut self) {
        if self.has_static {
            if self.points.is_empty() {
                self.points.extend(EntryPoint::assumed("http"));
                self.points.iter_mut().for_each(|point| point.is_default = true);
            }
            return;
        }
        let ledger = self.services.ledger;
        let note = |name: &str, port: &str| {
            format!("`{name}` is taken for port {port}, which the static config says: import that, too")
        };
        for router in &self.routers {
            let from = router.entry_points_at.unwrap_or(router.statement);
            let usual = if router.has_tls { "websecure" } else { "web" };
            let own = if router.entry_points.is_empty() { vec![usual] } else { router.entry_points.clone() };
            for name in own {
                if !self.points.iter().any(|point| point.name == name) {
                    self.points.extend(EntryPoint::assumed(name));
                }
                if let Some(point) = self.points.iter_mut().find(|point| point.name == name) {
                    point.is_default |= router.entry_points.is_empty();
                    ledger.approximated(from, &note(name, point.port()));
                }
            }
        }
        self.points.sort_by(|one, other| {
            one.port().len().cmp(&other.port().len()).then(one.port().cmp(other.port()))
        });
    }

    fn write(mut self, draft: &mut Draft) {
        let ledger = self.services.ledger;
        let mut uses: HashMap<&str, usize> = HashMap::new();
        self.routers
            .iter()
            .flat_map(|router| router.middleware_names())
            .for_each(|name| *uses.entry(name).or_default() += 1);
        let chains = RefCell::new(self.chained());
        let is_shared =
            |name: &str| uses.get(name).is_some_and(|count| *count > 1) || chains.borrow().contains(&name);
        let mut maker = RouterMaker {
            ledger,
            services: &mut self.services,
            middlewares: &self.middlewares,
            draft,
            is_shared: &is_shared,
        };
        self.tcp.taken = maker.services.definitions.iter().map(|(name, _)| *name).collect();
        let listeners = ListenerMaker {
            ledger,
            points: &self.points,
            routers: &self.routers,
            tcp: &self.tcp,
            tls: &self.tls,
        };
        listeners.write(&mut maker);
        for (name, table) in std::mem::take(&mut self.services.upstreams) {
            *draft.table(&["upstream", &name]) = table;
        }
        self.settle_unused();
    }

    /// Middlewares that chains list: routers share them.
    fn chained(&self) -> Vec<&'s str> {
        let kinds = self.middlewares.iter().flat_map(|(_, definition)| definition.children());
        let chains = kinds.filter(|kind| key(kind) == "chain").flat_map(|chain| chain.children());
        chains.flat_map(|part| part.words.iter().skip(1)).map(|word| word.text.as_str()).collect()
    }

    fn settle_unused(&self) {
        let ledger = self.services.ledger;
        let (services, transports) = (&self.services.definitions, &self.services.transports);
        for (_, statement) in self.middlewares.iter().chain(services).chain(transports) {
            tree::ignore_unused(ledger, statement, "no router uses it");
        }
        if let Some(statement) = self.services.usual_transport {
            tree::ignore_unused(ledger, statement, "no service uses it");
        }
        self.tcp.settle_unused(ledger);
        self.tls.settle_unused(ledger);
    }
}
