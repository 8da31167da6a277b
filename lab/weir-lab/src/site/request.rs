//! One request of a user: method, path, fields, body, and what is expected of its answer.

use anyhow::{Context as _, bail, ensure};
use bytes::Bytes;

use super::expectation::AnswerExpectation;

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteRequest {
    /// The method.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// The body.
    pub body: Bytes,
    /// What is expected of the answer.
    pub expected: AnswerExpectation,
}

/// The fields that all requests have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenFields {
    /// The authority: that of the URL, or of a Host field that the user gives.
    pub authority: String,
    /// The others, in their order.
    pub lines: Vec<(String, String)>,
}

/// Fields by which a message ends or a connection goes on: they follow from the request.
const OF_CONNECTION: [&str; 7] =
    ["connection", "content-length", "transfer-encoding", "keep-alive", "upgrade", "te", "expect"];

impl GivenFields {
    /// The fields `given` as `Name: value`, for a site called `authority`.
    ///
    /// # Errors
    /// Which of them is none, or none that can be given.
    pub fn read(authority: &str, given: &[String]) -> anyhow::Result<Self> {
        let mut fields = Self { authority: authority.to_owned(), lines: Vec::new() };
        for line in given {
            let (name, value) =
                line.split_once(':').with_context(|| format!("`{line}` is no field: Name: value"))?;
            let value = value.trim();
            let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
            ensure!(!name.is_empty() && name.bytes().all(is_token), "`{name}` is no name of a field");
            let is_value = |byte: u8| byte == b'\t' || (byte >= b' ' && byte != 0x7f);
            ensure!(
                value.bytes().all(is_value),
                "the value of {name} has a line break or another control character"
            );
            if OF_CONNECTION.contains(&&*name.to_ascii_lowercase()) {
                bail!(
                    "{name} follows from the request and is not given as a field; `--no-keepalive` closes connections"
                );
            }
            if name.eq_ignore_ascii_case("host") {
                value.clone_into(&mut fields.authority);
            } else {
                fields.lines.push((name.to_owned(), value.to_owned()));
            }
        }
        for (name, value) in [("User-Agent", "weir-lab"), ("Accept", "*/*")] {
            if !fields.lines.iter().any(|(given, _)| given.eq_ignore_ascii_case(name)) {
                fields.lines.push((name.to_owned(), value.to_owned()));
            }
        }
        Ok(fields)
    }
}

/// Whether it is the method of requests.
///
/// # Errors
/// When it is not, or one whose answer is no answer.
pub fn check_method(method: &str) -> anyhow::Result<()> {
    let is_method =
        !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-');
    ensure!(is_method, "`{method}` is no method: such as GET or POST");
    ensure!(method != "CONNECT", "CONNECT opens tunnels, which the lab does not play here");
    Ok(())
}

/// Whether it is the path of a request.
///
/// # Errors
/// When it is not.
pub fn check_path(path: &str) -> anyhow::Result<()> {
    ensure!(path.starts_with('/'), "`{path}` is no path: it begins with `/`");
    ensure!(
        path.bytes().all(|byte| byte.is_ascii_graphic()),
        "`{path}`: percent-encode spaces and what is not ASCII"
    );
    Ok(())
}

/// Whether a request with this method may be sent again on another connection (RFC 9110, section 9.2.2).
pub fn is_repeatable(method: &str) -> bool {
    matches!(method, "GET" | "HEAD" | "OPTIONS" | "PUT" | "DELETE" | "TRACE")
}

#[cfg(test)]
mod tests {
    use super::{GivenFields, check_method, check_path};

    #[test]
    fn fields_of_the_user_come_first_and_host_is_the_authority() {
        let given = ["Host: shop.example", "user-agent: me", "X-A:b:c"].map(str::to_owned);
        let fields = GivenFields::read("127.0.0.1:1", &given).unwrap();
        assert_eq!(fields.authority, "shop.example");
        let lines: Vec<String> = fields.lines.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(lines, ["user-agent=me", "X-A=b:c", "Accept=*/*"]);
    }

    #[test]
    fn what_would_change_the_framing_is_refused() {
        for wrong in [
            "Content-Length: 3",
            "transfer-encoding: chunked",
            "Connection: close",
            "a b: c",
            "x",
            "A: b\r\nC: d",
        ] {
            assert!(GivenFields::read("a", &[wrong.to_owned()]).is_err(), "{wrong}");
        }
        assert!(
            check_method("get").is_err() && check_method("CONNECT").is_err() && check_method("PATCH").is_ok()
        );
        assert!(check_path("a").is_err() && check_path("/a b").is_err() && check_path("/a?b=c").is_ok());
    }
}
