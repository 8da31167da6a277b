//! What is compared of a request, and the differences between the programs that are meant: one table, which the page shows.

use super::client::Answer;
use super::servers::Seen;

/// What one program made of a request.
#[derive(Debug, Clone, Default)]
pub(super) struct Outcome {
    pub(super) answers: Vec<Answer>,
    pub(super) seen: Vec<Seen>,
    /// The port of its listener as URLs have it.
    pub(super) port: String,
    /// Scheme and host of the request.
    pub(super) base: String,
}

/// A difference that is meant.
pub(super) struct Deliberate {
    pub(super) name: &'static str,
    /// What may differ: `status`, `body`, `field NAME` of the response; `seen` (what servers get at all), `path` and `header NAME`
    /// of what they get.
    pub(super) aspects: &'static [&'static str],
    /// Whether every request may show it; otherwise only those that are marked, and these have to.
    pub(super) is_general: bool,
    pub(super) reason: &'static str,
}

/// All of them.
pub(super) const DELIBERATE: &[Deliberate] = &[
    Deliberate {
        name: "names",
        aspects: &["field via", "header via", "header x-request-id"],
        is_general: true,
        reason: "each program names itself in `Server` or `Via` (which is required by RFC 9110 section 7.6.3), and makes its own ids",
    },
    Deliberate {
        name: "framing",
        aspects: &[
            "field date",
            "field connection",
            "field keep-alive",
            "field transfer-encoding",
            "header connection",
            "header keep-alive",
            "header transfer-encoding",
            "header content-length",
            "header te",
        ],
        is_general: true,
        reason: "each connection has its own framing; bodies are compared",
    },
    Deliberate {
        name: "cache",
        aspects: &["field age", "field cache-status"],
        is_general: true,
        reason: "Weir says what its cache did, and how old a response is (RFC 9111, RFC 9211); its words are in lower case",
    },
    Deliberate {
        name: "pages",
        aspects: &[],
        is_general: true,
        reason: "pages of failures and redirects that no server has written: text, type, length, `weir-reason`, `no-store`, `Allow` \
                 of 405 (RFC 9110 section 15.5.6), and when to come again",
    },
    Deliberate {
        name: "location",
        aspects: &[],
        is_general: true,
        reason: "nginx adds scheme and host to a `Location` that is a path: both lead to the same URL (RFC 9110 section 10.2.2)",
    },
    Deliberate {
        name: "expires",
        aspects: &[],
        is_general: true,
        reason: "`expires max` is ten years from now in both fields; nginx has one date in `Expires`",
    },
    Deliberate {
        name: "go",
        aspects: &[],
        is_general: true,
        reason: "Caddy asks servers for gzip where the client has not, and decodes it; Weir passes what the client accepts",
    },
    Deliberate {
        name: "told-more",
        aspects: &[
            "header x-forwarded-for",
            "header x-forwarded-host",
            "header x-forwarded-port",
            "header x-forwarded-proto",
        ],
        is_general: true,
        reason: "Weir tells servers more about the client by default; where both say it, it is the same",
    },
    Deliberate {
        name: "files",
        aspects: &[],
        is_general: true,
        reason: "the form of `ETag`; `Accept-Ranges` in 206 and 416; `Last-Modified` in 304; media types as IANA has them (`text/javascript`, \
                 RFC 9239), and more of them",
    },
    Deliberate {
        name: "vary",
        aspects: &[],
        is_general: true,
        reason: "`Vary: Accept-Encoding` is in every response of a route with compression, not only in those that nginx compresses",
    },
    Deliberate {
        name: "claims",
        aspects: &[
            "header x-forwarded-for",
            "header x-forwarded-host",
            "header x-forwarded-proto",
            "header x-real-ip",
        ],
        is_general: false,
        reason: "what a client says of itself in `X-Forwarded-*` and `X-Real-IP` does not reach servers, unless it is a trusted proxy",
    },
    Deliberate {
        name: "normal-form",
        aspects: &["path", "body", "seen", "field location"],
        is_general: false,
        reason: "servers and redirects have the form of the path on which the rules were matched, so that all mean the same \
                 (`paths.forward = \"as-received\"` changes it)",
    },
    Deliberate {
        name: "above-root",
        aspects: &["status", "seen", "path", "body", "field location"],
        is_general: false,
        reason: "nginx refuses a path that leads above the root; for Weir it ends at the root (RFC 3986 section 5.2.4)",
    },
    Deliberate {
        name: "encoded-slash",
        aspects: &["status", "seen", "path", "body"],
        is_general: false,
        reason: "`%2F` is no slash for Weir: it ends no segment (`paths.encoded_slash` changes it)",
    },
    Deliberate {
        name: "host",
        aspects: &["header host"],
        is_general: false,
        reason: "servers get `Host` as the client has sent it; the `$host` of nginx lacks the port, and a request of HTTP/1.0 may have none",
    },
    Deliberate {
        name: "retries",
        aspects: &["seen"],
        is_general: false,
        reason: "a GET whose connection broke is sent once more, also where there is only one server (`retry.attempts_max = 1` turns it off)",
    },
    Deliberate {
        name: "if-modified-since",
        aspects: &["status", "field last-modified", "field etag"],
        is_general: false,
        reason: "a later date than that of the file is 304 (RFC 9110 section 13.1.3), with nginx only the same date",
    },
    Deliberate {
        name: "folders",
        aspects: &["status", "seen", "field location", "body"],
        is_general: false,
        reason: "a folder without an index file is answered at once; nginx first redirects to the path with a slash",
    },
    Deliberate {
        name: "slash",
        aspects: &["status", "seen", "field location", "body"],
        is_general: false,
        reason: "`location /a/` of nginx redirects `/a` to `/a/`; with Weir, `/a` takes the route that it matches",
    },
    Deliberate {
        name: "path-info",
        aspects: &["body"],
        is_general: false,
        reason: "PHP gets the path decoded and without the query in `PATH_INFO` (RFC 3875 section 4.1.5), nginx puts `$request_uri` there",
    },
    Deliberate {
        name: "status-fields",
        aspects: &["field access-control-allow-origin"],
        is_general: false,
        reason: "nginx has the fields of `add_header` on 416; `headers` of `files` are for 200, 206 and 304",
    },
    Deliberate {
        name: "methods",
        aspects: &["status", "seen"],
        is_general: false,
        reason: "where a route has files and an upstream, a POST to the path of a file is for the upstream; nginx refuses it",
    },
    Deliberate {
        name: "prefix",
        aspects: &["status", "seen"],
        is_general: false,
        reason: "`location /avatar` of nginx is for `/avatarx` as well; `path` ends at a slash",
    },
    Deliberate {
        name: "upgrades",
        aspects: &["header upgrade"],
        is_general: false,
        reason: "WebSockets pass on every route (`upgrades = []` turns it off)",
    },
    Deliberate {
        name: "page-files",
        aspects: &["field last-modified"],
        is_general: false,
        reason: "a file in place of an error page has its `Last-Modified`",
    },
    Deliberate {
        name: "kept-errors",
        aspects: &["field cache-control"],
        is_general: false,
        reason: "a rule with `Cache-Control: public` is not for 4xx and 5xx, unless it says `status = \"always\"`",
    },
    Deliberate {
        name: "body-size",
        aspects: &["status", "seen"],
        is_general: false,
        reason: "GitLab means no limit for Git; nginx looks at `Content-Length` before `return 418` has led to the location without one",
    },
    Deliberate {
        name: "refused-ones",
        aspects: &["status"],
        is_general: false,
        reason: "HAProxy's table counts refused requests as well: it answers 403 in place of 429 from the hundredth on; a limit of Weir \
                 counts those that it lets pass",
    },
    Deliberate {
        name: "closed",
        aspects: &["status"],
        is_general: false,
        reason: "`tcp-request content reject` closes the connection; Weir says 429",
    },
    Deliberate {
        name: "host-port",
        aspects: &["status", "seen"],
        is_general: false,
        reason: "`hdr(host)` of HAProxy is the whole field, with the port; `host` of a route is the name, and a request without one is 400 \
                 (RFC 9112 section 3.2)",
    },
    Deliberate {
        name: "slice",
        aspects: &["header range"],
        is_general: false,
        reason: "nginx asks for slices of 1 MiB; Weir asks for the whole",
    },
];

