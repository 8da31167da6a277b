//! `fastcgi` of a route: which script a request names, and what servers of FastCGI are told besides.

use std::path::PathBuf;
use std::sync::Arc;

use crate::value::Template;

/// How requests become requests of FastCGI.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FastcgiSettings {
    /// The folder of the scripts as the servers see it; `None`: an application without scripts.
    pub root: Option<PathBuf>,
    /// The folder in which a script has to exist before a server is asked for it; `None`: it is not looked up.
    pub checked_in: Option<PathBuf>,
    /// The script of a folder.
    pub index: Box<str>,
    /// The script of requests that name none; empty: none is named to the server. `None`: they are answered 404.
    pub script: Option<Box<str>>,
    /// How the names of scripts end, in lower case.
    pub split_path: Vec<Box<str>>,
    /// Further parameters.
    pub params: Vec<(Box<str>, Template)>,
    /// Texts of the error stream that make a failure of a response.
    pub caught: Option<Arc<[Box<str>]>>,
}

impl FastcgiSettings {
    /// Where the first script in `path` ends: at its end or before a slash. `None` when there is none.
    pub fn script_len(&self, path: &[u8]) -> Option<usize> {
        let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        slashes.chain(std::iter::once(path.len())).find(|len| self.is_script(&path[..*len]))
    }

    /// Whether a path is that of a script, by the end of its name.
    pub fn is_script(&self, path: &[u8]) -> bool {
        self.split_path.iter().any(|end| {
            let start = path.len().checked_sub(end.len());
            start.is_some_and(|start| path[start..].eq_ignore_ascii_case(end.as_bytes()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_split_behind_the_first_script() {
        let settings = FastcgiSettings {
            root: None,
            checked_in: None,
            index: "index.php".into(),
            script: None,
            split_path: vec![".php".into(), ".cgi".into()],
            params: Vec::new(),
            caught: None,
        };
        for (path, script) in [
            ("index.php", Some("index.php")),
            ("index.php/a/b", Some("index.php")),
            ("a/x.PHP/y.php", Some("a/x.PHP")),
            ("a.php.txt/x.php", Some("a.php.txt/x.php")),
            ("upload/image.jpg/x.php", Some("upload/image.jpg/x.php")),
            ("b/run.cgi/c", Some("b/run.cgi")),
            (".php", Some(".php")),
            ("a.phps", None),
            ("a", None),
            ("", None),
        ] {
            let found = settings.script_len(path.as_bytes()).map(|len| &path[..len]);
            assert_eq!(found, script, "{path}");
        }
    }
}
