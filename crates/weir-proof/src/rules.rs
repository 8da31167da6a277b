//! Differences that are known: those that mean the same, and those that Weir makes deliberately, each with the place of the docs that says so.
//! What no rule knows is a defect.

use crate::compare::{Difference, ProofOutcome};

/// What a difference is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum DifferenceVerdict {
    /// Both mean the same.
    Equal,
    /// Weir means it; the page says why.
    Deliberate,
    /// The report of the import says so.
    Declared,
    /// None of these.
    Defect,
}

impl DifferenceVerdict {
    pub(crate) fn title(self) -> &'static str {
        match self {
            DifferenceVerdict::Equal => "equal in meaning",
            DifferenceVerdict::Deliberate => "deliberate",
            DifferenceVerdict::Declared => "declared by the report",
            DifferenceVerdict::Defect => "DEFECT",
        }
    }
}

/// A rule.
pub(crate) struct DifferenceRule {
    /// Its name, which is the anchor of its paragraph in `docs/import-proof.md`.
    pub(crate) name: &'static str,
    pub(crate) verdict: DifferenceVerdict,
    applies: fn(&DifferenceCase<'_>) -> bool,
}

/// What a rule looks at.
pub(crate) struct DifferenceCase<'c> {
    pub(crate) host: &'c str,
    pub(crate) method: &'c str,
    pub(crate) target: &'c str,
    /// The fields of the request.
    pub(crate) fields: &'c [(String, String)],
    pub(crate) difference: &'c Difference,
    pub(crate) theirs: &'c ProofOutcome,
    pub(crate) ours: &'c ProofOutcome,
}

/// Whether the path of a target has something in it that normalization changes.
pub(crate) fn has_unusual_path(target: &str) -> bool {
    let path = target.split('?').next().unwrap_or_default();
    path.contains("//") || path.contains("/.") || path.contains('%')
}

impl DifferenceCase<'_> {
    fn is(&self, aspects: &[&str]) -> bool {
        aspects.contains(&&*self.difference.aspect)
    }

    /// The path has something in it that normalization changes.
    fn has_unusual_path(&self) -> bool {
        has_unusual_path(self.target)
    }

    fn is_of_file(&self) -> bool {
        self.theirs.seen.is_empty() && self.theirs.answer.field("last-modified").is_some()
    }

    /// The path without its query.
    fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    /// The query, without its question mark.
    fn query(&self) -> &str {
        self.target.split_once('?').map_or("", |(_, query)| query)
    }

    fn has_field(&self, name: &str) -> bool {
        self.fields.iter().any(|(known, _)| known.eq_ignore_ascii_case(name))
    }

    fn is_only_weir(&self) -> bool {
        self.difference.original.is_empty()
    }
}

