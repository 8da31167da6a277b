//! `files` of a route: a folder that is there, names that can be names, templates whose values are there.

use std::path::PathBuf;

use weir_traffic::rewrite::Rewrite;

use super::headers;
use crate::check::files::Files;
use crate::check::templates;
use crate::check::templates::TemplatePlace;
use crate::check::upstream_lookup::UpstreamLookup;
use crate::config::{FilesFallback, RouteTarget, ServerProtocol, StaticFiles};
use crate::diagnostic::SourceSpan;
use crate::diagnostic::{Diagnostic, DiagnosticKind};
use crate::key::{Spanned, SpannedTable};
use crate::text::{FilesText, RouteText};
use crate::value::{Template, TemplatePart};

/// `route`: the one that serves them.
pub(in crate::check) fn check(
    (text, route): (&SpannedTable<FilesText>, &SpannedTable<RouteText>),
    place: &TemplatePlace<'_>,
    files: &Files<'_>,
    upstreams: &UpstreamLookup<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> StaticFiles {
    let (value, otherwise) = (&text.value, route.value.upstream.as_ref());
    let folder = folder((text, route), files, diagnostics);
    if let Some((root, written)) = folder.root.as_ref().zip(folder.written)
        && files.may_read
        && !root.is_dir()
    {
        let message = format!("there is no folder `{}`", root.display());
        let is_script =
            |name: &Spanned<Box<str>>| upstreams.protocol(&name.value) == Some(ServerProtocol::Fastcgi);
        let help = match otherwise {
            Some(name) if !is_script(name) => "every request will go to the upstream until there is one",
            None if value.fallback.is_some() => "every request will go to the fallback until there is one",
            Some(_) | None => "every request will be answered 404 until there is one",
        };
        diagnostics.push(Diagnostic::new(DiagnosticKind::Suspicious, written, message).help(help));
    }
    report_fallback((text, route), place, diagnostics);
    value.index.iter().for_each(|name| report_index(name, place, diagnostics));
    for (extension, _) in &value.types.0 {
        report_extension(&extension.value, extension.span, diagnostics);
    }
    let try_files = match &value.try_files {
        None if folder.file.is_some() => folder.file.iter().map(|name| Template::of_literal(name)).collect(),
        None => vec!["{path}".parse().unwrap_or_default()],
        Some(paths) => {
            paths.0.iter().map(|path| try_file(path.span, &path.value.0, place, diagnostics)).collect()
        }
    };
    StaticFiles {
        root: folder.root.unwrap_or_default(),
        alias: folder.alias,
        fallback: value.fallback.clone(),
        index: value.index.iter().map(|name| name.value.clone()).collect(),
        try_files,
        listing: value.listing,
        precompressed: value.precompressed.clone(),
        symlinks: value.symlinks,
        hidden: value.hidden,
        types: value
            .types
            .0
            .iter()
            .map(|(name, kind)| (name.value.to_ascii_lowercase().into(), kind.clone()))
            .collect(),
        default_type: value.default_type.clone(),
        charset: value.charset.as_ref().map(|charset| Box::from(&**charset)),
        headers: headers::check_of_files(&value.headers, place, diagnostics),
        valid: value.valid,
        otherwise: otherwise.map(|name| upstreams.find(name, diagnostics)),
    }
}

/// Reports what is no name of a file in a folder, as far as the text says that, and values that it has not.
fn report_index(name: &Spanned<Template>, place: &TemplatePlace<'_>, diagnostics: &mut Vec<Diagnostic>) {
    templates::check(&name.value, name.span, place, diagnostics);
    templates::warn_of_variables(&name.value, name.span, diagnostics);
    let literals = || {
        name.value.parts().iter().filter_map(|part| match part {
            TemplatePart::Literal(text) => Some(&**text),
            TemplatePart::Value(_) => None,
        })
    };
    let begins_with_dots =
        matches!(name.value.parts().first(), Some(TemplatePart::Literal(text)) if text.starts_with(".."));
    let is_name = !name.value.parts().is_empty()
        && !literals().any(|text| text.contains(['/', '\0']))
        && !begins_with_dots;
    if !is_name {
        let message = format!("`{}` is not the name of a file in a folder", name.value);
        diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, name.span, message));
    }
}

