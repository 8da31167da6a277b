//! `files`: responses from the files of a folder.

use std::path::{Path, PathBuf};
use std::time::Duration;

use weir_traffic::rewrite::Rewrite;

use crate::config::{FilesFallback, UpstreamIndex};
use crate::key::choice;
use crate::value::{HeaderName, HeaderTemplate, HeaderValue, Template};

/// The files that a route serves.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StaticFiles {
    /// The folder.
    pub root: PathBuf,
    /// What makes the path below the folder of that of a request: `None`: that of the route makes both the same.
    pub alias: Option<Rewrite>,
    /// Names of the file that stands for its folder, the first that exists.
    pub index: Vec<Template>,
    /// The files that are tried, as paths below the folder; the first that exists is the response.
    pub try_files: Vec<Template>,
    /// Whether a folder without such a file is listed.
    pub listing: bool,
    /// Encodings of which a file beside the one that is asked for is sent instead, the preferred one first.
    pub precompressed: Vec<FileEncoding>,
    /// Which symbolic links are followed.
    pub symlinks: SymlinkRule,
    /// Whether names that begin with a dot are served.
    pub hidden: bool,
    /// Media types by extension, beside the usual ones.
    pub types: Vec<(Box<str>, HeaderValue)>,
    /// The media type of other extensions.
    pub default_type: HeaderValue,
    /// What `charset` says for text; `None`: nothing.
    pub charset: Option<Box<str>>,
    /// Headers of the responses that are files.
    pub headers: Vec<(HeaderName, HeaderTemplate)>,
    /// How long what is known of a file holds before it is looked at again.
    pub valid: Duration,
    /// The upstream of requests for which there is no file.
    pub otherwise: Option<UpstreamIndex>,
    /// What follows for them without an upstream; `None`: 404.
    pub fallback: Option<FilesFallback>,
}

impl StaticFiles {
    /// A folder of scripts, of which no file is sent.
    pub fn of_scripts(root: &Path, index: &str) -> Self {
        Self {
            root: root.to_owned(),
            index: vec![Template::of_literal(index)],
            try_files: vec!["{path}".parse().unwrap_or_default()],
            listing: false,
            precompressed: Vec::new(),
            symlinks: SymlinkRule::Inside,
            hidden: false,
            types: Vec::new(),
            default_type: "application/octet-stream".parse().expect("it is a value"),
            charset: None,
            headers: Vec::new(),
            valid: Duration::from_secs(1),
            otherwise: None,
            alias: None,
            fallback: None,
        }
    }
}

choice! {
    /// A compressed form of a file beside it.
    pub enum FileEncoding {
        /// Brotli, in `NAME.br`.
        #[default]
        Brotli = "br",
        /// Zstandard, in `NAME.zst`.
        Zstd = "zstd",
        /// Gzip, in `NAME.gz`.
        Gzip = "gzip",
    }
}

impl FileEncoding {
    /// What its files have behind the name.
    pub const fn suffix(self) -> &'static str {
        match self {
            FileEncoding::Brotli => ".br",
            FileEncoding::Zstd => ".zst",
            FileEncoding::Gzip => ".gz",
        }
    }
}

choice! {
    /// Which symbolic links are followed. None ever leads out of the folder.
    pub enum SymlinkRule {
        /// Those that lead to something inside the folder.
        #[default]
        Inside = "inside",
        /// None: what lies behind one is not there.
        Never = "never",
    }
}