const fn rule(
    name: &'static str,
    verdict: DifferenceVerdict,
    applies: fn(&DifferenceCase<'_>) -> bool,
) -> DifferenceRule {
    DifferenceRule { name, verdict, applies }
}

/// Parameters of FastCGI that Weir sends in any case.
const OF_CGI: [&str; 22] = [
    "CONTENT_LENGTH",
    "CONTENT_TYPE",
    "DOCUMENT_ROOT",
    "DOCUMENT_URI",
    "GATEWAY_INTERFACE",
    "HTTPS",
    "PATH_INFO",
    "PATH_TRANSLATED",
    "QUERY_STRING",
    "REDIRECT_STATUS",
    "REMOTE_ADDR",
    "REMOTE_USER",
    "REQUEST_METHOD",
    "REQUEST_SCHEME",
    "REQUEST_URI",
    "SCRIPT_FILENAME",
    "SCRIPT_NAME",
    "SERVER_ADDR",
    "SERVER_NAME",
    "SERVER_PORT",
    "SERVER_PROTOCOL",
    "SERVER_SOFTWARE",
];

use DifferenceVerdict::{Deliberate, Equal};

/// Whether a script of FastCGI is not told by the original what was asked for (`REQUEST_URI`), while the rest of its line is the same.
fn is_untold(case: &DifferenceCase<'_>) -> bool {
    let [theirs, ours] = [case.theirs, case.ours].map(|side| side.seen.first());
    let (Some(theirs), Some(ours)) = (theirs, ours) else { return false };
    let ends = |line: &str| -> Option<(String, String)> {
        Some((line.split(' ').next()?.to_owned(), line.rsplit(' ').next()?.to_owned()))
    };
    theirs.protocol == "fastcgi" && theirs.line.contains("  ") && ends(&theirs.line) == ends(&ours.line)
}

/// All rules; the first that applies decides.
pub(crate) const RULES: &[DifferenceRule] = &[
    rule("names", Equal, |case| {
        case.is(&[
            "field via",
            "header via",
            "header x-request-id",
            "field x-request-id",
            "header HTTP_X_REQUEST_ID",
            "header SERVER_SOFTWARE",
        ]) || case.is(&["field server"])
            && (case.difference.original.starts_with("nginx") || case.difference.original == "Caddy")
    }),
    rule("user", Deliberate, |case| case.is(&["header REMOTE_USER"]) && case.difference.weir.is_empty()),
    rule("auth-request", Deliberate, |case| {
        case.is(&["header x-forwarded-method", "header x-forwarded-uri"]) && case.is_only_weir()
    }),
    rule("location", Equal, |case| {
        case.is(&["field location"])
            && absolute(&case.difference.original).trim_end_matches('?')
                == absolute(&case.difference.weir).trim_end_matches('?')
    }),
    rule("etag", Equal, |case| case.is(&["field etag"]) && case.theirs.seen.is_empty()),
    rule("empty-query", Equal, |case| {
        let bare = |text: &str| text.trim_end_matches('?').to_owned();
        // Behind a query that a rule has set, the empty one of the request leaves its sign.
        let without_signs = |text: &str| absolute(text).trim_end_matches(['?', '&']).to_owned();
        case.is(&["request line", "field location", "header REQUEST_URI"])
            && bare(&case.difference.original) == bare(case.difference.weir.trim_end_matches('&'))
            || case.is(&["field location"])
                && without_signs(&case.difference.original) == without_signs(&case.difference.weir)
            || case.is(&["body"]) && (case.target.ends_with('?') || echoed(case.theirs) == echoed(case.ours))
    }),
    rule("script-slashes", Equal, |case| {
        let single = |text: &str| text.replace("//", "/");
        let is_fastcgi = case.theirs.seen.iter().any(|seen| seen.protocol == "fastcgi");
        case.is(&["request line", "header SCRIPT_FILENAME"])
            && is_fastcgi
            && single(&case.difference.original) == single(&case.difference.weir)
    }),
    rule("types", Equal, |case| {
        let known =
            [("application/javascript", "text/javascript"), ("image/x-icon", "image/vnd.microsoft.icon")];
        case.is(&["field content-type"])
            && known.iter().any(|(theirs, ours)| {
                let plain = |text: &str| text.replace("; charset=utf-8", "");
                plain(&case.difference.original.replace(theirs, ours)) == plain(&case.difference.weir)
            })
    }),
    rule("files", Deliberate, |case| {
        case.is(&["field accept-ranges", "field last-modified"]) && case.theirs.seen.is_empty()
            || case.is(&["field content-type"])
                && case.is_of_file()
                && ["application/octet-stream", "text/plain"]
                    .iter()
                    .any(|kind| case.difference.original.starts_with(kind))
    }),
    rule("text-types", Deliberate, |case| {
        let path = case.target.split('?').next().unwrap_or_default();
        let has_extension = path.rsplit('/').next().is_some_and(|name| name.contains('.'));
        case.is(&["field content-type"])
            && (case.theirs.seen.is_empty() || case.theirs.answer.status() >= 400)
            && case.theirs.answer.field("last-modified").is_none()
            && case.ours.answer.field("last-modified").is_none()
            && (has_extension || case.theirs.answer.body == case.ours.answer.body)
    }),
    rule("welcome", Deliberate, |case| {
        // It has 615 bytes, or some of them.
        let answer = &case.theirs.answer;
        let is_welcome = String::from_utf8_lossy(&answer.body).contains("Welcome to nginx!")
            || answer.field("content-length") == Some("615")
            || answer.field("content-range").is_some_and(|range| range.ends_with("/615"));
        case.is(&["status"]) && case.ours.answer.status() == 404 && is_welcome
    }),
    rule("index", Deliberate, |case| {
        // The index file is another request in nginx, for which other locations count.
        let is_index = |outcome: &ProofOutcome| {
            let lines = outcome.seen.iter().map(|seen| seen.line.as_str());
            lines.clone().any(|line| line.contains("/index."))
                || outcome.answer.field("last-modified").is_some()
        };
        case.path().ends_with('/')
            && (case.is(&["status", "seen"]) && is_index(case.theirs) && case.ours.answer.status() == 404
                || case.difference.aspect.starts_with("field ")
                    && is_index(case.theirs)
                    && is_index(case.ours)
                    && case.ours.seen.is_empty())
    }),
    rule("vary", Deliberate, |case| {
        case.is(&["field vary"])
            && (case.difference.weir.contains("accept-encoding")
                || case.ours.answer.field("weir-reason").is_some()
                || case.ours.answer.status() >= 400 && case.theirs.seen.is_empty())
    }),
    rule("query-once", Deliberate, |case| {
        case.is(&["field location"])
            && !case.query().is_empty()
            && absolute(&case.difference.original)
                == format!("{}?{}", absolute(&case.difference.weir), case.query())
    }),
    rule("told-more", Deliberate, |case| {
        let told = [
            "header x-forwarded-for",
            "header x-forwarded-host",
            "header x-forwarded-port",
            "header x-forwarded-proto",
        ];
        let name = case.difference.aspect.strip_prefix("header ").unwrap_or_default();
        (case.is(&told) || OF_CGI.contains(&name)) && case.is_only_weir()
            || case.is(&["request line", "body"]) && is_untold(case)
    }),
    rule("cgi", Deliberate, |case| {
        let name = case.difference.aspect.strip_prefix("header HTTP_").unwrap_or_default();
        let is_left_out = ["CONTENT_LENGTH", "CONTENT_TYPE", "CONNECTION", "UPGRADE", "X_REAL_IP"]
            .contains(&name)
            || name.starts_with("X_FORWARDED_");
        is_left_out && case.difference.weir.is_empty() || case.is(&["header SERVER_NAME"])
    }),
    rule("claims", Deliberate, |case| {
        let name = case.difference.aspect.strip_prefix("header ").unwrap_or_default();
        name == "x-forwarded-port" && case.has_field("x-forwarded-proto")
            || case.is(&["body"]) && case.has_field("x-forwarded-for") && case.theirs.seen.is_empty()
            || ["x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip"].contains(&name)
                && case.fields.iter().any(|(given, value)| {
                    let sides = [&case.difference.original, &case.difference.weir];
                    given.eq_ignore_ascii_case(name) && sides.iter().any(|side| side.contains(value.as_str()))
                })
    }),
    rule("above-root", Deliberate, |case| {
        case.is(&["status", "seen"]) && case.theirs.answer.status() == 400 && case.has_unusual_path()
    }),
    rule("normal-form", Deliberate, |case| {
        let aspects = ["request line", "body", "server", "seen", "status"];
        // Rules that are for the one form of a path and not for the other one set fields.
        let is_of_rule =
            case.difference.aspect.starts_with("field ") || case.difference.aspect.starts_with("header ");
        case.has_unusual_path() && (case.is(&aspects) || is_of_rule)
    }),
    rule("methods", Deliberate, |case| {
        let is_reading = matches!(case.method, "GET" | "HEAD");
        case.is(&["status", "seen"]) && case.theirs.answer.status() == 405 && case.ours.answer.status() < 400
            || case.is(&["status", "seen"])
                && case.ours.answer.status() == 405
                && case.ours.seen.is_empty()
                && !is_reading
    }),
    rule("folders", Deliberate, |case| {
        let path = case.target.split('?').next().unwrap_or_default();
        let location = case.theirs.answer.field("location").map(absolute).unwrap_or_default();
        case.is(&["status"])
            && case.theirs.answer.status() == 301
            && location.split('?').next() == Some(&format!("{path}/"))
            && case.ours.seen.is_empty()
    }),
    rule("slashes", Deliberate, |case| {
        let location = case.theirs.answer.field("location").map(absolute).unwrap_or_default();
        let is_redirect = [case.theirs, case.ours].iter().all(|outcome| outcome.answer.status() == 301);
        let ends = |location: &str| {
            let path = location.split('?').next().unwrap_or_default();
            path == format!("{}/", case.path()) || case.has_unusual_path() && path.ends_with('/')
        };
        let is_unseen = case.theirs.seen.is_empty() && case.ours.seen.is_empty();
        // Also to a location that is for requests from inside.
        let ours = case.ours.answer.field("location").map(absolute).unwrap_or_default();
        let is_internal = case.is(&["status"])
            && (case.theirs.answer.status(), case.ours.answer.status()) == (404, 301)
            && ends(ours);
        is_unseen
            && (is_internal || case.difference.aspect.starts_with("field ") && is_redirect && ends(location))
    }),
    rule("hosts", Deliberate, |case| {
        case.host.starts_with('.') && case.is(&["status", "seen"]) && case.ours.answer.status() == 400
    }),
    rule("empty-redirects", Deliberate, |case| {
        case.is(&["status"])
            && matches!(case.theirs.answer.status(), 301..=308)
            && case.theirs.answer.field("location").is_none_or(str::is_empty)
            && case.ours.answer.status() == 404
    }),
    rule("stored", Deliberate, |case| {
        // Of what nginx has stored, Weir asks a server anew: keys have the host, and WebSockets and other methods go past it.
        is_stored(case.theirs) && !case.ours.seen.is_empty() || is_cache_status(case)
    }),
    rule("decoded-arguments", Deliberate, |case| {
        case.query().contains('%')
            && (case.is(&["body"]) || case.difference.aspect.starts_with("header "))
            && case.theirs.seen.len() == case.ours.seen.len()
    }),
    rule("scripts", Deliberate, |case| {
        case.path().contains(".php/")
            && case.is(&[
                "request line",
                "header SCRIPT_FILENAME",
                "header SCRIPT_NAME",
                "header DOCUMENT_URI",
                "header PATH_INFO",
                "header PATH_TRANSLATED",
            ])
    }),
    rule("cgi-twice", Equal, |case| {
        let (first, rest) = case.difference.original.split_once(" | ").unwrap_or_default();
        case.difference.aspect.starts_with("header ")
            && case.difference.weir == first
            && rest.split(" | ").all(|one| one == first)
    }),
    rule("conditions", Deliberate, |case| {
        let asked = [
            "if-none-match",
            "if-modified-since",
            "range",
            "HTTP_IF_NONE_MATCH",
            "HTTP_IF_MODIFIED_SINCE",
            "HTTP_RANGE",
        ];
        case.difference.aspect.strip_prefix("header ").is_some_and(|name| asked.contains(&name))
            && case.is_only_weir()
    }),
    rule("compressed-statuses", Deliberate, |case| {
        case.is(&["field content-encoding"])
            && case.is_only_weir()
            && !matches!(case.ours.answer.status(), 200 | 403 | 404)
    }),
    rule("rewritten-validators", Deliberate, |case| {
        let is_weak = case.ours.answer.field("etag").is_none_or(|etag| etag.starts_with("W/"));
        case.is(&["field etag", "field last-modified"])
            && case.is_only_weir()
            && !case.theirs.seen.is_empty()
            && case.theirs.answer.field("etag").is_none()
            && is_weak
    }),
    rule("page-files", Deliberate, |case| {
        case.is(&["field accept-ranges", "field last-modified", "field etag"])
            && case.ours.answer.status() >= 400
    }),
    rule("realm", Deliberate, |case| {
        case.is(&["field www-authenticate"])
            && case.difference.weir == format!("{}, charset=\"UTF-8\"", case.difference.original)
    }),
    rule("rewritten-bodies", Deliberate, |case| {
        case.is(&["header accept-encoding", "header range"]) && case.difference.weir.is_empty()
    }),
    rule("failed-servers", Deliberate, |case| {
        case.theirs.seen.is_empty()
            && matches!(case.theirs.answer.status(), 502 | 503)
            && !case.ours.seen.is_empty()
            && case.is(&["status", "seen", "body"])
    }),
    rule("missing-pages", Deliberate, |case| {
        // The page has failed, too: nginx has its status then.
        let sides = (case.theirs.answer.status(), case.ours.answer.status());
        let is_unseen = case.theirs.seen.is_empty() && case.ours.seen.is_empty();
        case.is(&["status"])
            && (matches!(sides, (404, 500..=504)) || is_unseen && matches!(sides, (500..=504, 404)))
    }),
    rule("no-server", Deliberate, |case| {
        case.is(&["status"])
            && (case.difference.original.as_str(), case.difference.weir.as_str()) == ("502", "503")
            && case.theirs.seen.is_empty()
            && case.ours.seen.is_empty()
    }),
    rule("body-size", Deliberate, |case| {
        case.is(&["status"])
            && [&case.difference.original, &case.difference.weir].contains(&&"413".to_owned())
            && case.theirs.seen.is_empty()
            && case.ours.seen.is_empty()
    }),
    rule("stored-parts", Deliberate, |case| {
        let asks = case.fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("range"));
        let (original, weir) = (case.difference.original.as_str(), case.difference.weir.as_str());
        let is_of_cache = case.theirs.seen.is_empty() && case.ours.seen.is_empty();
        is_of_cache && asks && case.is(&["status"]) && (original, weir) == ("200", "206")
            || matches!((original, weir), ("", "BYPASS") | ("BYPASS", "MISS"))
    }),
    rule("page-ranges", Deliberate, |case| {
        let sides = (case.theirs.answer.status(), case.ours.answer.status());
        case.is(&["status"])
            && sides == (206, 200)
            && case.has_field("range")
            && case.theirs.answer.field("last-modified").is_some()
    }),
    rule("own-redirects", Deliberate, |case| {
        // What servers say of themselves, though they are told the host of the client.
        let host =
            case.ours.seen.first().and_then(|seen| seen.fields.iter().find(|(name, _)| name == "host"));
        let authority = case.difference.weir.split("://").nth(1).and_then(|rest| rest.split('/').next());
        case.is(&["field location"]) && authority.is_some_and(|one| host.is_some_and(|(_, host)| host != one))
    }),
    rule("refused", Deliberate, |case| {
        let is_refusal = |outcome: &ProofOutcome| {
            matches!(outcome.answer.status(), 401 | 403 | 404 | 405 | 413) && outcome.seen.is_empty()
        };
        case.is(&["status"]) && is_refusal(case.theirs) && is_refusal(case.ours)
    }),
    rule("encoded-slash", Deliberate, |case| {
        case.target.contains("%2f")
            && (case.is(&["status", "seen", "server"]) || case.difference.aspect.starts_with("header "))
    }),
    rule("page-redirects", Deliberate, |case| {
        case.is(&["status"])
            && case.theirs.answer.status() >= 400
            && matches!(case.ours.answer.status(), 301..=308)
            && case.has_field("X-Proof-Answer")
            && !case.ours.seen.is_empty()
            && !case.theirs.seen.is_empty()
    }),
    rule("retries", Deliberate, |case| {
        let servers = |outcome: &ProofOutcome| -> std::collections::BTreeSet<String> {
            outcome.seen.iter().map(|seen| seen.server.clone()).collect()
        };
        case.is(&["seen"])
            && case.ours.seen.len() > case.theirs.seen.len()
            && (case.ours.answer.status() == 502 || servers(case.theirs) == servers(case.ours))
    }),
    rule("second-failures", Deliberate, |case| {
        // What answers in place of a failure has failed, too.
        let is_asked_to = case.has_field("X-Proof-Answer");
        let sides = (case.theirs.answer.status(), case.ours.answer.status());
        let body = String::from_utf8_lossy(&case.theirs.answer.body);
        is_asked_to
            && (case.is(&["status"])
                && matches!(sides, (500..=504, 404))
                && case.ours.answer.field("weir-reason").is_some()
                || case.is(&["body", "field content-type"])
                    && sides.0 >= 400
                    && body.contains("<hr><center>nginx")
                    && !case.ours.seen.is_empty())
    }),
    rule("retry-after", Deliberate, |case| {
        case.is(&["field retry-after"]) && case.is_only_weir() && case.ours.answer.status() >= 400
    }),
    rule("upgrades", Deliberate, |case| case.is(&["header upgrade"])),
    rule("accel", Deliberate, |case| {
        case.difference.aspect.starts_with("field x-accel-") && case.difference.weir.is_empty()
    }),
    rule("expires", Equal, |case| {
        case.is(&["field expires"]) && same_time(&case.difference.original, &case.difference.weir)
    }),
    rule("expires-past", Deliberate, |case| {
        case.is(&["field expires"]) && case.difference.weir == "Thu, 01 Jan 1970 00:00:00 GMT"
    }),
    rule("cookie-attributes", Equal, |case| {
        let sorted = |text: &str| {
            let mut parts: Vec<String> = text.split([';', '|']).map(|part| part.trim().to_owned()).collect();
            parts.sort();
            parts
        };
        case.is(&["field set-cookie"]) && sorted(&case.difference.original) == sorted(&case.difference.weir)
    }),
    rule("pages", Deliberate, |case| {
        case.is(&["field weir-reason"])
            || case.is(&["field content-type", "field cache-control", "field allow"])
                && case.ours.answer.field("weir-reason").is_some()
    }),
];

