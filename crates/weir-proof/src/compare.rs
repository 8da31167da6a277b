//! What differs between the outcomes of one request, as aspects with both values, in forms in which they can be compared.

use std::collections::BTreeSet;

use crate::original::OriginalFacts;
use crate::servers::SeenRequest;
use crate::wire::WireMessage;

/// What became of a request with one program.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProofOutcome {
    pub(crate) answer: WireMessage,
    pub(crate) seen: Vec<SeenRequest>,
}

/// A difference: what it is in, and both values.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Difference {
    /// `status`, `body`, `field NAME`, `seen`, `server`, `request line`, `header NAME`, `request body`.
    pub(crate) aspect: String,
    pub(crate) original: String,
    pub(crate) weir: String,
}

/// Fields that are of a connection and not of a message (RFC 9110 section 7.6.1), and those that each program makes anew.
const FRAMING: [&str; 10] = [
    "date",
    "connection",
    "keep-alive",
    "transfer-encoding",
    "te",
    "content-length",
    "age",
    "cache-status",
    "x-proof",
    "REMOTE_PORT",
];

/// All that differs.
pub(crate) fn differences(
    facts: &OriginalFacts,
    theirs: &ProofOutcome,
    ours: &ProofOutcome,
) -> Vec<Difference> {
    let mut found = Vec::new();
    note(&mut found, "status", describe(&theirs.answer), describe(&ours.answer));
    let is_same_status = theirs.answer.status() == ours.answer.status();
    if is_same_status {
        compare_answers(&theirs.answer, &ours.answer, &mut found);
    }
    compare_seen(facts, theirs, ours, &mut found);
    found
}

fn describe(answer: &WireMessage) -> String {
    match answer.status() {
        0 if answer.is_whole => "bytes".to_owned(),
        0 => "no answer".to_owned(),
        status => status.to_string(),
    }
}

/// Whether a program has written the page itself. Texts of pages differ, and are not what a site is about.
fn is_own_page(answer: &WireMessage) -> bool {
    let body = plain_body(answer);
    let body = String::from_utf8_lossy(&body);
    let known = body.contains("<hr><center>nginx") || body.starts_with("<html><body><h1>");
    answer.status() >= 300 && (known || answer.field("weir-reason").is_some() || answer.body.is_empty())
}

/// A body without its compression, and without what a PROXY header in it has of the moment.
fn plain_body(answer: &WireMessage) -> Vec<u8> {
    if answer.field("content-encoding") != Some("gzip") {
        return without_proxy_header(&answer.body).unwrap_or_else(|| answer.body.clone());
    }
    let mut out = vec![0; 4 << 20];
    let config = zlib_rs::InflateConfig { window_bits: 31 };
    let (made, _) = zlib_rs::decompress_slice(&mut out, &answer.body, config);
    made.to_vec()
}

/// A PROXY header of version 2 with the port of the client as 0, and without extensions: servers repeat it where they speak no HTTP.
fn without_proxy_header(body: &[u8]) -> Option<Vec<u8>> {
    const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
    let rest = body.strip_prefix(SIGNATURE)?;
    let (head, rest) = rest.split_at_checked(4)?;
    let (content, behind) = rest.split_at_checked(usize::from(u16::from_be_bytes([head[2], head[3]])))?;
    let (addresses_len, port_at) = match head[1] {
        0x11 | 0x12 => (12, Some(8)),
        0x21 | 0x22 => (36, Some(32)),
        _ => (0, None),
    };
    let mut addresses = content.get(..addresses_len)?.to_vec();
    if let Some(at) = port_at {
        addresses[at..at + 2].fill(0);
    }
    Some([SIGNATURE, &head[..2], &addresses, behind].concat())
}

