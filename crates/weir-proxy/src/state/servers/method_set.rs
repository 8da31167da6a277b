//! A set of request methods, such as those that may be repeated.

use weir_http::Method;

/// A set of request methods.
#[derive(Debug)]
pub(crate) struct MethodSet {
    /// One bit for each that has a number.
    known: u16,
    others: Box<[Box<str>]>,
}

impl MethodSet {
    pub(crate) fn new<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let (mut known, mut others) = (0, Vec::new());
        for name in names {
            match Method::recognise(name.as_bytes()) {
                Method::Other => others.push(name.into()),
                method => known |= 1 << method as u16,
            }
        }
        Self { known, others: others.into() }
    }

    /// Whether a method is in the set; `name` is how the request has it.
    pub(crate) fn contains(&self, method: Method, name: &[u8]) -> bool {
        match method {
            Method::Other => self.others.iter().any(|other| other.as_bytes() == name),
            method => self.known >> method as u16 & 1 != 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_are_known_by_number_or_by_name() {
        let set = MethodSet::new(["GET", "PUT", "PURGE"].into_iter());
        let contains = |name: &str| set.contains(Method::recognise(name.as_bytes()), name.as_bytes());
        for (name, expected) in [
            ("GET", true),
            ("PUT", true),
            ("POST", false),
            ("PURGE", true),
            ("LOCK", false),
            ("purge", false),
        ] {
            assert_eq!(contains(name), expected, "{name}");
        }
    }
}