/// What differs, as aspects with both values.
pub(super) fn differences(peer: &Outcome, weir: &Outcome) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (theirs, ours) in peer.answers.iter().zip(&weir.answers) {
        compare_answers(peer, theirs, ours, &mut found);
    }
    let lines = |outcome: &Outcome| -> Vec<String> {
        outcome.seen.iter().map(|seen| format!("{} {}", seen.server, seen.body_len)).collect()
    };
    note(&mut found, "seen", &lines(peer), &lines(weir));
    for (theirs, ours) in peer.seen.iter().zip(&weir.seen) {
        note(&mut found, "path", &theirs.line, &ours.line);
        let mut names: Vec<&String> =
            theirs.fields.iter().chain(&ours.fields).map(|(name, _)| name).collect();
        names.sort();
        names.dedup();
        for name in names {
            let of = |seen: &Seen| -> Vec<String> {
                seen.fields
                    .iter()
                    .filter(|(other, _)| other == name)
                    .map(|(_, value)| value.clone())
                    .collect()
            };
            let ported = |values: Vec<String>, port: &str| -> Vec<String> {
                let is_own = |value: &String| port.strip_prefix(':') == Some(value);
                values
                    .into_iter()
                    .map(|value| if is_own(&value) { "PORT".to_owned() } else { value })
                    .collect()
            };
            let (theirs, ours) = (ported(of(theirs), &peer.port), ported(of(ours), &weir.port));
            let is_told_more = theirs.is_empty() && may(&format!("header {name}"), "told-more");
            let is_go = name == "accept-encoding" && theirs == ["gzip"] && ours.is_empty();
            if !is_told_more && !is_go {
                note(&mut found, &format!("header {name}"), &theirs, &ours);
            }
        }
    }
    found.retain(|(aspect, _)| !["names", "framing", "cache"].iter().any(|name| may(aspect, name)));
    found.dedup();
    found
}

