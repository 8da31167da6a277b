//! The rows of the table: what each is about, and where it comes from. A case that goes wrong is reported with its row, and a test
//! refers to its rows by their numbers.
//!
//! The rows come from RFC 9110, RFC 9112, RFC 6585 and published vulnerabilities. Their numbers are never given to another row.

use std::collections::BTreeSet;
use std::path::Path;

/// The first is row 1.
const ROWS: [&str; 48] = [
    "a bare LF as line end (RFC 9112 section 2.2)",
    "a bare CR (RFC 9112 section 2.2)",
    "NUL (RFC 9110 section 5.5)",
    "other control bytes in a value (RFC 9110 section 5.5)",
    "folded fields (RFC 9112 section 5.2, CVE-2025-32094)",
    "white space before the colon (RFC 9112 section 5.1)",
    "white space before the first field (RFC 9112 section 2.2)",
    "empty names and lines without colon (CVE-2023-25725)",
    "bytes in a name that are not of a token (RFC 9110 section 5.1)",
    "names that CGI takes for those of framing, such as Content_Length",
    "Content-Length beside chunked (RFC 9112 sections 6.1 and 6.3)",
    "lengths that differ (RFC 9112 section 6.3)",
    "equal lengths (RFC 9112 section 6.3)",
    "lengths that are not digits alone or overflow (CVE-2021-32715, CVE-2023-40225)",
    "lengths with leading zeros",
    "chunked in HTTP/1.0 (RFC 9112 section 6.1)",
    "codings whose last is not chunked (RFC 9112 section 6.3)",
    "chunked twice or with parameters (RFC 9112 sections 6.1 and 7.1)",
    "empty members of Transfer-Encoding (RFC 9110 section 5.6.1)",
    "spellings of chunked",
    "chunk sizes that are not hexadecimal digits alone or overflow (CVE-2021-32714)",
    "line ends inside chunk extensions (CVE-2025-55315, CVE-2024-53868)",
    "chunk extensions, small and large (RFC 9112 section 7.1.1)",
    "chunk data of another length than its size (RFC 9112 section 7.1)",
    "trailers (RFC 9110 section 6.5)",
    "trailers that must not be ones (RFC 9110 section 6.5.1)",
    "Host: missing, repeated, malformed (RFC 9112 section 3.2)",
    "absolute form with another Host (RFC 9112 section 3.2.2)",
    "absolute form with another scheme, no host, or userinfo (RFC 9110 section 4.2.4)",
    "asterisk form, authority form, CONNECT (RFC 9112 sections 3.2.3 and 3.2.4)",
    "bytes that no target may hold (CVE-2023-45539)",
    "dot segments, doubled and encoded slashes, encoded NUL (RFC 9110 section 7.7)",
    "versions (RFC 9112 section 2.3)",
    "other protocols on this port",
    "Connection that names fields which must stay (RFC 9110 section 7.6.1, CVE-2022-31813)",
    "hop-by-hop fields (RFC 9110 section 7.6.1)",
    "an upgrade to h2c",
    "an upgrade to WebSocket and its answers (RFC 9110 section 7.8)",
    "100-continue that the client waits for (RFC 9110 section 10.1.1)",
    "unusual expectations and desynchronisation by them (RFC 9110 section 10.1.1)",
    "interim responses (RFC 9110 section 15.2)",
    "responses that have no body (RFC 9110 sections 6.4 and 8.6)",
    "responses that are malformed or end early (RFC 9112 sections 6.3 and 8)",
    "pipelined requests (RFC 9112 sections 9.3.2 and 9.6)",
    "server connections that close under a request (RFC 9112 section 9.3.1)",
    "responses before the end of the request, and clients that half-close (RFC 9112 section 9.6)",
    "heads that are too large or never end (RFC 9112 section 3, RFC 6585, CVE-2021-40346)",
    "forged fields, loops, PROXY headers, Max-Forwards (RFC 9110 sections 7.6.2 and 7.6.3)",
];

/// The row with its number, for reports.
pub(super) fn row(number: u8) -> String {
    format!("row {number}, {}", ROWS[usize::from(number) - 1])
}

/// A row belongs to a test if the comment above a test begins with it: `/// Row 5.`, `/// Rows 1 and 2.`, `/// Rows 12 to 15.`
#[test]
fn each_row_has_a_test() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/http1/cases");
    let mut tested = BTreeSet::new();
    for file in std::fs::read_dir(folder).expect("the sources are there") {
        let text = std::fs::read_to_string(file.expect("an entry").path()).expect("sources are UTF-8");
        for line in text.lines().filter_map(|line| line.strip_prefix("/// Row")) {
            let sentence = line.split('.').next().unwrap_or_default();
            let numbers: Vec<usize> = sentence.split(' ').filter_map(|word| word.parse().ok()).collect();
            match numbers[..] {
                [one] => tested.extend([one]),
                [first, last] => tested.extend(first..=last),
                _ => panic!("a row or a range of rows is wanted: {line}"),
            }
        }
    }
    assert_eq!(tested, (1..=ROWS.len()).collect());
}
