//! Scripts below an `alias`: their files are named to the server, since no path of a request names them below a folder.

use super::super::regexes::escaped;
use super::super::scope::{NginxVariable, Scope};
use super::super::variables;
use crate::document::DraftTable;
use crate::source::Statement;

/// Variables that an `alias` decides.
pub(super) const VARIABLES: [&str; 3] = ["$document_root", "$realpath_root", "$request_filename"];

/// Where the files of a place below an `alias` are.
pub(super) struct AliasFiles<'s> {
    /// The place in which nginx's variables stand for the files.
    pub(super) scope: Scope<'s>,
    /// The folder that is sure.
    pub(super) folder: String,
    pub(super) difference: Option<&'static str>,
}

/// The files, if the name of a script has the folder of an `alias`.
///
/// # Errors
/// What to do instead.
pub(super) fn files<'s>(scope: &Scope<'s>) -> Result<Option<AliasFiles<'s>>, String> {
    let Some(alias) = scope.innermost(&["root", "alias"]).filter(|one| one.name() == "alias") else {
        return Ok(None);
    };
    let asks = |one: &&Statement| {
        let words: Vec<&str> = one.words.iter().skip(1).map(|word| word.text.as_str()).collect();
        matches!(words.as_slice(), ["SCRIPT_FILENAME", value, ..]
            if VARIABLES.iter().any(|name| value.contains(name)))
    };
    if !scope.all("fastcgi_param").iter().any(asks) {
        return Ok(None);
    }
    let advice = "scripts below this `alias` are not found by their paths: write `root`, and a `rewrite` for the part of the path that is no folder";
    let splits = scope.one("fastcgi_split_path_info").is_some() || scope.is_rewritten;
    let Some(location) = location_of(scope.server(), scope.level_of(alias)).filter(|_| !splits) else {
        return Err(advice.to_owned());
    };
    let text = scope.words(alias).text().unwrap_or_default();
    let folder = variables::template(scope, text).map_err(|unknown| unknown.advice)?;
    let words: Vec<&str> = location.words.iter().skip(1).map(|word| word.text.as_str()).collect();
    let mut inner = scope.clone();
    let mut difference = None;
    let file = match words.as_slice() {
        // The whole file is in the `alias`.
        ["~" | "~*", _] if scope.own("alias").iter().any(|own| own.id == alias.id) => {
            if folder.contains("{match.") {
                difference =
                    Some("characters that are percent-encoded in the path are so in the name of the file");
            }
            folder.clone()
        }
        ["^~", prefix] | [prefix] if prefix.starts_with('/') && !folder.contains('{') => {
            if !prefix.ends_with('/') {
                difference = Some("a path that ends right behind that of the location names no script");
            }
            format!("{folder}{{map.{}}}", rest_of_path(scope, prefix))
        }
        _ => return Err(advice.to_owned()),
    };
    inner.define("request_filename", NginxVariable::Text(file));
    inner.define("document_root", NginxVariable::Text(folder.clone()));
    inner.define("realpath_root", NginxVariable::Text(folder.clone()));
    inner.define("fastcgi_script_name", NginxVariable::Text("{path}".to_owned()));
    let sure = folder.split('{').next().unwrap_or_default();
    let sure =
        if sure.len() < folder.len() { sure.rsplit_once('/').map_or("", |(sure, _)| sure) } else { sure };
    let sure = sure.trim_end_matches('/');
    scope.ledger.exact(alias);
    Ok(Some(AliasFiles {
        scope: inner,
        folder: if sure.starts_with('/') { sure.to_owned() } else { "/".to_owned() },
        difference,
    }))
}

/// A map of the path behind a prefix.
fn rest_of_path(scope: &Scope<'_>, prefix: &str) -> String {
    let mut table = DraftTable::default();
    table.set_plain("source", "{path|decode}");
    let mut entries = DraftTable::default();
    entries.set_plain(&format!("^{}(.*)$", escaped(prefix)), "{match.1}");
    *table.table("regex") = entries;
    scope.make_map("file_of_alias", table)
}

/// The location whose block this is.
fn location_of<'s>(statements: &'s [Statement], block: &[Statement]) -> Option<&'s Statement> {
    statements.iter().filter(|one| one.name() == "location").find_map(|one| {
        if std::ptr::eq(one.children(), block) { Some(one) } else { location_of(one.children(), block) }
    })
}
