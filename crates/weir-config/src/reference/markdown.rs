//! The reference in Markdown: every key with its values, default, meaning and the terms of other products.

use std::fmt::Write;

use weir_observe::access_log::LogTemplate;

use super::{prose, sections};
use crate::key::{
    Bounds, ChoiceWord, KeySchema, Presence, SectionSchema, TextFormat, ValueKind, print_bound,
};
use crate::value::template_values;

const INTRODUCTION: &str = include_str!("introduction.md");
const SAMPLE: &str = include_str!("sample.toml");

/// Tables that can occur in several places: they are described among the kinds of value.
const SHARED: [&str; 6] = ["progress", "rule", "headers", "hsts", "error_pages", "rewrite"];

/// Tables of which there can be several in one place.
const LISTS: [&str; 8] = [
    "listener.NAME.route",
    "listener.NAME.route.rewrite_body.rules",
    "listener.NAME.route.rewrite_cookies",
    "listener.NAME.route.rewrite_location",
    "listener.NAME.route.split",
    "listener.NAME.tls.certificates",
    "listener.NAME.tls.acme.external_account",
    "upstream.NAME.servers",
];

/// The reference of the configuration in Markdown.
pub fn reference_markdown() -> String {
    let mut page = INTRODUCTION.replace("{sample}", SAMPLE.trim_end());
    let (shared, tables): (Vec<&SectionSchema>, Vec<&SectionSchema>) =
        sections().iter().partition(|section| SHARED.contains(&section.path));
    page.push_str("\n## Tables and keys\n");
    for section in &tables {
        push_section(&mut page, section);
    }
    page.push_str("\n## Kinds of value\n");
    for text in text_kinds() {
        let examples: Vec<String> =
            text.examples.iter().map(|example| format!("`{}`", quoted(example))).collect();
        push(
            &mut page,
            format_args!(
                "\n### {}\n\n{}\n\nFor example {}.\n",
                text.name,
                prose(text.about),
                examples.join(", ")
            ),
        );
    }
    for section in &shared {
        push_section(&mut page, section);
    }
    push_template_values(&mut page);
    push_conditions(&mut page);
    push_maps(&mut page);
    super::tables::push_tables(&mut page);
    push_placeholders(&mut page);
    page
}

pub(super) fn push(page: &mut String, text: std::fmt::Arguments<'_>) {
    page.write_fmt(text).expect("a string can always grow");
}

fn push_section(page: &mut String, section: &SectionSchema) {
    push(page, format_args!("\n### {}\n\n{}\n\n", title(section), prose(section.about)));
    page.push_str("| key | value | default | meaning | elsewhere |\n|---|---|---|---|---|\n");
    for key in section.keys {
        push_key(page, key);
    }
}

/// The heading of a table, as its header is written.
pub(super) fn title(section: &SectionSchema) -> String {
    match section.path {
        "" => "The top of the file".to_owned(),
        path if LISTS.contains(&path) => format!("`[[{path}]]`"),
        path if SHARED.contains(&path) => path.to_owned(),
        path => format!("`[{path}]`"),
    }
}

/// The anchor that a heading gets where Markdown is shown.
pub(super) fn anchor(heading: &str) -> String {
    heading
        .to_lowercase()
        .chars()
        .filter_map(|c| match c {
            ' ' => Some('-'),
            c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
            _ => None,
        })
        .collect()
}

fn push_key(page: &mut String, key: &KeySchema) {
    let kind = (key.kind)();
    let default = match key.presence {
        Presence::Required => "required".to_owned(),
        // A table without keys: its own keys have their defaults.
        Presence::Optional | Presence::Default("{}") => String::new(),
        // As on one line, which a row of a table is.
        Presence::Default(text) => format!("`{}`", prose(text)),
    };
    let mut meaning = prose(key.about);
    // Beside other values, `about` explains `"auto"`.
    let explains_auto = matches!(kind, ValueKind::Choice(_));
    let is_shown = |word: &ChoiceWord| word.name != "off" && (word.name != "auto" || explains_auto);
    for word in words(&kind).into_iter().filter(|word| is_shown(word)) {
        let explanation = prose(word.meaning);
        push(&mut meaning, format_args!("<br>`\"{}\"`: {}", word.name, explanation.trim_end_matches('.')));
    }
    push(
        page,
        format_args!(
            "| `{}` | {} | {} | {} | {} |\n",
            key.name,
            cell(&value(&kind)),
            cell(&default),
            cell(&meaning),
            cell(key.like)
        ),
    );
}