/// Where the files of a route are.
#[derive(Default)]
struct FilesFolder {
    root: Option<PathBuf>,
    /// Where the text says so.
    written: Option<SourceSpan>,
    alias: Option<Rewrite>,
    /// The one file of an exact path, below the folder.
    file: Option<String>,
}

/// The folder: `root`, or what `path` stands for by `alias`.
fn folder(
    (text, route): (&SpannedTable<FilesText>, &SpannedTable<RouteText>),
    files: &Files<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> FilesFolder {
    let (root, alias) = (text.value.root.as_ref(), text.value.alias.as_ref());
    let (Some(alias), None) = (alias, root) else {
        if let (Some(_), Some(alias)) = (root, alias) {
            let message = "`root` and `alias` exclude each other";
            let help = "with `alias`, the `path` of the route is left out of the path of the file";
            diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, alias.span, message).help(help));
        } else if root.is_none() && text.is_missing("root") && text.is_missing("alias") {
            let message = "`files` has neither `root` nor `alias`";
            let help = "write `root = \"FOLDER\"`";
            diagnostics.push(Diagnostic::new(DiagnosticKind::MissingKey, text.span, message).help(help));
        }
        let root_at = root.map(|root| root.span);
        return FilesFolder {
            root: root.map(|root| files.path(root)),
            written: root_at,
            ..FilesFolder::default()
        };
    };
    let (path, written) = (files.path(alias), Some(alias.span));
    if let Some(at) = route.written("fastcgi") {
        let message = "`alias` does not go with `fastcgi`: scripts are named by `root`";
        let help = "write `root`, and `strip_prefix = true` on the route";
        diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, at, message).help(help));
    }
    match (&route.value.path, &route.value.path_exact) {
        (Some(prefix), _) => {
            let strip =
                Rewrite::strip_prefix(&prefix.value.0).expect("the path was checked when it was read");
            FilesFolder { root: Some(path), written, alias: Some(strip), file: None }
        }
        (None, Some(_)) => {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if let Some(at) = text.changed("try_files") {
                let message = "`try_files` has no effect with `alias` of an exact path, which is one file";
                diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, at, message));
            }
            let folder = path.parent().map(PathBuf::from);
            FilesFolder { root: folder, written, alias: None, file: Some(format!("/{name}")) }
        }
        (None, None) => {
            if route.is_sound {
                let message = "`alias` needs a `path` or a `path_exact`, which it stands for";
                let help = "with `path_regex`, write `root` and `try_files = [\"/{match.1}\"]`";
                diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, alias.span, message).help(help));
            }
            FilesFolder { root: Some(path), written, ..FilesFolder::default() }
        }
    }
}

/// Reports a fallback beside an upstream, and values that it has not.
fn report_fallback(
    (text, route): (&SpannedTable<FilesText>, &SpannedTable<RouteText>),
    place: &TemplatePlace<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let Some(fallback) = &text.value.fallback else { return };
    let at = text.key_at("fallback");
    if let Some(upstream) = &route.value.upstream {
        let message = "`fallback` has no effect beside `upstream`, which gets what is no file";
        let diagnostic = Diagnostic::new(DiagnosticKind::Conflict, at, message);
        diagnostics.push(diagnostic.label(upstream.span, "the upstream"));
    }
    if let FilesFallback::Target(RouteTarget::Path(path)) = fallback {
        templates::check(path, at, place, diagnostics);
        templates::warn_of_variables(path, at, diagnostics);
    }
}

fn try_file(
    span: SourceSpan,
    path: &Template,
    place: &TemplatePlace<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Template {
    templates::check(path, span, place, diagnostics);
    templates::warn_of_variables(path, span, diagnostics);
    path.clone()
}

fn report_extension(extension: &str, span: SourceSpan, diagnostics: &mut Vec<Diagnostic>) {
    if extension.is_empty() || extension.contains(['.', '/', '*']) {
        let message = format!("`{extension}` is not an extension");
        let help = "an extension is what follows the last dot of a name: `html`, `tar`, `conf`";
        diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, span, message).help(help));
    }
}
