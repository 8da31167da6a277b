//! `fastcgi` of a route in the text.

use crate::key::{Map, Spanned, TextFormat, section, text_values};
use crate::value::{HeaderTemplate, ValueError};

section! {
    /// FastCGI parameters of requests to an upstream with `protocol = "fastcgi"`. The script is determined by the path of the request, or
    /// by `try_files` of `files` beside it; a script is run and never sent as a file. Servers get the parameters of CGI (RFC 3875), those
    /// that PHP programs expect in addition, and the fields of the request as `HTTP_NAME`.
    #[derive(Debug, Clone)]
    pub(crate) struct FastcgiText at "listener.NAME.route.fastcgi" {
        /// The folder of the scripts as the servers see it: `DOCUMENT_ROOT`. Without it, `root` of `files`.
        root: Spanned<Box<str>> = optional, like "nginx `root`, HAProxy `docroot`, Caddy `root`";
        /// The script of a folder, where `files` does not say it.
        index: Box<str> = "index.php", like "nginx `fastcgi_index`, HAProxy `index`, Caddy `index`";
        /// The script of requests that name none, such as `"/index.php"`: a front controller. `""` is for an application without scripts,
        /// which gets the whole path as `PATH_INFO`. Without it, such requests are answered 404.
        script: Spanned<ScriptPath> = optional, like "nginx `try_files`, Caddy `try_files`";
        /// How the names of scripts end. What follows in the path is `PATH_INFO`.
        split_path: Vec<Spanned<Box<str>>> = [".php"], like "nginx `fastcgi_split_path_info`, HAProxy `path-info`, Caddy `split`";
        /// Whether a script has to be a file in the folder, as this machine sees it, before a server is asked for it. Switch it off where
        /// the scripts are on another machine, and see to it that the servers run no other files.
        check_script: bool = true, like "nginx `try_files $fastcgi_script_name =404`";
        /// Further parameters, or other values of those that Weir sends.
        params: Map<HeaderTemplate> = {}, like "nginx `fastcgi_param`, HAProxy `set-param`, Caddy `env`";
        /// Texts such as `"PHP Fatal error"`: when a program has written one of them to its error stream before its response, the attempt has failed, and
        /// `retry`, `error_pages` and outlier detection act. The first 4 KiB of the error stream are searched.
        catch_stderr: Vec<Spanned<Box<str>>> = [], like "nginx `fastcgi_catch_stderr`";
    }
}

/// The path of a script, or nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScriptPath(pub(crate) Box<str>);

text_values! {
    ScriptPath, parse_script, |value: &ScriptPath| value.0.clone(), TextFormat {
        name: "path of a script",
        article: "the path of a script",
        examples: &["/index.php", ""],
        pattern: r"^(/.+)?$",
        about: "A path below the folder of the scripts that begins with `/`; empty for an application without scripts.",
    };
}

fn parse_script(text: &str) -> Result<ScriptPath, ValueError> {
    let is_path = text.starts_with('/') && !text.ends_with('/');
    if !text.is_empty() && !is_path {
        let error = ValueError::new(format!("`{text}` is not the path of a script"));
        return Err(error.help("it begins with `/`: write `/index.php`"));
    }
    match text.chars().any(char::is_control) || text.split('/').any(|name| name == "..") {
        true => Err(ValueError::new(format!("{text:?} is not the path of a script"))),
        false => Ok(ScriptPath(text.into())),
    }
}
