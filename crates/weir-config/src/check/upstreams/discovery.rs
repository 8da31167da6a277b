//! Sources of servers: exactly one for an upstream, whose keys fit it, and what all of them share. No source is asked.

use std::path::PathBuf;

use crate::check::admin;
use crate::check::certificate_files;
use crate::check::files::Files;
use crate::config::{
    ConsulService, DiscoverySettings, ServerSource, SourceSecret, SourceTls, SourceUrl, XdsControlPlane,
    XdsNode,
};
use crate::diagnostic::SourceSpan;
use crate::diagnostic::{Diagnostic, DiagnosticKind};
use crate::key::{OneOrMany, Spanned, SpannedTable};
use crate::text::{
    DiscoveryText, Document, RoutesFromText, ServerText, UpstreamDiscoveryText, UpstreamText, XdsText,
};
use crate::value::ServerAddress;

const KINDS: [&str; 7] = ["file", "dns", "srv", "consul", "etcd", "cds", "eds"];

/// Longest name of a domain (RFC 1035 section 2.3.4), and of a service.
const NAME_LEN_MAX: usize = 253;

/// Longest name of a resource of xDS; names with an authority (`xdstp:`) are long.
const RESOURCE_NAME_LEN_MAX: usize = 1024;

/// Longest expression that is sent in the line of a request.
const FILTER_LEN_MAX: usize = 1024;

/// The source of an upstream. Reports an upstream with neither servers nor a source, and one with both.
pub(in crate::check) fn check_source(
    name: &Spanned<Box<str>>,
    text: &SpannedTable<UpstreamText>,
    files: &Files<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<ServerSource> {
    let Some(discovery) = &text.value.discovery else {
        let is_named = ["servers", "discovery", "dynamic"].iter().any(|key| !text.is_missing(key));
        if text.value.servers.is_none() && !is_named {
            let message = format!("the upstream `{}` has no servers", name.value);
            let help = "write `servers`, a list of addresses, or `discovery`, such as `{ dns = \"app.internal:8080\" }`";
            diagnostics.push(Diagnostic::new(DiagnosticKind::MissingKey, text.span, message).help(help));
        }
        return None;
    };
    report_mixture(text, discovery, diagnostics);
    report_other_keys(discovery, diagnostics);
    let written: Vec<(&str, SourceSpan)> =
        KINDS.iter().filter_map(|kind| Some((*kind, discovery.written(kind)?))).collect();
    match &written[..] {
        [] => {
            if discovery.is_sound {
                let message = "`discovery` names no source";
                let help = "write one of `file`, `dns`, `srv`, `consul`, `etcd`, `cds` and `eds`";
                diagnostics
                    .push(Diagnostic::new(DiagnosticKind::MissingKey, discovery.span, message).help(help));
            }
            None
        }
        [_] => source(&discovery.value, files, diagnostics),
        [(first, first_at), others @ ..] => {
            for (other, at) in others {
                let message = format!("`{other}` and `{first}`: an upstream has one source");
                let help = "define an upstream for each, and a route with `split` over both";
                let diagnostic = Diagnostic::new(DiagnosticKind::Conflict, *at, message).help(help);
                diagnostics.push(diagnostic.label(*first_at, "the first source"));
            }
            None
        }
    }
}

/// Servers in the text beside a source are a last resort: backups. Others would have to share the load with servers of which the text knows
/// nothing.
fn report_mixture(
    text: &SpannedTable<UpstreamText>,
    discovery: &SpannedTable<UpstreamDiscoveryText>,
    diagnostics: &mut Vec<Diagnostic>,
) {
    for entry in text.value.servers.iter().flat_map(|servers| &servers.0) {
        let is_backup = matches!(&entry.value, ServerText::Table(table) if table.value.backup);
        if !is_backup {
            let message = "a server beside `discovery` must be a backup";
            let help = "add `backup = true`: it serves when the source names no server that is available; or put it into the source";
            let diagnostic = Diagnostic::new(DiagnosticKind::Conflict, entry.span, message).help(help);
            diagnostics.push(diagnostic.label(discovery.span, "the source of the servers"));
        }
    }
}

fn report_other_keys(text: &SpannedTable<UpstreamDiscoveryText>, diagnostics: &mut Vec<Diagnostic>) {
    if text.written("consul").is_some() {
        return;
    }
    let UpstreamDiscoveryText { tags, datacenter, filter, nearest, .. } = &text.value;
    let keys = [
        ("tags", tags.is_some()),
        ("datacenter", datacenter.is_some()),
        ("filter", filter.is_some()),
        ("nearest", nearest.is_some()),
    ];
    for (key, is_read) in keys {
        if let Some(at) = text.written(key).filter(|_| is_read) {
            let message = format!("`{key}` belongs to `consul`");
            let help = "write `consul = \"...\"`, or remove it";
            diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, at, message).help(help));
        }
    }
}