/// Whether the difference `name` allows this aspect to differ.
pub(super) fn may(aspect: &str, name: &str) -> bool {
    let entry = DELIBERATE.iter().find(|entry| entry.name == name);
    entry.unwrap_or_else(|| panic!("no difference {name}")).aspects.contains(&aspect)
}

fn compare_answers(peer: &Outcome, theirs: &Answer, ours: &Answer, found: &mut Vec<(String, String)>) {
    note(found, "status", &theirs.status, &ours.status);
    let of_file = |answer: &Answer| answer.field("etag").is_some() || answer.field("last-modified").is_some();
    let is_of_peer = |answer: &Answer| !answer.is_of_server() && !of_file(answer);
    let is_own_page = theirs.status >= 300 && is_of_peer(theirs) && is_of_peer(ours);
    if theirs.status != ours.status {
        // Two answers to one request: that all else differs says nothing more.
        return;
    }
    if !is_own_page {
        note(found, "body", &theirs.body, &ours.body);
    }
    let has_own_body = is_own_page || theirs.body != ours.body;
    let mut names: Vec<&String> = theirs.fields.keys().chain(ours.fields.keys()).collect();
    names.sort();
    names.dedup();
    for name in names {
        let (their, our) = (values_of(theirs, name, peer), values_of(ours, name, peer));
        let is_skipped = match &**name {
            "content-length" => has_own_body || their.is_empty() || our.is_empty(),
            "content-type" | "weir-reason" => {
                is_own_page || (of_file(theirs) && their == ["application/octet-stream"])
            }
            "cache-control" => {
                let is_ours = our.is_empty() || our == ["no-store"];
                is_own_page && is_ours && (their.is_empty() || their == ["no-cache"])
            }
            "retry-after" | "ratelimit" | "ratelimit-policy" => is_own_page && their.is_empty(),
            "allow" => is_own_page && ours.status == 405,
            "etag" => !their.is_empty() && !our.is_empty() && !theirs.is_of_server(),
            "accept-ranges" => their.is_empty(),
            "vary" => {
                our.iter()
                    .filter(|value| *value != "accept-encoding")
                    .eq(their.iter().filter(|value| *value != "accept-encoding"))
                    && their.iter().all(|value| our.contains(value))
            }
            "last-modified" => ours.status == 304 && their.is_empty(),
            "expires" => match (&their[..], &our[..]) {
                ([their], [our]) => their == "max" || is_same_time(their, our),
                _ => false,
            },
            "server" => {
                !their.is_empty() && their.iter().all(|name| name.starts_with("nginx") || name == "Caddy")
            }
            "x-cached" => their.is_empty() && our == ["bypass"],
            _ => false,
        };
        if !is_skipped {
            note(found, &format!("field {name}"), &their, &our);
        }
    }
}

