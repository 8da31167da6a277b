//! Templates of Go in dynamic configs: variables of the environment have their values, all else is an error, since what a template comes to is
//! not known here.

use std::rc::Rc;

use crate::source::{ImportError, Position, SourceFiles};

/// How static configs begin.
const STATIC: [&str; 4] = ["entryPoints:", "providers:", "[entryPoints", "[providers"];

/// What to do about a template.
const ADVICE: &str = "a template of Go other than `{{ env \"NAME\" }}`: what it comes to is not known here. Import what Traefik makes of it: write the text without the template, for each value of a `range` one router or server, or put what varies into variables of the environment";

/// A text with its templates resolved. A static config has none: braces in it are for labels of containers.
pub(super) fn resolved(name: &str, text: &str, files: &dyn SourceFiles) -> Result<String, ImportError> {
    let is_static = text.lines().any(|line| STATIC.iter().any(|begin| line.starts_with(begin)));
    if is_static || !text.contains("{{") {
        return Ok(text.to_owned());
    }
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("{{") {
        result.push_str(&rest[..at]);
        let value = rest[at + 2..].find("}}").and_then(|end| {
            let action = rest[at + 2..at + 2 + end].trim_matches(['-', ' ', '\t']);
            Some((value_of(action, files)?, at + 4 + end))
        });
        let Some((value, end)) = value else {
            let line = u32::try_from(result.lines().count().max(1)).unwrap_or(u32::MAX);
            let at = Position { file: Rc::from(name), line, column: 1 };
            return Err(ImportError::at(&at, ADVICE));
        };
        result.push_str(&value);
        rest = &rest[end..];
    }
    result.push_str(rest);
    Ok(result)
}

/// What `env "NAME"` is, nothing if the variable is not set; a comment is nothing, too.
fn value_of(action: &str, files: &dyn SourceFiles) -> Option<String> {
    if action.starts_with("/*") && action.ends_with("*/") {
        return Some(String::new());
    }
    let name = action.strip_prefix("env")?.trim();
    let name =
        name.strip_prefix('"')?.strip_suffix('"').or_else(|| name.strip_prefix('`')?.strip_suffix('`'))?;
    Some(files.variable(name).unwrap_or_default()).filter(|value| !value.contains('\n'))
}