fn source(
    text: &UpstreamDiscoveryText,
    files: &Files<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<ServerSource> {
    if let Some(file) = &text.file {
        return file_source(file, files, diagnostics);
    }
    if let Some(address) = &text.dns {
        return dns_source(address, diagnostics);
    }
    if let Some(name) = &text.srv {
        return srv_source(name, diagnostics);
    }
    if let Some(name) = &text.consul {
        return consul_source(name, text, diagnostics);
    }
    if let Some(name) = &text.cds {
        return resource_name(name, diagnostics).map(ServerSource::Cds);
    }
    if let Some(name) = &text.eds {
        return resource_name(name, diagnostics).map(ServerSource::Eds);
    }
    text.etcd.as_ref().and_then(|prefix| etcd_source(prefix, diagnostics))
}

/// The name of a resource of xDS.
fn resource_name(name: &Spanned<Box<str>>, diagnostics: &mut Vec<Diagnostic>) -> Option<Box<str>> {
    let is_name = match &*name.value {
        "" | "*" => false,
        text => text.len() <= RESOURCE_NAME_LEN_MAX && !text.contains(char::is_control),
    };
    if !is_name {
        let message = format!("{:?} is not the name of a resource", name.value);
        let help =
            "write the name that the control plane has for it, such as `app`; one upstream has one cluster";
        diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, name.span, message).help(help));
    }
    is_name.then(|| name.value.clone())
}

fn file_source(
    file: &Spanned<Box<str>>,
    files: &Files<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<ServerSource> {
    let path: PathBuf = files.path(file);
    let is_known = path.extension().is_some_and(|extension| extension == "toml" || extension == "json");
    if !is_known {
        let message = format!("`{}` is neither a `.toml` nor a `.json`", file.value);
        let help = "the ending decides how the file is read";
        diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, file.span, message).help(help));
        return None;
    }
    Some(ServerSource::File(path))
}

fn dns_source(address: &Spanned<ServerAddress>, diagnostics: &mut Vec<Diagnostic>) -> Option<ServerSource> {
    if let ServerAddress::Name { host, port } = &address.value {
        return Some(ServerSource::Dns { host: host.clone(), port: *port });
    }
    let message = format!("`{}` is an address, not a name", address.value);
    let help = format!("write `servers = [\"{}\"]`", address.value);
    diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, address.span, message).help(help));
    None
}

fn srv_source(name: &Spanned<Box<str>>, diagnostics: &mut Vec<Diagnostic>) -> Option<ServerSource> {
    let text = name.value.strip_suffix('.').unwrap_or(&name.value);
    let is_label = |label: &str| {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        (1..=63).contains(&label.len()) && label.bytes().all(is_allowed)
    };
    if text.len() <= NAME_LEN_MAX && text.split('.').all(is_label) {
        return Some(ServerSource::Srv(text.to_ascii_lowercase().into()));
    }
    let message = format!("`{}` is not a name in DNS", name.value);
    let help = "write for example `_http._tcp.app.example.com`; ports are in the records";
    diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, name.span, message).help(help));
    None
}

