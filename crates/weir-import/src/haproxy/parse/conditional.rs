//! Blocks of lines under a condition: `.if`, `.elif`, `.else`, `.endif`.

/// The version that `version_atleast` is asked about: the newest one with long-term support.
const VERSION: [u32; 2] = [3, 2];

/// Whether a condition of `.if` holds; nothing where it is not understood.
pub(super) fn holds(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Option<bool> {
    let mut reading = IfCondition { rest: text.trim(), variable, depth: 0 };
    let value = reading.any()?;
    reading.rest.trim().is_empty().then_some(value)
}

struct IfCondition<'c> {
    rest: &'c str,
    variable: &'c dyn Fn(&str) -> Option<String>,
    depth: u32,
}

impl IfCondition<'_> {
    fn any(&mut self) -> Option<bool> {
        let mut value = self.all()?;
        while self.sign("||") {
            value |= self.all()?;
        }
        Some(value)
    }

    fn all(&mut self) -> Option<bool> {
        let mut value = self.one()?;
        while self.sign("&&") {
            value &= self.one()?;
        }
        Some(value)
    }

    fn one(&mut self) -> Option<bool> {
        self.depth += 1;
        if self.depth > 64 {
            return None;
        }
        if self.sign("!") {
            return self.one().map(|value| !value);
        }
        if self.sign("(") {
            let value = self.any()?;
            return self.sign(")").then_some(value);
        }
        self.rest = self.rest.trim_start();
        let length =
            self.rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(length);
        self.rest = rest;
        if let Ok(number) = name.parse::<i64>() {
            return Some(number != 0);
        }
        if name.is_empty() {
            return self.rest.is_empty().then_some(false);
        }
        let arguments = self.rest.strip_prefix('(')?;
        let end = arguments.find(')')?;
        self.rest = &arguments[end + 1..];
        self.predicate(name, &arguments[..end])
    }

    fn predicate(&self, name: &str, arguments: &str) -> Option<bool> {
        let arguments: Vec<&str> =
            arguments.split(',').map(|word| word.trim().trim_matches(['"', '\''])).collect();
        match (name, arguments.as_slice()) {
            ("defined", [name]) => Some((self.variable)(name).is_some()),
            ("streq", [one, other]) => Some(one == other),
            ("strneq", [one, other]) => Some(one != other),
            ("strstr", [text, part]) => Some(text.contains(part)),
            ("version_atleast", [version]) => Some(VERSION >= version_of(version)?),
            ("version_before", [version]) => Some(VERSION < version_of(version)?),
            ("feature", [_]) => Some(true),
            _ => None,
        }
    }

    fn sign(&mut self, sign: &str) -> bool {
        let rest = self.rest.trim_start();
        let found = rest.strip_prefix(sign);
        self.rest = found.unwrap_or(rest);
        found.is_some()
    }
}

fn version_of(text: &str) -> Option<[u32; 2]> {
    let mut parts = text.split(['.', '-']);
    Some([parts.next()?.parse().ok()?, parts.next().unwrap_or("0").parse().ok()?])
}

#[cfg(test)]
mod tests {
    use super::holds;

    #[test]
    fn predicates_and_signs() {
        let variable = |name: &str| (name == "A").then(String::new);
        for (text, expected) in [
            ("defined(A)", Some(true)),
            ("!defined(A) || defined(B)", Some(false)),
            ("streq(a,a) && version_atleast(2.6)", Some(true)),
            ("version_before(2.6.1)", Some(false)),
            ("(0 || 1) && strneq(\"x\",y)", Some(true)),
            ("", Some(false)),
            ("enabled(POLL)", None),
            ("defined(A) defined(B)", None),
        ] {
            assert_eq!(holds(text, &variable), expected, "{text}");
        }
    }
}
