//! `errorfile` and `errorloc`: what clients get in place of HAProxy's own pages. The answer of a file is that of a route to which only failures come.

use super::output::{Keys, literal_body, literal_in_template};
use super::proxy::{ProxySection, name_of};
use crate::document::TomlValue;
use crate::source::{SourceFiles, Statement};

/// The longest body that a route answers with.
const BODY_MAX: usize = 16 << 10;

/// Where distributions have pages that say what HAProxy says anyway.
const USUAL: [&str; 4] =
    ["/etc/haproxy/errors/", "/usr/local/etc/haproxy/errors/", "/usr/share/haproxy/", "/dev/null"];

/// Keys of a listener, or of the routes to a backend.
pub(super) fn error_pages<'s>(proxy: &ProxySection<'s>, keys: &mut Keys<'s>, files: &dyn SourceFiles) {
    let ledger = proxy.ledger;
    let names = ["errorfile", "errorloc", "errorloc302", "errorloc303", "errorfiles", "http-error"];
    for line in proxy.all(&names) {
        let mut words = ledger.words(line);
        let status = words.text().and_then(|text| text.parse::<i64>().ok());
        match (line.name(), status) {
            ("errorfile", Some(status)) => {
                let file = words.text().unwrap_or_default();
                errorfile(proxy, keys, line, (status, file), files);
            }
            ("errorloc" | "errorloc302" | "errorloc303", Some(status @ 400..=599)) => {
                let target = literal_in_template(words.text().unwrap_or_default());
                let mut page =
                    vec![("status".to_owned(), status.into()), ("redirect".to_owned(), target.into())];
                if line.name() == "errorloc303" {
                    page.push(("new_status".to_owned(), 303.into()));
                }
                add(keys, line, page);
                ledger.exact(line);
            }
            _ => ledger.unsupported(
                line,
                "`error_pages` have the file of a body, or a target of a redirect, for statuses from 400 on",
            ),
        }
    }
}

/// Adds a page; a later one for the same status replaces it.
fn add<'s>(keys: &mut Keys<'s>, line: &'s Statement, page: Vec<(String, TomlValue)>) {
    let mut pages = match keys.get("error_pages") {
        Some(TomlValue::Array(pages)) => pages.clone(),
        _ => Vec::new(),
    };
    let status = page.iter().find(|(key, _)| key == "status").cloned();
    pages.retain(|known| match known {
        TomlValue::Inline(entries) => status.as_ref().is_none_or(|status| !entries.contains(status)),
        _ => true,
    });
    pages.push(TomlValue::Inline(page));
    keys.set("error_pages", TomlValue::Array(pages), line);
}

fn errorfile<'s>(
    proxy: &ProxySection<'s>,
    keys: &mut Keys<'s>,
    line: &'s Statement,
    (status, file): (i64, &str),
    files: &dyn SourceFiles,
) {
    let ledger = proxy.ledger;
    let is_usual = USUAL.iter().any(|folder| file.starts_with(folder));
    let text = files.read(file);
    let is_stock = text.as_ref().is_ok_and(|text| text.contains(&format!("<html><body><h1>{status} ")));
    if is_usual && (is_stock || text.is_err() || text.as_ref().is_ok_and(String::is_empty)) {
        let note = "the page is Weir's own, in place of that of the distribution: `error_pages`";
        return ledger.approximated(line, note);
    }
    let text = match text {
        Ok(text) => text,
        Err(error) => {
            return ledger.unsupported(
                line,
                &format!("cannot read {file} ({error}): import it with the file, or put its body into a file for `error_pages`"),
            );
        }
    };
    if !(400..=599).contains(&status) || matches!(status, 400 | 408) {
        let note = "the page is Weir's own: the status is one that no route has to do with";
        return ledger.approximated(line, note);
    }
    let name = page_name(file);
    match answer(&text, &name, line) {
        Ok((own_status, page)) => {
            let mut entries =
                vec![("status".to_owned(), TomlValue::from(status)), ("then".to_owned(), name.into())];
            if own_status != status {
                entries.push(("new_status".to_owned(), own_status.into()));
            }
            add(keys, line, entries);
            keys.failures.push(page);
            ledger.approximated(line, "the page is that of the file at the time of the import");
        }
        Err(why) => ledger.unsupported(line, why),
    }
}

/// `/etc/haproxy/pages/503.http` is `error-503`.
fn page_name(file: &str) -> String {
    let name = file.rsplit('/').next().unwrap_or(file);
    name_of(&format!("error-{}", name.rsplit_once('.').map_or(name, |(stem, _)| stem)))
}

/// The status of a whole response, and the route that answers with the rest of it.
fn answer<'s>(text: &str, name: &str, line: &'s Statement) -> Result<(i64, Keys<'s>), &'static str> {
    let broken =
        "the file is no response of HTTP: a line with the status, fields, an empty line and the body";
    let text = text.replace("\r\n", "\n");
    let (head, body) = text.split_once("\n\n").unwrap_or((text.trim_end_matches('\n'), ""));
    let mut lines = head.lines();
    let first = lines.next().filter(|line| line.starts_with("HTTP/")).ok_or(broken)?;
    let status: i64 = first.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or(broken)?;
    if !(200..=599).contains(&status) {
        return Err("an answer has a status from 200 to 599");
    }
    if body.len() > BODY_MAX {
        return Err("the body is long: put it into a file for `error_pages`");
    }
    let mut page = Keys::of(line);
    page.set("name", name, line);
    page.set("internal", true, line);
    let body = literal_body(body).ok_or("the body has the name of a placeholder in braces, which would be one: put it into a file for `error_pages`")?;
    page.set("respond.body", body, line);
    for field in lines {
        let (name, value) = field.split_once(':').ok_or(broken)?;
        let (name, value) = (name.trim().to_ascii_lowercase(), value.trim());
        match name.as_str() {
            "content-length" | "connection" | "date" | "transfer-encoding" | "keep-alive" => {}
            "content-type" => page.set("respond.content_type", literal_in_template(value), line),
            _ => page.set_path(&["respond", "headers", &name], literal_in_template(value), line),
        }
    }
    Ok((status, page))
}

/// Puts the routes of failures behind all others of a listener.
pub(super) fn place_failures(listener: &mut Keys<'_>, ledger: &crate::report::Ledger) {
    let mut all = std::mem::take(&mut listener.failures);
    for route in &mut listener.routes {
        all.append(&mut route.failures);
    }
    let mut placed: Vec<Keys<'_>> = Vec::new();
    for page in all {
        match placed.iter().find(|known| known.get("name") == page.get("name")) {
            Some(known) if known.equals(&page) => {}
            Some(_) => {
                if let Some(line) = page.header {
                    ledger
                        .unsupported(line, "another file of this name is for the same listener: rename one");
                }
            }
            None => placed.push(page),
        }
    }
    listener.routes.append(&mut placed);
}