fn consul_source(
    name: &Spanned<Box<str>>,
    text: &UpstreamDiscoveryText,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<ServerSource> {
    let tags = text.tags.as_ref().map_or(&[][..], |OneOrMany(tags)| tags);
    let mut is_sound = true;
    let named =
        [(name, "service")].into_iter().chain(text.datacenter.iter().map(|name| (name, "datacenter")));
    for (name, what) in named.chain(tags.iter().map(|tag| (tag, "tag"))) {
        if name.value.is_empty() || name.value.len() > NAME_LEN_MAX || name.value.contains(char::is_control) {
            let message = format!("{:?} is not the name of a {what}", name.value);
            diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, name.span, message));
            is_sound = false;
        }
    }
    if let Some(filter) = &text.filter
        && (filter.value.is_empty()
            || filter.value.len() > FILTER_LEN_MAX
            || filter.value.contains(char::is_control))
    {
        let message = "this is no expression of Consul";
        let help =
            format!("write for example `Service.Meta.version == \"2\"`, in at most {FILTER_LEN_MAX} bytes");
        diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, filter.span, message).help(help));
        is_sound = false;
    }
    is_sound.then(|| {
        ServerSource::Consul(ConsulService {
            name: name.value.clone(),
            tags: tags.iter().map(|tag| tag.value.clone()).collect(),
            datacenter: text.datacenter.as_ref().map(|name| name.value.clone()),
            filter: text.filter.as_ref().map(|filter| filter.value.clone()),
            nearest: text.nearest,
        })
    })
}

fn etcd_source(prefix: &Spanned<Box<str>>, diagnostics: &mut Vec<Diagnostic>) -> Option<ServerSource> {
    let text = prefix.value.trim_end_matches('/');
    if text.is_empty() {
        let message = format!("`{}`: every key of etcd would be a server", prefix.value);
        let help = "write the prefix of one service, such as `/services/app`";
        diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, prefix.span, message).help(help));
        return None;
    }
    Some(ServerSource::Etcd(format!("{text}/").into()))
}

