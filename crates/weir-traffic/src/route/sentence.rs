//! What a route asks for, in words.

use super::{PathMatch, RouteMatch};

impl RouteMatch {
    /// Everything it asks for, in the order in which routes are compared: `host example.com, path /api/*`.
    pub fn sentence(&self) -> String {
        let mut rules = Vec::new();
        if !self.hosts.is_empty() {
            rules.push(format!("host {}", list(&self.hosts)));
        }
        if self.path != PathMatch::ANY {
            rules.push(format!("path {}", self.path));
        }
        if !self.methods.is_empty() {
            let methods: Vec<&str> = self.methods.iter().map(|method| method.as_str()).collect();
            rules.push(format!("method {}", methods.join(" or ")));
        }
        rules.extend(self.headers.iter().map(|rule| format!("header {} {}", rule.name(), rule.value())));
        rules.extend(
            self.query.iter().map(|rule| format!("query parameter {} {}", rule.name(), rule.value())),
        );
        if !self.sources.is_empty() {
            rules.push(format!("source {}", list(&self.sources)));
        }
        if self.priority != 0 {
            rules.push(format!("priority {}", self.priority));
        }
        if rules.is_empty() { "every request".to_owned() } else { rules.join(", ") }
    }
}

fn list<T: ToString>(items: &[T]) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join(" or ")
}
