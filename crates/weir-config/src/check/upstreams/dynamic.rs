//! `dynamic` of an upstream: in place of servers, and beside what suits servers that requests name.

use crate::check::templates::{self, TemplatePlace};
use crate::config::{AllowedServers, DynamicServers};
use crate::diagnostic::{Diagnostic, DiagnosticKind};
use crate::key::SpannedTable;
use crate::text::{DynamicText, UpstreamText};
use crate::value::{Template, TemplatePart};

/// Keys that choose among servers, or are about all of them.
const OTHERS: [(&str, &str); 7] = [
    ("servers", "name the servers in `dynamic.allow`"),
    ("discovery", "define an upstream for each, and a route with `split` over both"),
    ("affinity", "leave it out: a name is one server"),
    ("balance", "leave it out: a name is one server"),
    ("hash_key", "leave it out: a name is one server"),
    ("slow_start", "leave it out: nothing chooses among the servers"),
    ("panic_threshold", "leave it out: nothing chooses among the servers"),
];

/// Reports what does not fit together.
pub(in crate::check) fn check(
    upstream: &SpannedTable<UpstreamText>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<DynamicServers> {
    let text = upstream.value.dynamic.as_ref()?;
    for (key, help) in OTHERS {
        if let Some(at) = upstream.written(key) {
            let message = format!("`{key}` beside `dynamic`: each request names its server");
            let conflict = Diagnostic::new(DiagnosticKind::Conflict, at, message).help(help);
            diagnostics.push(conflict.label(text.span, "the servers are those that requests name"));
        }
    }
    let DynamicText { server, allow, names_max, idle } = &text.value;
    let (server, allow) = (server.as_ref()?, allow.as_ref()?);
    templates::warn_of_variables(&server.value, server.span, diagnostics);
    templates::check_shared(&server.value, server.span, &TemplatePlace::SHARED, diagnostics);
    check_server(text, &server.value, diagnostics);
    let allow = AllowedServers::new(allow.0.iter().map(|entry| entry.value.clone()).collect());
    Some(DynamicServers::new((server.value.clone(), allow), *names_max, *idle))
}

/// Reports a text that names the same server for all requests, or whose ports nothing limits.
fn check_server(text: &SpannedTable<DynamicText>, server: &Template, diagnostics: &mut Vec<Diagnostic>) {
    let at = text.key_at("server");
    if server.values().next().is_none() {
        let message = "`server` has no placeholder, so it always names the same server";
        let help = format!("write `servers = [\"{server}\"]` in place of `dynamic`");
        diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, at, message).help(help));
        return;
    }
    let port = match server.parts().last() {
        Some(TemplatePart::Literal(end)) => end.rsplit_once(':').map(|(_, port)| port),
        _ => None,
    };
    if let Some(port) = port {
        if port.parse::<u16>().is_ok_and(|number| number > 0) && !port.starts_with(['0', '+']) {
            return;
        }
        let message = format!("`{server}` ends with `{port}`, which is no port");
        let help = "write `{...}:8080`, without scheme and path";
        diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, at, message).help(help));
        return;
    }
    let entries = text.value.allow.as_ref().map_or(&[][..], |allow| &allow.0);
    for entry in entries.iter().filter(|entry| !entry.value.names_ports()) {
        let message = format!("`{}` has any port, and the port of `server` is a placeholder", entry.value);
        let help = format!("write the ports behind it, such as `{}:8080`", entry.value);
        diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, entry.span, message).help(help));
    }
}