fn compare_answers(theirs: &WireMessage, ours: &WireMessage, found: &mut Vec<Difference>) {
    let are_own_pages =
        is_own_page(theirs) && (is_own_page(ours) || ours.status() >= 300 && ours.status() < 400);
    if !are_own_pages {
        let shown = |body: &[u8]| String::from_utf8_lossy(&body[..body.len().min(160)]).into_owned();
        let (their, our) = (plain_body(theirs), plain_body(ours));
        if their != our {
            let lengths = |body: &[u8]| format!("{} bytes: {}", body.len(), shown(body));
            note(found, "body", lengths(&their), lengths(&our));
        }
    }
    for name in names(&theirs.fields, &ours.fields) {
        let is_of_page = matches!(
            &*name,
            "content-type"
                | "content-encoding"
                | "weir-reason"
                | "cache-control"
                | "retry-after"
                | "allow"
                | "ratelimit"
                | "ratelimit-policy"
        );
        if FRAMING.contains(&&*name) || (are_own_pages && is_of_page) {
            continue;
        }
        note(found, &format!("field {name}"), values(&theirs.fields, &name), values(&ours.fields, &name));
    }
}

fn compare_seen(
    facts: &OriginalFacts,
    theirs: &ProofOutcome,
    ours: &ProofOutcome,
    found: &mut Vec<Difference>,
) {
    let servers = |outcome: &ProofOutcome| -> Vec<String> {
        let seen = outcome.seen.iter();
        let mut all: Vec<String> =
            seen.map(|seen| format!("{}://{}", seen.protocol, facts.group_of(&seen.server))).collect();
        all.sort();
        all
    };
    let (their, our) = (servers(theirs), servers(ours));
    if their != our {
        let aspect = if their.len() == our.len() { "server" } else { "seen" };
        return note(found, aspect, their.join(" "), our.join(" "));
    }
    let (mut theirs, mut ours) = (theirs.seen.clone(), ours.seen.clone());
    theirs.sort();
    ours.sort();
    for (their, our) in theirs.iter().zip(&ours) {
        note(found, "request line", line_of(&their.line), line_of(&our.line));
        if their.body != our.body {
            note(found, "request body", their.body.len().to_string(), our.body.len().to_string());
        }
        for name in names(&their.fields, &our.fields) {
            if !FRAMING.contains(&&*name) {
                note(
                    found,
                    &format!("header {name}"),
                    values(&their.fields, &name),
                    values(&our.fields, &name),
                );
            }
        }
    }
}

/// Which version of HTTP/1 is spoken to a server is its connection's.
fn line_of(line: &str) -> String {
    line.trim_end_matches(" HTTP/1.0").trim_end_matches(" HTTP/1.1").to_owned()
}

fn names(one: &[(String, String)], other: &[(String, String)]) -> BTreeSet<String> {
    one.iter().chain(other).map(|(name, _)| name.clone()).collect()
}

/// All values of a field on one line; the order of members of a list counts, that of fields does not.
fn values(fields: &[(String, String)], name: &str) -> String {
    let of_name = fields.iter().filter(|(known, _)| known == name);
    let mut values: Vec<&str> = of_name.map(|(_, value)| value.as_str()).collect();
    values.sort_unstable();
    let joined = values.join(" | ");
    match name {
        "vary" => {
            let mut members: Vec<String> =
                joined.split([',', '|']).map(|one| one.trim().to_ascii_lowercase()).collect();
            members.sort();
            members.join(", ")
        }
        _ => joined,
    }
}

fn note(found: &mut Vec<Difference>, aspect: &str, original: String, weir: String) {
    if original != weir {
        found.push(Difference { aspect: aspect.to_owned(), original, weir });
    }
}

#[cfg(test)]
mod tests {
    use super::without_proxy_header;

    #[test]
    fn proxy_headers_are_compared_by_their_addresses() {
        let header = |port: u8, extension: &[u8]| {
            let mut bytes = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0".to_vec();
            bytes.push(12 + u8::try_from(extension.len()).unwrap());
            bytes.extend([127, 0, 0, 1, 127, 0, 0, 2, 0x90, port, 0, 80]);
            bytes.extend(extension);
            bytes.extend(b"rest");
            bytes
        };
        assert_eq!(without_proxy_header(&header(1, b"")), without_proxy_header(&header(9, &[5, 0, 1, 7])));
        assert_eq!(without_proxy_header(b"GET"), None);
    }
}