/// A text as a cell of a table, where a bar would begin the next one, also inside of code.
pub(super) fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// A string as TOML: literal where a basic one would take its backslashes for escapes.
fn quoted(text: &str) -> String {
    if text.contains('\\') { format!("'{text}'") } else { format!("\"{text}\"") }
}

/// The value types, with links to their parts.
fn value(kind: &ValueKind) -> String {
    match kind {
        ValueKind::Boolean => "`true`, `false`".to_owned(),
        ValueKind::Integer(bounds) => match *bounds {
            Bounds { min, max: u64::MAX } => format!("integer from {min}"),
            Bounds { min, max } => format!("integer {min} to {max}"),
        },
        ValueKind::Text(text, bounds) => match print_bounds(text, *bounds) {
            Some(bounds) => format!("[{}](#{}) {bounds}", text.name, anchor(text.name)),
            None => format!("[{}](#{})", text.name, anchor(text.name)),
        },
        ValueKind::Choice(words) => {
            let words: Vec<String> = words.iter().map(|word| format!("`\"{}\"`", word.name)).collect();
            words.join(", ")
        }
        ValueKind::Either(kinds) => kinds.iter().map(value).collect::<Vec<_>>().join(" or "),
        ValueKind::List(item) => format!("list of {}", value(item)),
        ValueKind::Map(item) => format!("{} by name", value(item)),
        ValueKind::Section(section) => format!("[table](#{})", anchor(&title(section))),
        ValueKind::AnyTable => "table".to_owned(),
    }
}

fn print_bounds(text: &TextFormat, bounds: Bounds) -> Option<String> {
    let min = print_bound(text, bounds.min).filter(|_| bounds.min > 0);
    let max = print_bound(text, bounds.max).filter(|_| bounds.max < u64::MAX);
    match (min, max) {
        (Some(min), Some(max)) => Some(format!("{min} to {max}")),
        (Some(min), None) => Some(format!("from {min}")),
        (None, Some(max)) => Some(format!("up to {max}")),
        (None, None) => None,
    }
}

fn words(kind: &ValueKind) -> Vec<&'static ChoiceWord> {
    match kind {
        ValueKind::Choice(words) => words.iter().collect(),
        ValueKind::Either(kinds) => kinds.iter().flat_map(words).collect(),
        ValueKind::List(item) => words(item),
        _ => Vec::new(),
    }
}

/// Every word that some key can be set to.
#[cfg(test)]
pub(crate) fn words_of_all_keys() -> Vec<&'static str> {
    let keys = sections().iter().flat_map(|section| section.keys);
    keys.flat_map(|key| words(&(key.kind)())).map(|word| word.name).collect()
}

/// Every form of string once, in the order of the alphabet.
fn text_kinds() -> Vec<&'static TextFormat> {
    fn visit(kind: &ValueKind, found: &mut Vec<&'static TextFormat>) {
        match kind {
            ValueKind::Text(text, _) if !found.contains(text) => found.push(text),
            ValueKind::Either(kinds) => kinds.iter().for_each(|kind| visit(kind, found)),
            ValueKind::List(item) | ValueKind::Map(item) => visit(item, found),
            _ => {}
        }
    }
    let mut found = Vec::new();
    for key in sections().iter().flat_map(|section| section.keys) {
        visit(&(key.kind)(), &mut found);
    }
    found.sort_by_key(|text| text.name);
    found
}

fn push_template_values(page: &mut String) {
    page.push_str(
        "\n## Placeholders\n\nIn headers, redirects, answers, error pages, and the keys of limits, lists and caches. The access \
         log has [the same and more](#placeholders-of-the-access-log). Those about a server exist in `request_headers` \
         and `response_headers`, those about a response in `response_headers` and error pages only; `weir check` rejects \
         others. Times in `response_headers` end where the head of the response begins. Values come from clients: control \
         characters in them become spaces.\n\n| placeholder | value |\n|---|---|\n",
    );
    for (name, meaning) in template_values() {
        push(page, format_args!("| `{{{}}}` | {} |\n", cell(&name), cell(meaning)));
    }
}

