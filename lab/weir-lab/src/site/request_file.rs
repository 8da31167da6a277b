//! Files of requests: paths, one a line; or requests, a line of JSON each. All that is wrong is said at once, with its line.

use anyhow::bail;
use bytes::Bytes;
use serde::Deserialize;

use super::expectation::AnswerExpectation;
use super::request::{SiteRequest, check_method, check_path};

/// The most errors that are shown.
const SHOWN_MAX: usize = 20;

/// A line of such a file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileLine {
    #[serde(default = "get")]
    method: String,
    path: String,
    #[serde(default)]
    body: String,
    /// The statuses that are right.
    status: Option<String>,
}

fn get() -> String {
    "GET".to_owned()
}

/// Reads requests whose answers are to be as `expected`, where a line says nothing else.
///
/// # Errors
/// Everything that is wrong, a line each.
pub(super) fn read(text: &str, expected: &AnswerExpectation) -> anyhow::Result<Vec<SiteRequest>> {
    lines(text, |line| {
        let line: FileLine = serde_json::from_str(line)?;
        check_method(&line.method)?;
        check_path(&line.path)?;
        let status = line.status.map(|status| status.parse()).transpose()?;
        let expected =
            AnswerExpectation { status: status.unwrap_or(expected.status.clone()), ..expected.clone() };
        Ok(SiteRequest { method: line.method, path: line.path, body: Bytes::from(line.body), expected })
    })
}

/// Reads paths.
///
/// # Errors
/// Everything that is wrong, a line each.
pub(super) fn paths(text: &str) -> anyhow::Result<Vec<String>> {
    lines(text, |line| check_path(line).map(|()| line.to_owned()))
}

/// Reads every line that is neither empty nor a comment.
fn lines<T>(text: &str, read: impl Fn(&str) -> anyhow::Result<T>) -> anyhow::Result<Vec<T>> {
    let (mut found, mut errors) = (Vec::new(), Vec::new());
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match read(line) {
            Ok(it) => found.push(it),
            Err(error) => errors.push(format!("line {}: {error:#}", number + 1)),
        }
    }
    if errors.len() > SHOWN_MAX {
        let more = errors.len() - SHOWN_MAX;
        errors.truncate(SHOWN_MAX);
        errors.push(format!("and {more} more"));
    }
    match (errors.is_empty(), found.is_empty()) {
        (false, _) => bail!("\n  {}", errors.join("\n  ")),
        (true, true) => bail!("there is no request in it"),
        (true, false) => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use super::{paths, read};
    use crate::load::seen::SeenAnswer;
    use crate::site::expectation::{AnswerExpectation, StatusSet};

    fn usual() -> AnswerExpectation {
        AnswerExpectation { status: StatusSet::usual(), len: None, text: None }
    }

    #[test]
    fn requests_are_read() {
        let text = "# shop\n{\"path\":\"/\"}\n\n{\"method\":\"POST\",\"path\":\"/cart\",\"body\":\"a=1\",\"status\":\"404\"}\n";
        let requests = read(text, &usual()).unwrap();
        assert_eq!((requests.len(), &*requests[0].method, &*requests[1].body), (2, "GET", &b"a=1"[..]));
        let seen = SeenAnswer { status: 404, ..SeenAnswer::default() };
        assert!(requests[0].expected.check(&seen).is_err() && requests[1].expected.check(&seen).is_ok());
        assert_eq!(paths("/a\n/b?c\n").unwrap(), ["/a", "/b?c"]);
    }

    #[test]
    fn all_errors_are_said_at_once() {
        let text =
            "{\"path\":\"x\"}\n{\"path\":\"/\"}\n{\"paht\":\"/\"}\n{\"path\":\"/\",\"status\":\"ok\"}\n";
        let said = read(text, &usual()).unwrap_err().to_string();
        for part in ["line 1: `x` is no path", "line 3: unknown field `paht`", "line 4: `ok` is no status"] {
            assert!(said.contains(part), "{said}");
        }
        assert!(!said.contains("line 2"), "{said}");
        assert!(paths("\n# none\n").is_err());
    }
}
