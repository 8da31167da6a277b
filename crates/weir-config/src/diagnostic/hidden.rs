//! What of the source lines of a diagnostic is not shown: secrets are replaced by as many stars, so that what is underlined stays in its place.
//!
//! Decided by the text alone, since it may be one that could not be read: by the names of keys and headers, and by what values look like. Must not
//! depend on what the keys of the config are; a test holds the two lists here against them.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use weir_sort::CompactSort as _;

use crate::masked_text::{has_drawn_word, is_telling, secrets_of_line, segments_of_target};

/// Keys whose whole value is a secret.
pub(crate) const SECRET_KEYS: [&str; 2] = ["password", "secret"];

/// Tables with a secret for each name in them.
pub(crate) const SECRET_TABLES: [&str; 1] = ["users"];

/// Keys whose names sound like a secret, and whose values are none: tables, names of files, settings.
pub(crate) const PLAIN_KEYS: [&str; 21] = [
    "bypass",
    "cookie",
    "credentials",
    "forward_auth",
    "forward_credentials",
    "hash_key",
    "http3_keys",
    "ignore_set_cookie",
    "jwt",
    "key",
    "key_id",
    "key_log",
    "key_name",
    "keys_max",
    "remote_keys",
    "rewrite_cookies",
    "session_cache",
    "session_reuse",
    "session_tickets",
    "ticket_keys",
    "tls_passthrough",
];

/// Tables whose keys are names of headers and parameters.
const NAMED_VALUES: [&str; 6] = ["headers", "header", "query", "set", "add", "params"];

/// Tables whose `path` goes to a server with what it may hold.
const ASKING_TABLES: [&str; 4] = ["health", "forward_auth", "remote_keys", "error_pages"];

/// The secrets of a text by their places, found once for all of its diagnostics.
pub(crate) struct SecretPlaces {
    /// In order, none within another.
    ranges: Vec<Range<usize>>,
}

impl SecretPlaces {
    pub(crate) fn new(text: &str) -> Self {
        Self::from_ranges(secrets_of(text))
    }

    /// Of a text in another format, whose keys are not known: lines that sound like a secret are shown up to their first word.
    pub(super) fn of_foreign(text: &str) -> Self {
        let mut found = secrets_of_line(text);
        let mut start = 0;
        for line in text.split_inclusive('\n') {
            let words = line.trim_start();
            let first = words.find(char::is_whitespace).unwrap_or(words.len());
            let (before, shown) = (line.len() - words.len() + first, line.trim_end().len());
            if is_telling_statement(words) && before < shown {
                found.push(start + before..start + shown);
            }
            start += line.len();
        }
        Self::from_ranges(found)
    }

    fn from_ranges(mut found: Vec<Range<usize>>) -> Self {
        found.sort_compact_by_key(|range| range.start);
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for range in found.into_iter().filter(|range| !range.is_empty()) {
            match ranges.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => ranges.push(range),
            }
        }
        Self { ranges }
    }

    /// Whether the byte at this place is one of a secret.
    pub(crate) fn contains(&self, at: usize) -> bool {
        let next = self.ranges.partition_point(|range| range.end <= at);
        self.ranges.get(next).is_some_and(|range| range.contains(&at))
    }

    /// The text between `lines`, with stars in place of its secrets.
    pub(super) fn starred(&self, text: &str, lines: Range<usize>) -> String {
        let mut shown = text.as_bytes()[lines.clone()].to_vec();
        let first = self.ranges.partition_point(|range| range.end <= lines.start);
        for range in self.ranges[first..].iter().take_while(|range| range.start < lines.end) {
            let from = range.start.saturating_sub(lines.start);
            let to = range.end.min(lines.end) - lines.start;
            shown[from..to]
                .iter_mut()
                .filter(|byte| !matches!(byte, b'\n' | b'\r'))
                .for_each(|byte| *byte = b'*');
        }
        // Ranges begin and end between characters; should one not, nothing is shown rather than a part of it.
        String::from_utf8(shown).unwrap_or_default()
    }
}

/// Whether a statement of another format sounds like a secret, or has the hash of a password.
fn is_telling_statement(line: &str) -> bool {
    // `proxy_pass` and its like name a server, wherever they are in the line.
    let others = line.replace("_pass ", " ");
    let has_hash = ["$2a$", "$2b$", "$2y$", "$5$", "$6$", "$apr1$"].iter().any(|hash| line.contains(hash));
    has_hash || is_telling(&others)
}

