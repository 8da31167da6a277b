//! The script that a request names, for a server of FastCGI.

use crate::responder::files::path::FilePath;

/// The script that a request names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CgiScript {
    /// Its path below the folder, decoded, with a slash before it.
    pub(crate) path: Vec<u8>,
    /// What follows in the path of the request, decoded, with a slash before it; or nothing.
    pub(crate) path_info: Vec<u8>,
}

impl CgiScript {
    /// The script that is the first `len` bytes of a path.
    pub(in crate::exchange) fn in_path(path: &FilePath, len: usize) -> Self {
        let (script, rest) = path.relative.split_at(len);
        let slash = if path.is_folder { &b"/"[..] } else { b"" };
        Self { path: [b"/", script].concat(), path_info: [rest, slash].concat() }
    }
}
