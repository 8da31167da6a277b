//! What a config may set whose author has fewer rights than the process that reads it: a part of one that a tenant of a cluster has written.
//!
//! A list of keys, not of exceptions: a key that is declared later is refused until it is listed here, and a test refuses to list one whose type
//! can hold more than [`PLAIN_FORMATS`]. No listed key names a file, a socket in the file system, a program or a user, and none ends a confinement.
//! Variables of the environment are refused in every value.

use crate::diagnostic::{Diagnostic, DiagnosticKind};
use crate::source::{Tree, TreeNode};
use crate::text::Document;

/// The keys, by their tables.
const KEYS: [(&str, &[&str]); 8] = [
    (
        "process",
        &[
            "workers",
            "pin_workers",
            "connections_max",
            "buffer_size",
            "buffers_max",
            "memory_max",
            "background_requests_max",
            "compression_time",
            "compressions_max",
            "stop_delay",
            "stop_grace",
            "reload_grace",
            "name",
        ],
    ),
    ("log", &["level", "format"]),
    ("access_log", &["format", "output", "lines_max"]),
    ("dns", &["resolvers", "timeout", "ttl_min", "ttl_max"]),
    ("admin", &["address", "changes", "allowed_hosts"]),
    ("recorder", &["exchanges", "failures"]),
    ("metrics", &["buckets"]),
    ("traces", &["endpoint", "ratio", "rate", "accept", "service_name", "headers", "timeout", "queue_max"]),
];

/// Values that are permitted of a key with others that are not.
const VALUES: [(&str, &str, PermittedValues); 1] = [(
    "access_log",
    "output",
    PermittedValues {
        is_permitted: |value| matches!(value, "stdout" | "stderr") || value.starts_with("syslog+udp://"),
        help: "write `stdout`, `stderr` or `syslog+udp://ADDRESS:PORT`",
    },
)];

struct PermittedValues {
    is_permitted: fn(&str) -> bool,
    help: &'static str,
}

/// Tables of which the objects of the cluster have the say.
const OF_OBJECTS: [&str; 3] = ["listener", "upstream", "routes_from"];

/// Reports all that such an author may not write; whether there is nothing.
pub(crate) fn check_restricted(document: &TreeNode, diagnostics: &mut Vec<Diagnostic>) -> bool {
    let found = diagnostics.len();
    check_variables(document, diagnostics);
    let Tree::Table(tables) = &document.tree else { return true };
    // What is not declared at all has been reported.
    let sections = Document::vocabulary().sections();
    let root = sections.iter().find(|section| section.path.is_empty());
    for table in tables.entries.iter().filter(|table| root.is_some_and(|root| root.key(&table.key).is_some()))
    {
        let name = &*table.key;
        let Some((_, keys)) = KEYS.iter().find(|(listed, _)| *listed == name) else {
            let (message, help) = refused_table(name);
            diagnostics.push(Diagnostic::new(DiagnosticKind::NotSupported, table.key_at, message).help(help));
            continue;
        };
        let Tree::Table(entries) = &table.node.tree else { continue };
        let declared = sections.iter().find(|section| section.path == name);
        for entry in entries
            .entries
            .iter()
            .filter(|entry| declared.is_some_and(|section| section.key(&entry.key).is_some()))
        {
            if !keys.contains(&&*entry.key) {
                let message =
                    format!("`{name}.{}` has no place here: its author may not set this key", entry.key);
                let help = "remove it; permitted are keys that name no file, socket file, program or user";
                diagnostics
                    .push(Diagnostic::new(DiagnosticKind::NotSupported, entry.key_at, message).help(help));
            } else if let Some(help) = refused_value(name, &entry.key, &entry.node) {
                let message = format!("`{name}.{}` may not be this value here", entry.key);
                diagnostics
                    .push(Diagnostic::new(DiagnosticKind::NotSupported, entry.node.span, message).help(help));
            }
        }
    }
    diagnostics.len() == found
}