/// The bytes of a text that are secrets.
fn secrets_of(text: &str) -> Vec<Range<usize>> {
    let (document, errors) = DeTable::parse_recoverable(text);
    let mut search = Search { text, path: Vec::new(), found: secrets_of_line(text) };
    search.table(document.get_ref());
    if !errors.is_empty() {
        search.lines();
    }
    search.found
}

struct Search<'a> {
    text: &'a str,
    path: Vec<String>,
    found: Vec<Range<usize>>,
}

impl Search<'_> {
    fn table(&mut self, table: &DeTable<'_>) {
        let lists_secrets = table.iter().any(|(key, value)| {
            key.get_ref() == "key"
                && value.get_ref().as_str().is_some_and(|key| key.contains('{') && is_telling(key))
        });
        for (key, value) in table {
            if lists_secrets && key.get_ref() == "entries" {
                self.hide(value.span());
                continue;
            }
            self.path.push(key.get_ref().to_string());
            self.value(value, 0);
            self.path.pop();
        }
    }

    /// A value, in this place of a list.
    fn value(&mut self, value: &Spanned<DeValue<'_>>, place: usize) {
        let text = match value.get_ref() {
            DeValue::Table(table) => return self.table(table),
            DeValue::Array(list) => {
                return list.iter().enumerate().for_each(|(place, value)| self.value(value, place));
            }
            DeValue::String(text) => text.to_string(),
            _ => self.text[value.span()].to_owned(),
        };
        let range = value.span();
        match self.secret_part(&text, place) {
            SecretPart::Whole => self.hide(range),
            SecretPart::BehindSign => {
                let inner = self.inside_quotes(range);
                let sign = self.text[inner.clone()].find('=').map_or(0, |at| at + 1);
                self.found.push(inner.start + sign..inner.end);
            }
            SecretPart::Segments => {
                let inner = self.inside_quotes(range);
                let segments = segments_of_target(&self.text[inner.clone()]);
                self.found.extend(segments.map(|it| it.start + inner.start..it.end + inner.start));
            }
            SecretPart::Constants => {
                let inner = self.inside_quotes(range);
                let constants = constants_of_condition(&self.text[inner.clone()]);
                self.found.extend(constants.map(|it| it.start + inner.start..it.end + inner.start));
            }
            SecretPart::None => {}
        }
    }

    fn secret_part(&self, value: &str, place: usize) -> SecretPart {
        let Some((name, above)) = self.path.split_last() else { return SecretPart::None };
        let is_named = |names: &[&str], name: &str| names.contains(&name);
        let above_is = |names: &[&str]| above.last().is_some_and(|name| is_named(names, name));
        let is_field_of_secret = self
            .path
            .windows(2)
            .any(|pair| is_named(&NAMED_VALUES, &pair[0]) && (is_telling(&pair[1]) || has_drawn_word(value)));
        let is_of_collector = self.path[0] == "traces" && above_is(&["headers"]);
        let is_mistyped = is_like_secret(name);
        let is_said = matches!(name.as_str(), "send" | "quit") && is_telling(value);
        if is_named(&SECRET_KEYS, name)
            || above_is(&SECRET_TABLES)
            || is_field_of_secret
            || is_of_collector
            || is_mistyped
            || is_said
        {
            return SecretPart::Whole;
        }
        match name.as_str() {
            "dns_command" if place > 0 && value.starts_with('-') && value.contains('=') => {
                SecretPart::BehindSign
            }
            "dns_command" if place > 0 && !value.starts_with('-') => SecretPart::Whole,
            "path" if above_is(&ASKING_TABLES) => SecretPart::Segments,
            "on_demand_ask" => SecretPart::Segments,
            "when" | "refresh_when" | "store_when" if is_telling(value) => SecretPart::Constants,
            _ => SecretPart::None,
        }
    }

    /// What of a text that is not TOML stands behind the name of a secret, each time up to the end of its line.
    fn lines(&mut self) {
        // It is not known whose path it is.
        let mut at = 0;
        for piece in self.text.split(|c: char| c.is_ascii_whitespace() || "\"'".contains(c)) {
            if piece.starts_with('/') || piece.contains("://") {
                self.found.extend(segments_of_target(piece).map(|it| it.start + at..it.end + at));
            }
            at += piece.len() + 1;
        }
        let (mut at, mut is_of_secrets) = (0, false);
        for line in self.text.split_inclusive('\n') {
            let end = at + line.trim_end().len();
            let header = line.trim().strip_prefix('[').and_then(|rest| rest.split_once(']'));
            if let Some((header, _)) = header.filter(|_| !line.contains('=')) {
                is_of_secrets =
                    header.rsplit('.').next().is_some_and(|last| SECRET_TABLES.contains(&last.trim()));
            }
            for (sign, _) in line.match_indices('=') {
                let before = line[..sign].trim_end().trim_end_matches(['"', '\'']);
                let is_of_name = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
                let name = &before[before.trim_end_matches(is_of_name).len()..];
                let is_secret = SECRET_KEYS.contains(&name)
                    || SECRET_TABLES.contains(&name)
                    || is_telling(name) && !PLAIN_KEYS.contains(&name) && !name.ends_with("_file");
                if is_secret || is_of_secrets {
                    self.found.push(at + sign + 1..end.max(at + sign + 1));
                    break;
                }
            }
            at += line.len();
        }
    }

    /// All of a value but its quotes; the name of a variable is shown.
    fn hide(&mut self, range: Range<usize>) {
        let inner = self.inside_quotes(range);
        let text = &self.text[inner.clone()];
        let is_variable = text.starts_with("${") && text.find('}') == Some(text.len() - 1);
        if !is_variable {
            self.found.push(inner);
        }
    }

    fn inside_quotes(&self, range: Range<usize>) -> Range<usize> {
        let text = &self.text[range.clone()];
        let quotes = ["\"\"\"", "'''", "\"", "'"];
        let quote = quotes
            .into_iter()
            .find(|quote| text.len() >= 2 * quote.len() && text.starts_with(quote) && text.ends_with(quote));
        let len = quote.map_or(0, str::len);
        range.start + len..range.end - len
    }
}

