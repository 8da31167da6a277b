//! `stats`: the status page, which is a listener of its own here.

use super::proxy::{ProxySection, begins};
use crate::document::Draft;
use crate::source::Statement;

/// Translates the `stats` lines of a section; `address` is where it listens if it has nothing but the page.
pub(super) fn stats<'s>(proxy: &ProxySection<'s>, address: Option<&str>, draft: &mut Draft) -> bool {
    let lines: Vec<&Statement> = proxy.all(&["stats"]);
    let ledger = proxy.ledger;
    if proxy.is_tcp() {
        lines
            .iter()
            .for_each(|line| ledger.meaningless(line, "with `mode tcp`, HAProxy takes no notice of it"));
    }
    if lines.is_empty() || proxy.is_tcp() {
        return false;
    }
    let has_page = lines.iter().any(|line| {
        ["enable", "uri", "auth", "admin", "realm", "refresh"]
            .iter()
            .any(|word| begins(line, &["stats", word]))
    });
    let taken = draft.has(&["admin"]) && draft.table(&["admin"]).has("address");
    if has_page && !taken {
        let address = address.unwrap_or("127.0.0.1:8404");
        draft.table(&["admin"]).set("address", address, lines[0]);
    }
    for line in &lines {
        let mut words = ledger.words(line);
        match words.text().unwrap_or_default() {
            "enable" => match address {
                Some(_) => ledger.exact(line),
                None => ledger.approximated(line, "the status page has an address of its own, `admin.address`, and is none of the paths of this listener"),
            },
            "uri" => {
                let path = words.text().unwrap_or_default();
                match (address, path) {
                    (Some(_), "/") => ledger.exact(line),
                    (Some(_), _) => ledger.approximated(line, "the status page is at `/` of its address"),
                    (None, _) => ledger.approximated(line, "the status page has an address of its own, `admin.address`, and is none of the paths of this listener"),
                }
            }
            "auth" => auth(proxy, line, words.text().unwrap_or_default(), draft),
            "admin" => {
                words.rest();
                draft.table(&["admin"]).set("changes", true, line);
                match line.words.get(3).map(|word| word.text.as_str()) {
                    Some("TRUE") => ledger.exact(line),
                    _ => ledger.approximated(line, "everyone whom the admin listener lets in may change servers"),
                }
            }
            "refresh" => ledger.meaningless(line, "the status page refreshes itself"),
            "realm" => ledger.approximated(line, "the realm is Weir's own"),
            "hide-version" | "show-node" | "show-desc" | "show-legends" | "show-modules" => ledger.meaningless(line, "the status page is Weir's own, for those whom it lets in"),
            "scope" => ledger.approximated(line, "the status page shows all upstreams"),
            "http-request" => ledger.unsupported(line, "the admin listener asks for a user (`admin.user`) or a token (`admin.token_file`)"),
            _ => ledger.unsupported(line, "the status page is `[admin]`"),
        }
        if !matches!(line.words.get(1).map(|word| word.text.as_str()), Some("http-request")) {
            words.rest();
        }
    }
    true
}

fn auth<'s>(proxy: &ProxySection<'s>, line: &'s Statement, text: &str, draft: &mut Draft) {
    let admin = draft.table(&["admin"]);
    if admin.has("user") {
        proxy.ledger.approximated(line, "the status page has one user, the first");
        return;
    }
    let user = text.split(':').next().unwrap_or_default();
    admin.set("user", super::output::literal(user), line);
    admin.set("password_file", "admin-password", line);
    proxy.ledger.approximated(line, "write the password, of 8 characters or more, into the file that `admin.password_file` names: Weir does not start without it");
}
