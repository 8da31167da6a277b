//! `files` of a route in the text.

use std::time::Duration;

use crate::config::{FileEncoding, FilesFallback, SymlinkRule};
use crate::key::{Map, NonEmpty, OneOrMany, Spanned, TextFormat, section, text_values};
use crate::value::{HeaderTemplate, HeaderValue, Template, Token, ValueError};

section! {
    /// Files of a folder. GET and HEAD get the file that the path of the request names below `root`, with `ETag`, `Last-Modified`,
    /// conditional requests and ranges (RFC 9110 sections 13 and 14); a folder is answered with its index file. With `upstream` beside
    /// `files`, requests for which there is no file go to that upstream.
    #[derive(Debug, Clone)]
    pub(crate) struct FilesText at "listener.NAME.route.files" {
        /// Blocks whose keys hold here where they are not set beside it.
        r#use: OneOrMany<Box<str>> = optional, like "nginx `include` (of a part), HAProxy `defaults NAME`, `from`";
        /// The folder, relative to the file of the config. Nothing outside of it is ever sent. One of `root` and `alias` is needed.
        root: Spanned<Box<str>> = optional, like "nginx `root`, Caddy `root`, Apache httpd `DocumentRoot`";
        /// The folder that the `path` of the route stands for: with `path = "/img"` and `alias = "pictures"`, `/img/a.png` is `pictures/a.png`. Nothing outside of
        /// it is ever sent, `/imgx` is not below `/img`, and an `upstream` beside gets the whole path. With `path_exact`, the one file that is sent.
        alias: Spanned<Box<str>> = optional, like "nginx `alias`, Apache httpd `Alias`";
        /// Names of the file that is sent for a folder, the first that exists, with [placeholders](#placeholders). One that comes to no name of a file, such as
        /// one with a slash, is passed over.
        index: Vec<Spanned<Template>> = ["index.html"], like "nginx `index`, Apache httpd `DirectoryIndex`";
        /// The files that are tried in this order, as paths below `root`, with placeholders; `{path}` is the path of the request.
        /// `["{path}", "/index.html"]` suits an application that makes its pages in the browser.
        try_files: NonEmpty<Spanned<TriedPath>> = optional, like "nginx `try_files`, Caddy `try_files`";
        /// What follows when none of the files exists: a status as `"=404"`; a path with placeholders, whose route then gets the request, such as
        /// `"/index.php{query}"` or `"{path}.html"`; or the `name` of a route of the listener. Without it, the `upstream`, else 404.
        fallback: FilesFallback = optional, like "nginx `try_files` (its last parameter)";
        /// Whether a folder without index file is answered with a list of what is in it.
        listing: bool = false, like "nginx `autoindex`, Caddy `file_server browse`";
        /// Encodings that are looked for beside each file (`app.js.br`, `.zst`, `.gz`), for clients that accept them; the preferred one
        /// first.
        precompressed: Vec<FileEncoding> = [], like "nginx `gzip_static`, Caddy `precompressed`";
        /// Which symbolic links are followed.
        symlinks: SymlinkRule = "inside", like "nginx `disable_symlinks`, Apache httpd `FollowSymLinks`";
        /// Whether files and folders are served whose names begin with a dot, be it behind a symbolic link. `/.well-known` is in any case.
        hidden: bool = false;
        /// Media types by extension, beside the usual ones: `{ "conf" = "text/plain" }`.
        types: Map<HeaderValue> = {}, like "nginx `types`, Apache httpd `AddType`";
        /// The media type of files with any other extension.
        default_type: HeaderValue = "application/octet-stream", like "nginx `default_type`";
        /// The `charset` of text.
        charset: Option<Token> = "utf-8", like "nginx `charset`, Apache httpd `AddDefaultCharset`";
        /// Headers of the responses that are files, with [placeholders](#placeholders): 200, 206 and 304. Neither failures have them nor what the `upstream`
        /// answers; `response_headers` of the route is for all of these.
        headers: Map<HeaderTemplate> = {}, like "nginx `add_header`, `expires`";
        /// How long an open file is used before it is looked at again; a change is seen after that time at the latest.
        valid: Duration = "1s", in 0..=3_600_000, like "nginx `open_file_cache_valid`";
    }
}

/// The path of a file below the folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TriedPath(pub(crate) Template);

text_values! {
    TriedPath, parse_tried_path, |value: &TriedPath| value.0.to_string(), TextFormat {
        name: "file path",
        article: "a path below `root`",
        examples: &["{path}", "{path}.html", "/index.html"],
        pattern: r"^(\{path\}|/).*$",
        about: "A path that begins with `/` or `{path}`, with [placeholders](#placeholders); `{{` and `}}` are braces.",
    };
}

fn parse_tried_path(text: &str) -> Result<TriedPath, ValueError> {
    if let Some((at, wrong)) = text.char_indices().find(|(_, c)| c.is_control()) {
        return Err(ValueError::new(format!("{wrong:?} is not allowed in a path")).range(at..at + 1));
    }
    if text.starts_with('=') {
        let error = ValueError::new(format!("`{text}` is not a path"));
        return Err(error.help("what follows when there is no file is said by `fallback`"));
    }
    if !text.starts_with('/') && !text.starts_with("{path}") {
        let error = ValueError::new(format!("`{text}` begins with neither `/` nor `{{path}}`"));
        let help = "paths begin below `root`: write `/index.html`, or `{path}.html`";
        return Err(error.help(if text.starts_with('$') {
            "the path of the request is `{path}`"
        } else {
            help
        }));
    }
    text.parse().map(TriedPath)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_paths_are_read_and_printed() {
        for text in ["{path}", "{path}/index.html", "/index.html", "/sites/{host}{path}", "/a {{b}}"] {
            assert_eq!(parse_tried_path(text).unwrap().0.to_string(), text);
        }
        for (text, message) in [
            ("", "`` begins with neither `/` nor `{path}`"),
            ("$uri", "`$uri` begins with neither `/` nor `{path}`"),
            ("=404", "`=404` is not a path"),
            ("{host}/x", "`{host}/x` begins with neither `/` nor `{path}`"),
            ("/a\nb", "'\\n' is not allowed in a path"),
            ("/{pat}", "there is no placeholder `{pat}`"),
        ] {
            assert_eq!(
                parse_tried_path(text).map_err(|error| error.message),
                Err(message.to_owned()),
                "{text}"
            );
        }
    }
}
