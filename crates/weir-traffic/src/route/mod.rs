//! Which route a request takes: of all routes that match it, the most specific.
//!
//! The order, each step deciding only where all before it are equal:
//!
//! 1. host: exact name, then the longest wildcard, then any host;
//! 2. path: exact, then the longest prefix if it goes before regexes (nginx's `^~`), then regex, then the longest prefix, then any path;
//! 3. a rule on the method before none;
//! 4. more rules on header fields;
//! 5. more rules on query parameters;
//! 6. the longest network that the client's address is in;
//! 7. a condition before none;
//! 8. the higher `priority`, which exists for what 1 to 7 leave open (two regexes, say).
//!
//! Steps 1 to 5 are those of the Kubernetes Gateway API, with regexes where nginx has them: before prefixes.
//! Two routes that are equal in all eight and that one request could both match are a [`Tie`], a mistake in
//! the config: order of writing decides between two different conditions, which cannot be compared, and nowhere else. A route of a less specific host does take a request that none
//! of the more specific host's routes match. Only a request with several fields or parameters of one name can match two routes that no other
//! request can: it takes the first.
//!
//! A table in the order of the routes ([`RouteTable::in_order`]) has none of this: the first that matches takes the request, as HAProxy has it.

mod explain;
mod table;
mod ties;
mod bucket;
mod needed_texts;
mod patterns;
mod entry;
mod specificity;
mod tie;
mod overlap;
mod host;
mod path;
mod field;
mod bounded;
mod pattern;
mod literal;
mod text_map;
mod request;

pub use bounded::{BoundedRegexError, BoundedRegexes, HeldRegexes, RegexCache};
pub use explain::{Considered, RouteOutcome};
pub use field::{FieldError, FieldMatch, QueryMatch, ValueMatch};
pub use host::{HostError, HostPattern};
pub use needed_texts::{NeededTest, NeededText};
pub use path::{PathError, PathMatch};
pub use pattern::{Captures, RouteRegex};
pub use request::{RouteRequest, decoded_parameter, query_value, query_values};
pub use table::RouteTable;
pub use tie::Tie;

pub(crate) use field::is_token;
pub(crate) use path::{check_path, has_prefix};

use std::fmt;

use ipnet::IpNet;

/// The caller's name for a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RouteId(pub u32);

impl RouteId {
    /// The name as an index into a slice.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Which requests a route takes: all parts have to match; an empty list does not restrict.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RouteMatch {
    /// One of these hosts.
    pub hosts: Vec<HostPattern>,
    /// This path.
    pub path: PathMatch,
    /// One of these methods.
    pub methods: Vec<MethodMatch>,
    /// All of these header fields.
    pub headers: Vec<FieldMatch>,
    /// All of these query parameters.
    pub query: Vec<QueryMatch>,
    /// A client address in one of these networks.
    pub sources: Vec<IpNet>,
    /// The text of a condition that has to hold: [`RouteRequest::condition_holds`].
    pub condition: Option<Box<str>>,
    /// Decides between routes that are otherwise equally specific; the higher goes first.
    pub priority: i32,
    /// Whether the prefix goes before regexes where it is the longest that matches.
    pub before_regex: bool,
    /// Goes before all of these but host and path, where what was read has an order of its own: the higher goes first. Files have no key for it.
    pub precedence: i32,
}

/// The conditions of the route, in the order in which routes are compared: `host a.test, path prefix /api/`, or `every request`.
impl fmt::Display for RouteMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rules = Vec::new();
        if !self.hosts.is_empty() {
            rules.push(format!("host {}", either(&self.hosts)));
        }
        if self.path != PathMatch::ANY {
            rules.push(format!("path {}", self.path));
        }
        if self.before_regex {
            rules.push("before regular expressions".to_owned());
        }
        if !self.methods.is_empty() {
            let methods: Vec<_> = self.methods.iter().map(MethodMatch::as_str).collect();
            rules.push(format!("method {}", methods.join(" or ")));
        }
        rules.extend(self.headers.iter().map(|rule| format!("header {} {}", rule.name(), rule.value())));
        let query = self.query.iter();
        rules.extend(query.map(|rule| format!("query parameter {} {}", rule.name(), rule.value())));
        if !self.sources.is_empty() {
            rules.push(format!("source {}", either(&self.sources)));
        }
        rules.extend(self.condition.iter().map(|text| format!("when {text}")));
        if self.priority != 0 {
            rules.push(format!("priority {}", self.priority));
        }
        if rules.is_empty() { f.write_str("every request") } else { f.write_str(&rules.join(", ")) }
    }
}

fn either<T: ToString>(items: &[T]) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join(" or ")
}

/// A request method, in upper case.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MethodMatch(Box<str>);

/// A text that is not a method: it has to be a token (RFC 9110 section 9.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a method is a word of letters, such as GET")]
pub struct MethodError;

impl MethodMatch {
    /// Reads a method; `get` is taken as `GET`, since no method with small letters is in use.
    ///
    /// # Errors
    /// When the text is not a token.
    pub fn parse(text: &str) -> Result<MethodMatch, MethodError> {
        if !is_token(text) {
            return Err(MethodError);
        }
        Ok(MethodMatch(text.to_ascii_uppercase().into()))
    }

    /// The method as in a request.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests;
