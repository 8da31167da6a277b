//! The effective configuration as TOML, as printed by `weir check --print`.
//!
//! Every key is printed with its value, defaults included; the output is equivalent to the input. What is shown to others than the reader of the
//! file is printed without its secrets.

mod origins;
mod redact;
mod variables;

use std::borrow::Cow;

use crate::config::ConfigDump;
use crate::key::ConfigValue;
use crate::masked_text::masked_line;
use crate::source::{BlockKeys, TreeNode};
use crate::text::{Document, ListenerText};

use origins::LineOrigins;
pub use redact::shown_conditions;
pub(crate) use redact::{LEFT_OUT, without_secrets};
pub(crate) use variables::Variables;

/// The document as text. What came from a block of the `tree` that it was read from says so.
pub(crate) fn print(document: &Document, tree: Option<&TreeNode>, blocks: &BlockKeys) -> String {
    let mut origins = LineOrigins::new(tree, blocks);
    let mut text = String::new();
    print_lines(document, &mut |line| {
        text.push_str(line);
        if let Some(block) = origins.block_of(line) {
            text.push_str("  # block ");
            text.push_str(block);
        }
        text.push('\n');
    });
    text
}

/// The document as it is shown, without its secrets and the values of `variables`.
pub(crate) fn dump(document: &Document, variables: &Variables) -> ConfigDump {
    ConfigDump::of_lines(|print| {
        print_lines(&without_secrets(document), &mut |line| print(&shown_line(line, variables)));
    })
}

/// A line as it is shown; `document` it is of has no secrets that are whole values any more.
pub(crate) fn shown_line<'a>(line: &'a str, variables: &Variables) -> Cow<'a, str> {
    match variables.restore(line) {
        Cow::Borrowed(line) => masked_line(line),
        Cow::Owned(line) => Cow::Owned(masked_line(&line).into_owned()),
    }
}

/// Prints line by line.
fn print_lines(document: &Document, print: &mut dyn FnMut(&str)) {
    push_lines(print, "[process]", &lines_of(&document.process));
    let sections = [
        ("[log]", lines_of(&document.log)),
        ("[access_log]", lines_of(&document.access_log)),
        ("[dns]", lines_of(&document.dns)),
        ("[discovery]", lines_of(&document.discovery)),
        ("[admin]", lines_of(&document.admin)),
        ("[recorder]", lines_of(&document.recorder)),
        ("[metrics]", lines_of(&document.metrics)),
        ("[traces]", lines_of(&document.traces)),
    ];
    for (header, lines) in &sections {
        print("");
        push_lines(print, header, lines);
    }
    for (name, map) in &document.map.0 {
        print("");
        push_lines(print, &format!("[map.{}]", key(&name.value)), &lines_of(map));
    }
    for (name, list) in &document.list.0 {
        print("");
        push_lines(print, &format!("[list.{}]", key(&name.value)), &lines_of(list));
    }
    for (name, limit) in &document.limit.0 {
        print("");
        push_lines(print, &format!("[limit.{}]", key(&name.value)), &lines_of(limit));
    }
    for (name, table) in &document.table.0 {
        print("");
        push_lines(print, &format!("[table.{}]", key(&name.value)), &lines_of(table));
    }
    for (name, store) in &document.store.0 {
        print("");
        push_lines(print, &format!("[store.{}]", key(&name.value)), &lines_of(store));
    }
    for (name, cache) in &document.cache.0 {
        print("");
        push_lines(print, &format!("[cache.{}]", key(&name.value)), &lines_of(cache));
    }
    for (name, source) in &document.routes_from.0 {
        print("");
        push_lines(print, &format!("[routes_from.{}]", key(&name.value)), &lines_of(source));
    }
    for (name, listener) in &document.listener.0 {
        let name = key(&name.value);
        let without_routes = ListenerText { route: Vec::new(), ..listener.value.clone() };
        let mut lines = lines_of(&without_routes);
        lines.retain(|line| !line.starts_with("route = "));
        print("");
        push_lines(print, &format!("[listener.{name}]"), &lines);
        for route in &listener.value.route {
            print("");
            push_lines(print, &format!("[[listener.{name}.route]]"), &lines_of(route));
        }
    }
    for (name, upstream) in &document.upstream.0 {
        print("");
        push_lines(print, &format!("[upstream.{}]", key(&name.value)), &lines_of(upstream));
    }
}

/// A key, in quotes where it needs them.
fn key(name: &str) -> String {
    let is_bare =
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    if is_bare { name.to_owned() } else { Box::<str>::from(name).write() }
}

fn lines_of(table: &impl ConfigValue) -> Vec<String> {
    let mut lines = Vec::new();
    table.lines("", &mut lines);
    lines
}

fn push_lines(print: &mut dyn FnMut(&str), header: &str, lines: &[String]) {
    print(header);
    lines.iter().for_each(|line| print(line));
}