/// The language of conditions, and what its names stand for.
fn push_conditions(page: &mut String) {
    page.push_str(
        "\n## Conditions\n\nA condition compares values of an exchange. The language is a part of CEL, the Common Expression \
         Language of Kubernetes and Envoy; names are those of [placeholders](#placeholders), without braces: `method`, `path`, \
         `client_address`, `tls.version`, `header[\"user-agent\"]`, `cookie.theme`, `query[\"q\"]`. `weir check` rejects \
         names that are not known where the condition is asked, and comparisons of two types.\n\n\
         | it holds if | condition |\n|---|---|\n\
         | the text is this, or another one | `method == \"GET\"`, `method != \"GET\"` |\n\
         | it is one of these | `method in [\"GET\", \"HEAD\"]` |\n\
         | it begins so, ends so, has this in it | `path.startsWith(\"/api/\")`, `path.endsWith(\".php\")`, `path.contains(\"..\")` |\n\
         | the regular expression is found in it; in `r\"...\"`, a backslash is one | `path.matches(r\"^/user/[0-9]+$\")` |\n\
         | the same without regard to case | `host.lowerAscii() == \"a.test\"` |\n\
         | there is one | `has(header[\"x-debug\"])` |\n\
         | both are there, once each, and alike | `header[\"x-csrf\"] == cookie.csrf` |\n\
         | the address is in one of the networks | `client_address in [\"10.0.0.0/8\", \"::1\"]` |\n\
         | the text is such an address | `ip(header[\"x-real-ip\"]) in [\"10.0.0.0/8\"]` |\n\
         | the number is so; `<`, `<=`, `>`, `>=`, `==`, `!=` | `client_port > 1023`, `client_port in [80, 443]` |\n\
         | the number that a text is; its length in bytes | `int(header[\"content-length\"]) > 1000`, `size(path) > 100` |\n\
         | both hold, one holds, it does not hold | `a && b`, `a \\|\\| b`, `!a`, `(a)` |\n\n\
         Of several headers, cookies or parameters of one name, one that is so is enough, and `!=` holds if none is so. A value that \
         is missing is an empty text; a number or an address that is missing is in no relation to another. A condition has 4096 \
         bytes, 64 comparisons and 16 levels at most, and takes time that is linear in what it looks at.\n\n\
         Beside the placeholders there are `upstream.NAME.usable` (or `upstream[\"NAME\"].usable`), the number of servers of an upstream that \
         can take requests now: neither down, ejected, draining nor in maintenance; and `response.status`, another name of `status`.\n\n\
         Where `when` stands, and what it may ask for: [the table of keys](order.md#what-each-key-may-ask-for).\n\n\
         | condition of | decides | known by then |\n|---|---|---|\n\
         | a route | whether the route takes the request | the request, its connection, its client |\n\
         | a list | whether requests are looked up in it; without entries, whether they are in it | that, and the route; `user` and the claims: then the list is asked after authentication |\n\
         | a limit | whether requests are counted and limited | the same |\n\
         | a table | whether requests are counted; `increment`: whether a counter is raised | the same; for `increment` everything |\n\
         | a mirror, `cache`, `cache.refresh_when` | whether a request is copied; has to do with the cache; has what is stored confirmed or fetched anew | all that is known before a server |\n\
         | retries (`retry` of an upstream) | whether what failed behind its first byte goes to another server | the same, and the upstream |\n\
         | request headers (`request_headers`) | whether the changes are made | the same, and the server |\n\
         | a cache (`store_when`), error pages | whether a response is stored; whether the page is used | the same, and status and fields of the response |\n\
         | response headers (`response_headers`, `expires`) | whether the changes are made | the same, and what the cache did |\n\
         | the access log | whether the exchange has a line | everything; of a tunnel, what is known when it begins |\n\n\
         What `request_headers` make of a request by a condition is part of what keeps stored responses apart: at most four such tables on a route with a cache, \
         and none of them asks for the server and for something else. A response that differs by a header of the request needs `Vary` for caches behind Weir: \
         add it in the same table. Counts of other exchanges are those of [tables](#tables).\n\n\
         | nginx, HAProxy, Apache httpd | here |\n|---|---|\n\
         | nginx `if ($request_method = POST) { return 403; }`; `http-request deny if METH_POST` | a list with `action = \"deny\"` and `when = 'method == \"POST\"'` |\n\
         | nginx `if ($http_user_agent ~* bot)`; `acl bot hdr_sub(user-agent) -i bot` | `header[\"user-agent\"].lowerAscii().contains(\"bot\")` |\n\
         | HAProxy `http-request set-header X-A 1 if { path_beg /a } !{ src 10.0.0.0/8 }` | `request_headers = { when = 'path.startsWith(\"/a\") && !(client_address in [\"10.0.0.0/8\"])', set = { x-a = \"1\" } }` |\n\
         | nginx `add_header X 1`; `add_header X 1 always` | `response_headers = { status = \"success\", set = { X = \"1\" } }`; without `status` |\n\
         | HAProxy `http-response set-header ... if { status 404 }` | `response_headers = { status = 404, set = { ... } }` |\n\
         | nginx `proxy_cache_bypass $http_x_refresh` | `cache.refresh_when = 'header[\"x-refresh\"] != \"\"'` |\n\
         | nginx `proxy_no_cache $upstream_http_x_private` | `cache.store_when = '!has(response.header[\"x-private\"])'` |\n\
         | both with `$cookie_session` | `cache.when = '!has(cookie.session)'` |\n\
         | nginx `access_log ... if=$loggable`; `http-request set-log-level silent if` | `access_log.when = 'status >= 400'` |\n\
         | HAProxy `use_backend spare if { nbsrv(app) lt 1 }` | a route with `when = 'upstream.app.usable < 1'` |\n\
         | Apache httpd `SetEnvIf`, `<If \"...\">`, `Header set ... \"expr=...\"` | the same conditions |\n\n\
         nginx's `if` inside a location changes which directives of it count; a condition here decides about the table that it stands in, and nothing else.\n",
    );
    push_expiry(page);
}