/// Whether a key, which may be mistyped, is one for a secret.
fn is_like_secret(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let is_like = ["pass", "secret", "token", "pwd", "credential"].iter().any(|part| lower.contains(part));
    is_like && !PLAIN_KEYS.contains(&name) && !name.ends_with("_file")
}

/// The texts in quotes of a condition, as it is written in TOML, that are no part of a name. Decided by what stands before the quote, since the
/// condition may be one that cannot be read.
fn constants_of_condition(written: &str) -> impl Iterator<Item = Range<usize>> {
    let is_name = |before: &str| {
        let before = before.trim_end_matches('\\').trim_end();
        let name = before.strip_suffix('[').map_or("", str::trim_end);
        let word = name.len() - name.trim_end_matches(|c: char| c.is_ascii_alphanumeric() || c == '_').len();
        word > 0 && &name[name.len() - word..] != "in"
    };
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let open = at + written[at..].find(['"', '\''])?;
            let quote = char::from(written.as_bytes()[open]);
            let close = written[open + 1..].find(quote).map_or(written.len(), |len| open + 1 + len);
            at = (close + 1).min(written.len());
            if !is_name(&written[..open]) {
                return Some(open + 1..close);
            }
        }
    })
}

/// What of a value is not shown, beside users and queries of URLs.
enum SecretPart {
    None,
    Whole,
    /// What is behind the first `=`.
    BehindSign,
    /// Segments of the path that look drawn at random.
    Segments,
    /// The texts that a condition compares with.
    Constants,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_conditions_are_found_and_names_are_not() {
        for (written, found) in [
            ("header['x-token'] == 'a' && path == '/b'", &["a", "/b"][..]),
            ("'a' == header[\\\"x\\\"] || header.x in ['b', 'c']", &["a", "b", "c"]),
            ("header[\"x\"] in [\"b\"] && y == \"not closed", &["b", "not closed"]),
            ("\\\"é\\\"", &["é\\"]),
            ("tls", &[]),
        ] {
            let texts: Vec<_> = constants_of_condition(written).map(|range| &written[range]).collect();
            assert_eq!(texts, found, "{written}");
        }
    }
    use crate::key::ValueKind;
    use crate::reference::sections;

    fn shown(text: &str) -> String {
        SecretPlaces::new(text).starred(text, 0..text.len())
    }

