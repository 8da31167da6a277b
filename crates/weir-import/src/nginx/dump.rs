//! What `nginx -T` prints: all files of a config in one.

use std::collections::BTreeMap;
use std::io;

use crate::source::{ResultFault, SourceFiles};

/// What `nginx -T` writes before each file.
const HEADER: &str = "# configuration file ";

/// The files in what `nginx -T` has printed.
pub(super) struct NginxDump<'f> {
    outer: &'f dyn SourceFiles,
    files: BTreeMap<String, String>,
    pub(super) first: String,
}

impl<'f> NginxDump<'f> {
    /// The files of a text, if it is such a dump.
    pub(super) fn read(text: &str, outer: &'f dyn SourceFiles) -> Option<Self> {
        let mut files: BTreeMap<String, String> = BTreeMap::new();
        let mut first = None;
        let mut current: Option<String> = None;
        for line in text.split_inclusive('\n') {
            let name = line.trim_end().strip_prefix(HEADER).and_then(|rest| rest.strip_suffix(':'));
            match (name, &current) {
                (Some(name), _) => {
                    first.get_or_insert_with(|| name.to_owned());
                    current = Some(name.to_owned());
                    files.entry(name.to_owned()).or_default();
                }
                (None, Some(name)) => files.entry(name.clone()).or_default().push_str(line),
                (None, None) if line.trim().is_empty() || line.starts_with("nginx: ") => {}
                // Something else comes first: a file that only mentions such a header.
                (None, None) => return None,
            }
        }
        Some(NginxDump { outer, files, first: first? })
    }
}

impl SourceFiles for NginxDump<'_> {
    fn read(&self, path: &str) -> io::Result<String> {
        let missing =
            || io::Error::new(io::ErrorKind::NotFound, "it is not among the files that were printed");
        self.files.get(path).cloned().ok_or_else(missing)
    }

    fn matching(&self, pattern: &str) -> Vec<String> {
        self.files.keys().filter(|name| fits(pattern.as_bytes(), name.as_bytes())).cloned().collect()
    }

    fn variable(&self, name: &str) -> Option<String> {
        self.outer.variable(name)
    }

    fn faults(&self, toml: &str) -> Vec<ResultFault> {
        self.outer.faults(toml)
    }
}

/// A pattern of a shell: `*` and `?` stand for no slash, `[...]` is taken for any character.
fn fits(pattern: &[u8], name: &[u8]) -> bool {
    // Where to go on after the last `*`: in the pattern, in the name.
    let mut retry: Option<(usize, usize)> = None;
    let (mut at, mut in_name) = (0, 0);
    loop {
        let step = match (pattern.get(at), name.get(in_name)) {
            (None, None) => return true,
            (Some(b'*'), _) => {
                retry = Some((at + 1, in_name));
                at += 1;
                continue;
            }
            (Some(b'?'), Some(c)) if *c != b'/' => Some(1),
            (Some(b'['), Some(c)) if *c != b'/' => {
                pattern[at..].iter().position(|c| *c == b']').map(|length| length + 1)
            }
            (Some(a), Some(b)) if a == b => Some(1),
            _ => None,
        };
        match (step, retry) {
            (Some(length), _) => (at, in_name) = (at + length, in_name + 1),
            (None, Some((after, from))) if name.get(from).is_some_and(|c| *c != b'/') => {
                retry = Some((after, from + 1));
                (at, in_name) = (after, from + 1);
            }
            (None, _) => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_those_of_a_shell() {
        for (pattern, name, expected) in [
            ("/etc/nginx/conf.d/*.conf", "/etc/nginx/conf.d/a.conf", true),
            ("/etc/nginx/conf.d/*.conf", "/etc/nginx/conf.d/b/a.conf", false),
            ("/etc/nginx/*/a.conf", "/etc/nginx/b/a.conf", true),
            ("/a/[ab]?.conf", "/a/ax.conf", true),
            ("*a*b", "xaxxb", true),
            ("*a*b", "xaxxc", false),
        ] {
            assert_eq!(fits(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
        }
    }
}
