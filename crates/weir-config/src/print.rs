//! The effective configuration as TOML: what `weir check --print` shows.
//!
//! Every key is written out with the value that holds, so that nothing has to be looked up; what is printed reads as the same
//! configuration.

use crate::key::Value;
use crate::text::{Document, ListenerText};

pub(crate) fn print(document: &Document) -> String {
    let mut text = String::new();
    push_table(&mut text, "[process]", &document.process);
    push_table(&mut text, "[log]", &document.log);
    push_table(&mut text, "[access_log]", &document.access_log);
    push_table(&mut text, "[dns]", &document.dns);
    push_table(&mut text, "[admin]", &document.admin);
    push_table(&mut text, "[recorder]", &document.recorder);
    push_table(&mut text, "[traces]", &document.traces);
    for (name, listener) in &document.listener.0 {
        let name = key(&name.value);
        let without_routes = ListenerText { route: Vec::new(), ..listener.value.clone() };
        let mut lines = Vec::new();
        without_routes.lines("", &mut lines);
        lines.retain(|line| !line.starts_with("route = "));
        push_lines(&mut text, &format!("[listener.{name}]"), &lines);
        for route in &listener.value.route {
            push_table(&mut text, &format!("[[listener.{name}.route]]"), route);
        }
    }
    for (name, upstream) in &document.upstream.0 {
        push_table(&mut text, &format!("[upstream.{}]", key(&name.value)), upstream);
    }
    text
}

/// A key, in quotes where it needs them.
fn key(name: &str) -> String {
    let is_bare =
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    if is_bare { name.to_owned() } else { Box::<str>::from(name).write() }
}

fn push_table(text: &mut String, header: &str, table: &impl Value) {
    let mut lines = Vec::new();
    table.lines("", &mut lines);
    push_lines(text, header, &lines);
}

fn push_lines(text: &mut String, header: &str, lines: &[String]) {
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(header);
    text.push('\n');
    for line in lines {
        text.push_str(line);
        text.push('\n');
    }
}