/// What `expires` makes of a response.
fn push_expiry(page: &mut String) {
    page.push_str(
        "\n## Expiry\n\n`expires` of a route says how long clients, and caches behind Weir, may keep responses. It writes `Cache-Control: max-age` and `Expires` in \
         place of what is there.\n\n\
         - A table of media types asks those without `*` first, then patterns in their order, then `default`; of a list, the first rule that is for the response counts.\n\
         - Only responses of success have it (200, 201, 204, 206, 301 to 304, 307, 308), unless `status` of a rule says otherwise.\n\
         - What a server forbids stays: with `no-store`, `no-cache` or `private` in `Cache-Control`, the response passes as it is, unless the rule has `override_server`. \
         Other directives of the server stay beside `max-age`, such as `public` and `must-revalidate`; nginx drops them, and overrides what is forbidden, too.\n\
         - The time counts from when the client gets the response: one from the cache has `Age`, and `max-age` is longer by that. What the cache of Weir stores, and for how long, is \
         a matter of what the server says and of `ttl`: `expires` changes nothing about it.\n\
         - A file that the client has already (304) has the fields of its type. So has what the cache confirms; a 304 that a server sends has none by type, since it does not name one.\n\
         - `response_headers` of the route and of the listener: those of the route come later, so a `Cache-Control` in them counts. A response that gives the client a cookie of `affinity` has `private` as well.\n\n\
         | nginx, Apache httpd | here |\n|---|---|\n\
         | nginx `expires 1h`, `ExpiresDefault \"access plus 1 hour\"` | `expires = \"1h\"` |\n\
         | nginx `map $sent_http_content_type $e { default off; text/html epoch; ~image/ 30d; }`, `ExpiresByType` | `expires = { \"text/html\" = \"epoch\", \"image/*\" = \"30d\" }` |\n\
         | nginx `expires modified +24h`, `\"modification plus 1 day\"` | `expires = \"modified+1d\"` |\n\
         | nginx `expires -1` | `expires = \"epoch\"` |\n\
         | nginx `expires max` | `expires = \"max\"` |\n\
         | nginx `expires @15h30m` | not available |\n",
    );
}