fn refused_table(name: &str) -> (String, &'static str) {
    match name {
        "include" => {
            ("`include` has no place here: no other files are read".to_owned(), "write what the files hold")
        }
        _ if OF_OBJECTS.contains(&name) => {
            (format!("`{name}` has no place here: routes and Services say this"), "remove it")
        }
        _ => (format!("`{name}` has no place here: its author may not set it"), "remove it"),
    }
}

/// The help for a value that is not permitted.
fn refused_value(table: &str, key: &str, value: &TreeNode) -> Option<&'static str> {
    let (_, _, values) = VALUES.iter().find(|(of, listed, _)| (*of, *listed) == (table, key))?;
    let Tree::Text(text) = &value.tree else { return None };
    (!(values.is_permitted)(&text.value)).then_some(values.help)
}

fn check_variables(node: &TreeNode, diagnostics: &mut Vec<Diagnostic>) {
    match &node.tree {
        Tree::Text(text) if text.is_substituted() => {
            let message = "variables of the environment have no place here";
            let help = "write the value; write `$$` for a literal `$`";
            diagnostics.push(Diagnostic::new(DiagnosticKind::Environment, node.span, message).help(help));
        }
        Tree::List(list) => list.iter().for_each(|item| check_variables(item, diagnostics)),
        Tree::Table(table) => {
            table.entries.iter().for_each(|entry| check_variables(&entry.node, diagnostics));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CheckedConfig;
    use crate::key::{SectionSchema, ValueKind};
    use crate::reference::sections;

    /// Forms of texts none of which names a thing that its reader opens in the file system, starts or becomes.
    const PLAIN_FORMATS: [&str; 11] = [
        "duration",
        "size",
        "percentage",
        "rate",
        "share",
        "bound",
        "token",
        "log format",
        "header value",
        "socket address",
        "collector URL",
    ];

    /// Keys of another form, and why they may be listed nevertheless.
    const READ_AS_TEXT: [(&str, &str, &str); 3] = [
        ("access_log", "output", "its values are judged, see VALUES"),
        ("admin", "allowed_hosts", "compared with the host of a request"),
        ("traces", "service_name", "sent as it is"),
    ];

    fn is_plain(kind: &ValueKind) -> bool {
        match kind {
            ValueKind::Boolean | ValueKind::Integer(_) | ValueKind::Choice(_) => true,
            ValueKind::Text(text, _) => PLAIN_FORMATS.contains(&text.name),
            ValueKind::Either(kinds) => kinds.iter().all(is_plain),
            ValueKind::List(item) | ValueKind::Map(item) => is_plain(item),
            ValueKind::Section(section) => section.keys.iter().all(|key| is_plain(&(key.kind)())),
            ValueKind::AnyTable => false,
        }
    }

    fn listed(section: &SectionSchema, key: &str) -> bool {
        KEYS.iter().any(|(table, keys)| *table == section.path && keys.contains(&key))
    }

    #[test]
    fn every_key_is_refused_that_can_name_something_outside() {
        let mut seen = 0;
        for section in sections() {
            for key in section.keys.iter().filter(|key| listed(section, key.name)) {
                seen += 1;
                let is_excepted =
                    READ_AS_TEXT.iter().any(|(table, name, _)| (*table, *name) == (section.path, key.name));
                let is_plain = is_plain(&(key.kind)());
                assert!(is_plain != is_excepted, "{}.{}: plain: {is_plain}", section.path, key.name);
            }
        }
        assert_eq!(
            seen,
            KEYS.iter().map(|(_, keys)| keys.len()).sum::<usize>(),
            "a listed key is not declared"
        );
    }

    /// The text of a table with one key, whose value has the right type where that is a text.
    fn text_with(section: &SectionSchema, key: &str, kind: &ValueKind) -> String {
        let value = match kind {
            ValueKind::Section(_) | ValueKind::Map(_) | ValueKind::AnyTable => "{}",
            ValueKind::List(_) => "[]",
            ValueKind::Boolean => "true",
            ValueKind::Integer(_) => "1",
            _ => "\"x\"",
        };
        match section.path {
            "" => format!("{key} = {value}\n"),
            path => format!("{} = {{ {key} = {value} }}\n", path.replace("NAME", "x")),
        }
    }

    #[test]
    fn every_other_key_of_the_reference_is_refused_where_it_is_written() {
        // A table that several others hold, such as a rule, is not at the top; those others are refused as a whole.
        let is_at_top = |section: &&&SectionSchema| {
            let first = section.path.split('.').next().unwrap_or_default();
            section.path.is_empty() || sections()[0].key(first).is_some()
        };
        for section in sections().iter().filter(is_at_top) {
            for key in section.keys {
                let is_table = section.path.is_empty() && KEYS.iter().any(|(table, _)| *table == key.name);
                if is_table || listed(section, key.name) {
                    continue;
                }
                let text = text_with(section, key.name, &(key.kind)());
                let checked = CheckedConfig::parse_restricted(&text, "config");
                assert!(checked.config.is_none(), "{text}");
                let said = checked.diagnostics.errors().map(|error| checked.diagnostics.line(error));
                let said: Vec<String> = said.filter(|line| line.contains("has no place here")).collect();
                assert!(said.iter().all(|line| line.starts_with("config:1:")), "{text}: {said:?}");
                assert_eq!(said.len(), 1, "{text}: {}", checked.diagnostics);
            }
        }
    }

    #[test]
    fn what_is_listed_is_read() {
        let text = "\
[process]
stop_delay = \"5s\"
name = \"edge\"
[access_log]
format = \"json\"
output = \"syslog+udp://10.0.0.1:514\"
[admin]
address = \"0.0.0.0:9000\"
[traces]
endpoint = \"http://127.0.0.1:4318/v1/traces\"
headers = { x-tenant = \"a$$b\" }
";
        let checked = CheckedConfig::parse_restricted(text, "config");
        assert!(checked.config.is_some(), "{}", checked.diagnostics);
    }

    #[test]
    fn what_names_something_outside_is_refused() {
        for (text, said) in [
            (
                "[traces]\nendpoint = \"http://a:4318/\"\nheader_files = { X-A = \"/run/token\" }\n",
                "config:3:1: error: `traces.header_files` has no place here",
            ),
            ("traces.ca = \"/etc/ssl/a.pem\"", "config:1:8: error: `traces.ca` has no place here"),
            (
                "[access_log]\noutput = \"file:/tmp/a\"\n",
                "config:2:10: error: `access_log.output` may not be",
            ),
            (
                "[access_log]\noutput = \"syslog:/dev/log\"\n",
                "config:2:10: error: `access_log.output` may not be",
            ),
            ("[admin]\nsocket = \"unix:/tmp/a\"\n", "config:2:1: error: `admin.socket` has no place here"),
            ("[process]\nsandbox = \"off\"\n", "config:2:1: error: `process.sandbox` has no place here"),
            ("[process]\nuser = \"root\"\n", "config:2:1: error: `process.user` has no place here"),
            ("[process.bird]\nprotocol = \"a\"\n", "config:1:10: error: `process.bird` has no place here"),
            ("[process]\nname = \"${HOME}\"\n", "config:2:8: error: variables of the environment"),
            ("[process]\nname = \"${SECRET:-a}\"\n", "config:2:8: error: variables of the environment"),
            ("traces.headers.x-a = \"\\u0024{HOME}\"\n", "config:1:22: error: variables of the environment"),
            ("[limit.x]\nkey = \"client-address\"\n", "config:1:2: error: `limit` has no place here"),
            (
                "[routes_from.x]\netcd = \"a\"\n",
                "`routes_from` has no place here: routes and Services say this",
            ),
            ("include = \"*.toml\"\n", "config:1:1: error: `include` has no place here: no other files"),
        ] {
            let checked = CheckedConfig::parse_restricted(text, "config");
            let found = checked.diagnostics.to_string();
            assert!(checked.config.is_none() && found.contains(said), "{text}: {found}");
        }
    }
}
