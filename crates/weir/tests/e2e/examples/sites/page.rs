//! The part of `docs/examples.md` about sites: how long the configs are, and what differs.

use std::fmt::Write as _;

use super::compare::DELIBERATE;
use super::script::Script;
use super::site;
use crate::examples::folder;

/// A site, the file of the project that its config was made from, and its lines without comments and empty ones.
pub(super) struct Original {
    pub(super) name: &'static str,
    title: &'static str,
    file: &'static str,
    lines: usize,
}

const fn original(name: &'static str, title: &'static str, file: &'static str, lines: usize) -> Original {
    Original { name, title, file, lines }
}

pub(super) const ORIGINALS: [Original; 13] = [
    original("sentry", "Sentry", "getsentry/self-hosted `nginx.conf`", 84),
    original("mastodon", "Mastodon", "mastodon/mastodon `dist/nginx.conf`", 92),
    original("nextcloud", "Nextcloud", "nextcloud/docker `.examples/.../fpm/web/nginx.conf`", 105),
    original("lemmy", "Lemmy", "LemmyNet/lemmy-ansible `templates/nginx.conf`", 52),
    original(
        "owasp",
        "OWASP limits",
        "Aareez01/HAProxy-Setup-with-Rate-Limiting-CORS-and-OWASP-Compliance `haproxy.cfg`",
        58,
    ),
    original("patroni", "Patroni", "pgexperts/patroni-compose `etc/haproxy/haproxy.cfg`", 28),
    original("vernemq", "VerneMQ", "seth-yang/vernemq-cluster-and-haproxy `etc/haproxy/haproxy.cfg`", 35),
    original("thingsboard", "ThingsBoard", "thingsboard/thingsboard `docker/haproxy/config/haproxy.cfg`", 92),
    original("searxng", "SearXNG", "searxng/searxng-docker `Caddyfile`", 55),
    original("okd", "OKD", "Akaronte/okd4.10-install `haproxy.cfg`", 62),
    original("gitlab", "GitLab", "gitlabhq/gitlabhq `lib/support/nginx/gitlab-ssl`", 112),
    original("discourse", "Discourse", "discourse/discourse `config/nginx.sample.conf`", 152),
    original("frappe", "Frappe", "frappe/frappe_docker `resources/core/nginx/nginx-template.conf`", 91),
];

/// The lines of a config without comments and empty ones.
fn lines_of(text: &str) -> usize {
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).count()
}

/// The config of the other program: its name and its text.
fn peer(name: &str) -> (&'static str, String) {
    let read = |file| std::fs::read_to_string(site(name).join(file)).ok().map(|text| (file, text));
    let found = ["nginx.conf", "haproxy.cfg", "Caddyfile"].into_iter().find_map(read);
    found.unwrap_or_else(|| panic!("{name} has no config of another program"))
}

/// The part of the page.
fn part() -> String {
    let mut text = String::from(
        "| site | made from | lines there | lines here | lines of Weir | requests |\n|---|---|---:|---:|---:|---:|\n",
    );
    for Original { name, title, file, lines } in ORIGINALS {
        let (peer_file, peer_text) = peer(name);
        let weir =
            std::fs::read_to_string(site(name).join("weir.toml")).expect("every site has a config of Weir");
        let (peer_lines, weir_lines) = (lines_of(&peer_text), lines_of(&weir));
        let longest = weir.lines().map(str::len).max().unwrap_or_default();
        assert!(
            weir_lines <= peer_lines && weir_lines <= lines,
            "{name}: {weir_lines} lines, {peer_lines} and {lines}"
        );
        assert!(longest <= 180, "{name}: a line of {longest} bytes is two");
        let requests: usize =
            Script::read(&site(name).join("requests")).steps.iter().map(|step| step.requests()).sum();
        let folder = format!("../examples/sites/{name}");
        writeln!(
            text,
            "| [{title}]({folder}/weir.toml) | {file} | {lines} | [{peer_lines}]({folder}/{peer_file}) | {weir_lines} | [{requests}]({folder}/requests) |"
        )
        .expect("a text takes text");
    }
    text.push_str("\n| | where | what differs, and why |\n|---|---|---|\n");
    for entry in DELIBERATE {
        let place = if entry.is_general { "everywhere" } else { "where a request says so" };
        writeln!(text, "| `{}` | {place} | {} |", entry.name, entry.reason).expect("a text takes text");
    }
    text
}

/// `UPDATE=1` writes it.
#[test]
fn the_page_has_what_is_compared() {
    let path = folder().join("../docs/examples.md");
    let page = std::fs::read_to_string(&path).expect("there is a page");
    let (begin, end) = ("<!-- sites: made by the tests -->\n\n", "\n<!-- end of sites -->");
    let (before, rest) = page.split_once(begin).expect("the page says where it begins");
    let (_, after) = rest.split_once(end).expect("the page says where it ends");
    let expected = format!("{before}{begin}{}{end}{after}", part());
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &expected).expect("the page can be written");
        return;
    }
    assert!(
        page == expected,
        "docs/examples.md is out of date: UPDATE=1 cargo test -p weir --test e2e examples::sites"
    );
}

/// A difference that no request shows is one that was mended, or a wrong claim.
#[test]
fn every_marked_difference_is_shown() {
    let scripts = ORIGINALS.map(|original| Script::read(&site(original.name).join("requests")));
    for entry in DELIBERATE.iter().filter(|entry| !entry.is_general) {
        let mut marks = scripts.iter().flat_map(|script| &script.steps).flat_map(|step| &step.marks);
        assert!(marks.any(|mark| mark == entry.name), "no request shows `{}`", entry.name);
    }
}