/// What all sources share.
pub(in crate::check) fn check_settings(
    document: &Document,
    files: &Files<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> DiscoverySettings {
    let text: &SpannedTable<DiscoveryText> = &document.discovery;
    report_unused(document, diagnostics);
    let DiscoveryText { empty_grace, state_file, consul, etcd, xds } = &text.value;
    let mut settings = DiscoverySettings {
        empty_grace: *empty_grace,
        state_file: state_file.as_ref().map(|file| files.path(file)),
        ..DiscoverySettings::default()
    };
    let secret = |file: &Option<Spanned<Box<str>>>, diagnostics: &mut Vec<Diagnostic>| {
        let line = admin::one_line(file.as_ref()?, 1, files, diagnostics)?;
        Some(SourceSecret(line.into()))
    };
    if let Some(url) = &consul.value.url {
        settings.consul.url = url.value.clone();
    }
    settings.consul.token = secret(&consul.value.token_file, diagnostics);
    let urls: Vec<(&SourceUrl, SourceSpan)> =
        consul.value.url.iter().map(|url| (&url.value, url.span)).collect();
    let pair = [&consul.value.certificate, &consul.value.key];
    settings.consul.tls = source_tls(&urls, consul, consul.value.ca.as_ref(), pair, files, diagnostics);
    warn_in_the_clear(&urls, consul.written("token_file"), "the token", diagnostics);
    let urls: Vec<(&SourceUrl, SourceSpan)> =
        etcd.value.url.iter().flat_map(|urls| &urls.0).map(|url| (&url.value, url.span)).collect();
    if !urls.is_empty() {
        settings.etcd.urls = urls.iter().map(|(url, _)| (*url).clone()).collect();
    }
    let pair = [&etcd.value.certificate, &etcd.value.key];
    settings.etcd.tls = source_tls(&urls, etcd, etcd.value.ca.as_ref(), pair, files, diagnostics);
    warn_in_the_clear(&urls, etcd.written("password_file"), "the password", diagnostics);
    let password = secret(&etcd.value.password_file, diagnostics);
    let written =
        [("user", &etcd.value.user, "password_file"), ("password_file", &etcd.value.password_file, "user")];
    for (key, value, other) in written {
        if let (Some(value), true) = (value, etcd.is_missing(other)) {
            let message = format!("`{key}` needs `{other}`");
            diagnostics.push(Diagnostic::new(DiagnosticKind::MissingKey, value.span, message));
        }
    }
    settings.etcd.login = etcd.value.user.as_ref().map(|user| user.value.clone()).zip(password);
    report_no_control_plane(document, diagnostics);
    settings.xds = control_plane(xds, files, diagnostics);
    settings
}

/// The control plane as the text has it.
fn control_plane(
    text: &SpannedTable<XdsText>,
    files: &Files<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> XdsControlPlane {
    let XdsText { url, node, node_cluster, node_metadata, region, zone, sub_zone, .. } = &text.value;
    let urls: Vec<(&SourceUrl, SourceSpan)> =
        url.iter().flat_map(|urls| &urls.0).map(|url| (&url.value, url.span)).collect();
    let pair = [&text.value.certificate, &text.value.key];
    let tls = source_tls(&urls, text, text.value.ca.as_ref(), pair, files, diagnostics);
    warn_in_the_clear(&urls, text.written("token_file"), "the token", diagnostics);
    let token = text.value.token_file.as_ref().and_then(|_| {
        let line = admin::one_line(text.value.token_file.as_ref()?, 1, files, diagnostics)?;
        Some(SourceSecret(line.into()))
    });
    let part = |part: &Option<Spanned<Box<str>>>| part.as_ref().map(|part| part.value.clone());
    XdsControlPlane {
        urls: urls.iter().map(|(url, _)| (*url).clone()).collect(),
        node: XdsNode {
            id: part(node),
            cluster: node_cluster.value.clone(),
            region: part(region).unwrap_or_default(),
            zone: part(zone).unwrap_or_default(),
            sub_zone: part(sub_zone).unwrap_or_default(),
            metadata: node_metadata
                .0
                .iter()
                .map(|(key, text)| (key.value.clone(), text.value.clone()))
                .collect(),
        },
        token,
        tls,
        answer_timeout: text.value.answer_timeout,
    }
}

/// There is no usual address of a control plane.
fn report_no_control_plane(document: &Document, diagnostics: &mut Vec<Diagnostic>) {
    let has_urls = document.discovery.value.xds.value.url.as_ref().is_some_and(|urls| !urls.0.is_empty());
    if has_urls || !document.discovery.value.xds.is_missing("url") {
        return;
    }
    for (_, text) in &document.upstream.0 {
        let Some(discovery) = &text.value.discovery else { continue };
        let UpstreamDiscoveryText { cds, eds, .. } = &discovery.value;
        for (kind, name) in [("cds", cds), ("eds", eds)] {
            if let Some(at) = discovery.written(kind).filter(|_| name.is_some()) {
                let message = format!("`{kind}` needs the control plane");
                let help =
                    "write where it answers: `[discovery.xds]` with `url = \"http://127.0.0.1:18000\"`";
                diagnostics.push(Diagnostic::new(DiagnosticKind::MissingKey, at, message).help(help));
            }
        }
    }
}

fn report_unused(document: &Document, diagnostics: &mut Vec<Diagnostic>) {
    let uses = |kind: &str| {
        if kind == "xds" {
            let sources = document.upstream.0.iter().filter_map(|(_, text)| text.value.discovery.as_ref());
            return sources
                .into_iter()
                .any(|source| source.written("cds").or(source.written("eds")).is_some());
        }
        let sources = document.upstream.0.iter().filter_map(|(_, text)| text.value.discovery.as_ref());
        let routes_use =
            |(_, text): &(_, SpannedTable<RoutesFromText>)| !kind.is_empty() && text.written(kind).is_some();
        sources.into_iter().any(|discovery| kind.is_empty() || discovery.written(kind).is_some())
            || document.routes_from.0.iter().any(routes_use)
    };
    // Their addresses are in the state file.
    let has_name = |entry: &Spanned<ServerText>| {
        let address = match &entry.value {
            ServerText::Address(address) => Some(address),
            ServerText::Table(table) => table.value.address.as_ref().map(|address| &address.value),
        };
        matches!(address, Some(ServerAddress::Name { .. }))
    };
    let mut servers = document
        .upstream
        .0
        .iter()
        .flat_map(|(_, text)| text.value.servers.iter().flat_map(|servers| &servers.0));
    let has_names = servers.any(has_name);
    let has_dynamic = document.upstream.0.iter().any(|(_, text)| text.value.dynamic.is_some());
    let all_read = document.upstream.0.iter().all(|(_, text)| text.is_sound);
    for (key, kind) in
        [("consul", "consul"), ("etcd", "etcd"), ("xds", "xds"), ("state_file", ""), ("empty_grace", "")]
    {
        let is_used = uses(kind) || key == "state_file" && has_names || key == "empty_grace" && has_dynamic;
        if let Some(at) = document.discovery.changed(key).filter(|_| all_read && !is_used) {
            let message = match kind {
                "" if key == "state_file" => {
                    format!("`{key}` has no effect: no upstream has `discovery`, and no server has a name")
                }
                "" => format!("`{key}` has no effect: no upstream has `discovery`"),
                "xds" => format!("`{key}` has no effect: no upstream has `cds` or `eds` in `discovery`"),
                _ => format!(
                    "`{key}` has no effect: no upstream has `discovery = {{ {kind} = ... }}`, and no `[routes_from.NAME]` has `{kind}`"
                ),
            };
            diagnostics.push(Diagnostic::new(DiagnosticKind::Unused, at, message));
        }
    }
}

/// Warns when a secret is sent over a network unencrypted.
fn warn_in_the_clear(
    urls: &[(&SourceUrl, SourceSpan)],
    secret_at: Option<SourceSpan>,
    secret: &str,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let open =
        urls.iter().find(|(url, _)| !url.is_tls && !crate::check::traces::is_this_machine(&url.authority));
    if let (Some((_, at)), Some(secret_at)) = (open, secret_at) {
        let message = format!("{secret} is sent unencrypted");
        let diagnostic = Diagnostic::new(DiagnosticKind::Suspicious, *at, message).help("use `https`");
        diagnostics.push(diagnostic.label(secret_at, "the secret"));
    }
}

/// TLS with a source: whom it has to be signed by, and what Weir presents.
fn source_tls<T>(
    urls: &[(&SourceUrl, SourceSpan)],
    text: &SpannedTable<T>,
    ca: Option<&Spanned<Box<str>>>,
    pair: [&Option<Spanned<Box<str>>>; 2],
    files: &Files<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<SourceTls> {
    let Some((_, at)) = urls.iter().find(|(url, _)| url.is_tls) else {
        let [certificate, key] = pair.map(Option::as_ref);
        for (name, file) in [("ca", ca), ("certificate", certificate), ("key", key)] {
            if let Some(file) = file {
                let message = format!("`{name}` has no effect: no URL has `https`");
                diagnostics.push(Diagnostic::new(DiagnosticKind::Unused, file.span, message));
            }
        }
        return None;
    };
    let certificate = certificate_files::load_presented(text, pair, files, diagnostics);
    let authorities = certificate_files::load_authorities(ca, *at, files, diagnostics)?;
    Some(SourceTls { authorities, certificate })
}