/// The rule for a difference.
pub(crate) fn judge(case: &DifferenceCase<'_>) -> Option<&'static DifferenceRule> {
    RULES.iter().find(|rule| (rule.applies)(case))
}

/// Whether an answer is one of a server that was not asked now.
fn is_stored(outcome: &ProofOutcome) -> bool {
    let body = String::from_utf8_lossy(&outcome.answer.body);
    // The answer to HEAD has no body; the config may name what the cache did.
    let is_told = outcome.answer.fields.iter().any(|(_, value)| value == "HIT" || value == "STALE");
    outcome.seen.is_empty() && (is_told || body.contains("<title>proof</title>"))
}

/// Names of what a cache did, where the same has happened otherwise.
fn is_cache_status(case: &DifferenceCase<'_>) -> bool {
    const NAMES: [&str; 8] = ["", "HIT", "MISS", "BYPASS", "EXPIRED", "STALE", "UPDATING", "REVALIDATED"];
    let sides = [case.difference.original.as_str(), case.difference.weir.as_str()];
    case.difference.aspect.starts_with("field ")
        && sides.iter().all(|side| NAMES.contains(side))
        && (case.has_unusual_path() || !case.ours.seen.is_empty() || !sides.contains(&"HIT"))
}

/// What servers say of the request, without empty queries.
fn echoed(outcome: &ProofOutcome) -> String {
    String::from_utf8_lossy(&outcome.answer.body).replace("?</body>", "</body>")
}

/// A URL without scheme, host and port: both lead to the same one.
fn absolute(location: &str) -> &str {
    let rest = location.strip_prefix("http://").or_else(|| location.strip_prefix("https://"));
    rest.and_then(|rest| rest.find('/').map(|at| &rest[at..])).unwrap_or(location)
}

/// Whether two dates of HTTP are the same but for what passes between two requests.
fn same_time(one: &str, other: &str) -> bool {
    let seconds = |date: &str| -> Option<i32> {
        let (_, time) = date.strip_suffix(" GMT")?.rsplit_once(' ')?;
        let numbers: Result<Vec<i32>, _> = time.split(':').map(str::parse).collect();
        let &[hours, minutes, seconds] = &numbers.ok()?[..] else { return None };
        Some(hours * 3600 + minutes * 60 + seconds)
    };
    let is_end = |date: &str| date.contains("2037");
    match (seconds(one), seconds(other)) {
        (Some(one), Some(other)) => {
            (one - other).rem_euclid(86_400).min((other - one).rem_euclid(86_400)) < 120
        }
        _ => false,
    }
    .max(is_end(one))
}
