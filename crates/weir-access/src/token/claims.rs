//! What a token says: its claims as text, and the times within which it is valid.

use std::fmt;

use serde_json::{Map, Value};

/// Claims of one token that are kept, those of objects in it included.
const CLAIMS_MAX: usize = 256;

/// How deep objects are looked into.
const DEPTH_MAX: usize = 4;

/// The claims of a token.
#[derive(Clone, PartialEq)]
pub struct Claims {
    all: Vec<Claim>,
    expires: Option<f64>,
    not_before: Option<f64>,
}

impl fmt::Debug for Claims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Claims(..)")
    }
}

#[derive(Clone, PartialEq)]
struct Claim {
    name: Box<str>,
    /// Of a list its members, else the one value.
    values: Vec<Box<str>>,
    text: Box<str>,
    /// Whether it is one string and nothing else.
    is_string: bool,
}

/// Why a token is not valid at some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeProblem {
    /// It has expired, or does not say when it does.
    Expired,
    /// It is not valid yet.
    NotYet,
}

impl Claims {
    /// Takes the claims of a payload; `None` when a time is no number.
    pub(super) fn new(payload: Map<String, Value>) -> Option<Self> {
        let time = |name: &str| match payload.get(name) {
            None => Some(None),
            Some(time) => time.as_f64().map(Some),
        };
        let (expires, not_before) = (time("exp")?, time("nbf")?);
        let mut all = Vec::new();
        flatten(&mut all, "", payload, DEPTH_MAX);
        Some(Self { all, expires, not_before })
    }

    fn find(&self, name: &str) -> Option<&Claim> {
        self.all.iter().find(|claim| *claim.name == *name)
    }

    /// A claim as text: `sub`, or `realm_access.roles` for one of an object. Members of a list have commas between them.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.find(name).map(|claim| &*claim.text)
    }

    /// A claim that is one string.
    pub fn string(&self, name: &str) -> Option<&str> {
        self.find(name).filter(|claim| claim.is_string).map(|claim| &*claim.text)
    }

    /// Whether a claim, or a member of it, is one of these values.
    pub fn has_one_of<S: AsRef<str>>(&self, name: &str, values: &[S]) -> bool {
        let claim = self.find(name);
        claim.is_some_and(|claim| {
            claim.values.iter().any(|value| values.iter().any(|wanted| wanted.as_ref() == &**value))
        })
    }

    /// Whether it has a scope: in `scope`, whose scopes have spaces between them, or in `scp`.
    pub fn has_scope(&self, scope: &str) -> bool {
        ["scope", "scp"]
            .into_iter()
            .filter_map(|name| self.find(name))
            .any(|claim| claim.values.iter().flat_map(|value| value.split(' ')).any(|one| one == scope))
    }

    /// Seconds since 1970 at which it expires, if it says so.
    pub fn expires(&self) -> Option<f64> {
        self.expires
    }

    /// Checks the times at `now`, in seconds since 1970, with some leeway for clocks that differ.
    ///
    /// # Errors
    /// Why it is not valid.
    pub fn check_time(&self, now: f64, leeway: f64, must_expire: bool) -> Result<(), TimeProblem> {
        match self.expires {
            Some(expires) if now >= expires + leeway => return Err(TimeProblem::Expired),
            None if must_expire => return Err(TimeProblem::Expired),
            _ => {}
        }
        let is_early = self.not_before.is_some_and(|from| now + leeway < from);
        if is_early { Err(TimeProblem::NotYet) } else { Ok(()) }
    }

    /// About how many bytes it takes.
    pub fn bytes(&self) -> usize {
        let of_claim = |claim: &Claim| {
            let values: usize = claim.values.iter().map(|value| value.len() + size_of::<Box<str>>()).sum();
            size_of::<Claim>() + claim.name.len() + claim.text.len() + values
        };
        self.all.iter().map(of_claim).sum()
    }
}

fn flatten(all: &mut Vec<Claim>, prefix: &str, object: Map<String, Value>, depth: usize) {
    for (name, value) in object {
        if all.len() >= CLAIMS_MAX {
            return;
        }
        let name = if prefix.is_empty() { name } else { format!("{prefix}.{name}") };
        let is_string = value.is_string();
        let values = match value {
            Value::Object(inner) if depth > 1 => {
                flatten(all, &name, inner, depth - 1);
                continue;
            }
            Value::Array(members) => members.into_iter().filter_map(scalar).collect(),
            value => scalar(value).into_iter().collect::<Vec<_>>(),
        };
        if !values.is_empty() {
            all.push(Claim { name: name.into(), text: values.join(",").into(), values, is_string });
        }
    }
}