/// Whether two dates of HTTP are the same but for the time that passes between two requests.
fn is_same_time(one: &str, other: &str) -> bool {
    let parts = |date: &str| -> Option<(String, i32)> {
        let (day, time) = date.strip_suffix(" GMT")?.rsplit_once(' ')?;
        let numbers: Result<Vec<i32>, _> = time.split(':').map(str::parse).collect();
        let &[hours, minutes, seconds] = &numbers.ok()?[..] else { return None };
        Some((day.to_owned(), hours * 3600 + minutes * 60 + seconds))
    };
    let (Some((day, at)), Some((other_day, other_at))) = (parts(one), parts(other)) else { return false };
    match day == other_day {
        true => (at - other_at).abs() <= 60,
        false => (at - other_at).abs() >= 86_400 - 60,
    }
}

/// The values of a field in a form in which they can be compared.
fn values_of(answer: &Answer, name: &str, peer: &Outcome) -> Vec<String> {
    let values = answer.fields.get(name).into_iter().flatten();
    let mut values: Vec<String> = match name {
        "location" => values
            .map(|value| value.replace(&peer.port, ""))
            .map(|value| if value.starts_with('/') { format!("{}{value}", peer.base) } else { value })
            .collect(),
        "vary" => values.flat_map(|value| value.split(',')).map(|one| one.trim().to_lowercase()).collect(),
        "x-cached" => values.map(|value| value.to_lowercase()).collect(),
        "content-type" => {
            let same =
                [("application/javascript", "text/javascript"), ("image/x-icon", "image/vnd.microsoft.icon")];
            let renamed = |value: &String| {
                same.iter().fold(value.clone(), |value, (theirs, ours)| value.replace(theirs, ours))
            };
            values.map(renamed).collect()
        }
        "cache-control" => {
            values.flat_map(|value| value.split(',')).map(|one| one.trim().to_owned()).collect()
        }
        "expires" => values.map(|value| value.replace("Thu, 31 Dec 2037 23:55:55 GMT", "max")).collect(),
        _ => values.cloned().collect(),
    };
    if matches!(name, "vary" | "cache-control") {
        values.sort();
    }
    values
}

fn note<T: PartialEq + std::fmt::Debug>(
    found: &mut Vec<(String, String)>,
    aspect: &str,
    theirs: &T,
    ours: &T,
) {
    if theirs != ours {
        found.push((aspect.to_owned(), format!("{theirs:?} / {ours:?}")));
    }
}