/// Maps and variables beside those of other products.
fn push_maps(page: &mut String) {
    page.push_str(
        "\n## Maps and variables\n\n`[map.NAME]` says what a text stands for, `vars` gives a text a name. Both are evaluated where they \
         are used, and only there.\n\n\
         ```toml\n\
         [map.backend]\n\
         source = \"{host}\"\n\
         default = \"web\"\n\
         host = { \"*.shop.example.com\" = \"shop\" }\n\
         file = \"tenants.map\"\n\n\
         [map.moved]\n\
         source = \"{path}\"\n\
         exact = { \"/old\" = \"/new\" }\n\
         regex = { '^/blog/(?<page>.*)$' = \"/articles/{match.page}\" }\n\n\
         [listener.web]\n\
         address = \":8080\"\n\
         vars = { tenant = \"{map.backend}-{header.x-region}\" }\n\n\
         [[listener.web.route]]\n\
         when = \"has(map.moved)\"\n\
         redirect = { to = \"{map.moved}\", status = 301 }\n\
         ```\n\n\
         | elsewhere | here |\n|---|---|\n\
         | nginx `map $host $x { hostnames; default a; *.b.test c; ~^(?<n>.*)$ $n; }` | `[map.x]` with `source = \"{host}\"`, `default`, `host`, `regex` and `{match.n}`; nginx ignores case: `ignore_case = true` |\n\
         | nginx `map` with `include FILE;` | `file`, without `;` at the end of lines |\n\
         | nginx `geo $x { 10.0.0.0/8 a; }` | `[map.x]` with `source = \"{client_address}\"` and `network` |\n\
         | nginx `set $x \"...\"` | `vars = { x = \"...\" }` of the listener or the route |\n\
         | HAProxy `%[req.hdr(host),map_str(FILE,default)]` | `[map.x]` with `source = \"{header.host}\"`, `file`, `default` |\n\
         | HAProxy `map_beg`, `map_end`, `map_dom`, `map_ip`, `map_reg` | `file_kind = \"prefix\"`, `\"suffix\"`, `\"host\"`, `\"network\"`, `\"regex\"` |\n\
         | HAProxy `map_regm` with `\\1` | `file_kind = \"regex\"` with `{match.1}` in the values |\n\
         | HAProxy `http-request set-var(txn.x)` | `vars` |\n\
         | HAProxy `set map`, `add map` of the runtime socket | write the file anew: it is read within `reload` |\n\n\
         `weir check` derives from the source and the values of a map where it may be used: `{map.x}` with `{user}` in its source has no value \
         before the client is authenticated, one with `{status}` none in a request. Maps and variables may be made of others, up to 64 of them \
         for one value; what leads to itself is an error. Of the regular expressions of a map, of which there are 1000 at most, the first one \
         that is found counts; all take time that is linear in the text. Keys of `prefix` and of `suffix` have 128 different lengths at most.\n\n\
         A redirect may go to `{map.x}` only if no value of the map begins with a placeholder, and `{map.x}` may be part of its host only if its \
         values are text without placeholders: no client chooses where others are sent. The same holds for what a changed file says.\n\n\
         A changed file counts as a whole once it could be read without an error; requests that are looked up meanwhile have the entries of \
         before or the new ones. A file with an error changes nothing, and the log says which line is wrong. A start and a reload refuse \
         it. A placeholder that no value of the map had when the config was read is refused in a changed file until the config is reloaded, \
         since it may not be known where the map is used.\n\n\
         A map names the upstream of a route by `split_by`, and is a key of `hash_key` and `affinity`. Not here: maps that requests change, databases of GeoIP.\n",
    );
}

fn push_placeholders(page: &mut String) {
    page.push_str("\n## Placeholders of the access log\n\n| placeholder | value |\n|---|---|\n");
    for (name, meaning) in LogTemplate::placeholders() {
        push(page, format_args!("| `{{{}}}` | {} |\n", cell(&name), meaning.trim_end_matches('.')));
    }
}