fn scalar(value: Value) -> Option<Box<str>> {
    match value {
        Value::String(text) => Some(text.into()),
        Value::Number(number) => Some(number.to_string().into()),
        Value::Bool(word) => Some(word.to_string().into()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims(text: &str) -> Option<Claims> {
        Claims::new(serde_json::from_str(text).unwrap())
    }

    #[test]
    fn claims_are_text() {
        let claims = claims(
            r#"{"sub": "ann", "n": 7, "ok": true, "none": null, "list": ["a", 1, {"x": 1}], "empty": [],
                "realm_access": {"roles": ["r1", "r2"], "a": {"b": {"c": {"d": 1}}}}, "https://x.test/id": "9"}"#,
        )
        .unwrap();
        for (name, expected) in [
            ("sub", Some("ann")),
            ("n", Some("7")),
            ("ok", Some("true")),
            ("none", None),
            ("list", Some("a,1")),
            ("empty", None),
            ("realm_access", None),
            ("realm_access.roles", Some("r1,r2")),
            ("realm_access.a.b.c", None),
            ("https://x.test/id", Some("9")),
            ("", None),
        ] {
            assert_eq!(claims.text(name), expected, "{name}");
        }
        assert!(
            claims.has_one_of("realm_access.roles", &["x", "r2"]) && !claims.has_one_of("list", &["a,1"])
        );
        assert!(!claims.has_one_of("nothing", &[""]));
    }

    #[test]
    fn a_string_is_no_list_of_one() {
        let claims = claims(r#"{"iss":"a","list":["a"],"number":1,"object":{"iss":"b"}}"#).unwrap();
        let strings = ["iss", "list", "number", "object.iss", "none"].map(|name| claims.string(name));
        assert_eq!(strings, [Some("a"), None, None, Some("b"), None]);
    }

    #[test]
    fn scopes() {
        for (text, read, write) in [
            (r#"{"scope": "read write"}"#, true, true),
            (r#"{"scp": ["read", "x"]}"#, true, false),
            (r#"{"scope": "reader"}"#, false, false),
            ("{}", false, false),
        ] {
            let claims = claims(text).unwrap();
            assert_eq!((claims.has_scope("read"), claims.has_scope("write")), (read, write), "{text}");
        }
    }

    #[test]
    fn times() {
        for (text, now, must_expire, expected) in [
            (r#"{"exp": 100}"#, 99.0, true, Ok(())),
            (r#"{"exp": 100}"#, 104.9, true, Ok(())),
            (r#"{"exp": 100}"#, 105.0, true, Err(TimeProblem::Expired)),
            (r#"{"exp": 100.5}"#, 105.4, true, Ok(())),
            ("{}", 1.0, true, Err(TimeProblem::Expired)),
            ("{}", 1.0, false, Ok(())),
            (r#"{"exp": 200, "nbf": 100}"#, 94.9, true, Err(TimeProblem::NotYet)),
            (r#"{"exp": 200, "nbf": 100}"#, 95.0, true, Ok(())),
            (r#"{"exp": -1}"#, 50.0, false, Err(TimeProblem::Expired)),
            (r#"{"exp": 1e300}"#, 50.0, false, Ok(())),
        ] {
            assert_eq!(claims(text).unwrap().check_time(now, 5.0, must_expire), expected, "{text} {now}");
        }
        for text in [r#"{"exp": "100"}"#, r#"{"exp": null}"#, r#"{"nbf": [1]}"#, r#"{"nbf": true}"#] {
            assert_eq!(claims(text), None, "{text}");
        }
    }

    #[test]
    fn many_claims_are_bounded() {
        let many: Vec<String> = (0..1000).map(|number| format!("\"c{number}\": 1")).collect();
        let claims = claims(&format!("{{{}}}", many.join(","))).unwrap();
        assert_eq!(claims.all.len(), CLAIMS_MAX);
        assert!(claims.bytes() > CLAIMS_MAX);
    }
}