    #[test]
    fn secrets_are_hidden_wherever_they_stand() {
        for (text, expected) in [
            ("secret = \"hush\"\n", "secret = \"****\"\n"),
            (
                "upstream.app.affinity = { secret = 'hush', mode = \"cookie\" }",
                "upstream.app.affinity = { secret = '****', mode = \"cookie\" }",
            ),
            ("password = 12345", "password = *****"),
            ("password = \"${REDIS}\"", "password = \"${REDIS}\""),
            ("password = \"\"\"a\nb\"\"\"", "password = \"\"\"*\n*\"\"\""),
            ("password_file = \"/etc/hush\"", "password_file = \"/etc/hush\""),
            (
                "[listener.web.route.basic.users]\nann = \"hush\"",
                "[listener.web.route.basic.users]\nann = \"****\"",
            ),
            ("basic = { users = { ann = \"hush\" } }", "basic = { users = { ann = \"****\" } }"),
            (
                "request_headers = { set = { X-Api-Key = \"hush\", X-A = \"b\" } }",
                "request_headers = { set = { X-Api-Key = \"****\", X-A = \"b\" } }",
            ),
            (
                "header = { Authorization = { regex = \"hush\" } }",
                "header = { Authorization = { regex = \"****\" } }",
            ),
            ("add = { X-A = \"f3a9c01b77aa\" }", "add = { X-A = \"************\" }"),
            ("[traces]\nheaders = { tenant = \"hush\" }", "[traces]\nheaders = { tenant = \"****\" }"),
            (
                "dns_command = [\"/bin/set\", \"hush\", \"--key=hush\", \"-v\"]",
                "dns_command = [\"/bin/set\", \"****\", \"--key=****\", \"-v\"]",
            ),
            (
                "[list.l]\nentries = [\"hush\"]\nkey = \"{header.x-api-key}\"",
                "[list.l]\nentries = ********\nkey = \"{header.x-api-key}\"",
            ),
            (
                "[list.l]\nentries = [\"10.0.0.1\"]\nkey = \"{client_address}\"",
                "[list.l]\nentries = [\"10.0.0.1\"]\nkey = \"{client_address}\"",
            ),
            ("health = { send = \"AUTH hush\" }", "health = { send = \"*********\" }"),
            ("health = { path = \"/a?token=hush&full=1\" }", "health = { path = \"/a?token=****&full=1\" }"),
            (
                "forward_auth = { path = \"/hooks/T0/f3a9c01b77aa\" }",
                "forward_auth = { path = \"/hooks/T0/************\" }",
            ),
            (
                "route = [{ path = \"/assets/f3a9c01b77aa\" }]",
                "route = [{ path = \"/assets/f3a9c01b77aa\" }]",
            ),
            ("# was redis://:hush@a:1\n", "# was redis://*****@a:1\n"),
            ("passwort = \"hush\"", "passwort = \"****\""),
            // What is not TOML.
            ("password = hush", "password =*****"),
            ("a = { secret = \"hush, b = 1 }\nc = 1", "a = { secret =***************\nc = 1"),
            ("basic = { users = { ann = hush } }", "basic = { users =*****************"),
            ("[x.users]\nann = hush\n[y]\nann = 1", "[x.users]\nann =*****\n[y]\nann = 1"),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
    }

    #[test]
    fn only_what_is_a_secret_is_hidden() {
        let text = "listener.web = { address = \"[::]:443\", tls = { key = \"/etc/key.pem\", ticket_keys = [\"/a/b\"] } }\n\
                    hashkey = \"client-address\"\nauth_basic = \"Staff\"\nlimits = { requests_per_session = 10 }\nforward_auth = { upstream = \"auth\", path = \"/verify/v2/internal-service\", timeout = \"2s\" }\n";
        assert_eq!(shown(text), text);
    }

    fn is_secret_kind(kind: &ValueKind) -> bool {
        match kind {
            ValueKind::Text(format, _) => ["secret", "password", "hash of a password"].contains(&format.name),
            ValueKind::Map(item) => is_secret_kind(item),
            _ => false,
        }
    }

    /// A new key whose name or whose kind is that of a secret has to be in one of the lists.
    #[test]
    fn the_lists_are_those_of_the_keys() {
        let mut plain = Vec::new();
        for section in sections() {
            for key in section.keys {
                let is_secret = is_secret_kind(&(key.kind)());
                let is_listed = SECRET_KEYS.contains(&key.name) || SECRET_TABLES.contains(&key.name);
                assert_eq!(is_secret, is_listed, "{}.{}", section.path, key.name);
                if is_telling(key.name) && !is_secret && !key.name.ends_with("_file") {
                    plain.push(key.name);
                }
            }
        }
        plain.sort_unstable();
        plain.dedup();
        assert_eq!(plain, PLAIN_KEYS);
    }
}
