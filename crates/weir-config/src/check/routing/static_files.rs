//! `files` of a route: a folder that is there, names that can be names, templates whose values are there.

use super::headers;
use crate::check::files::Files;
use crate::check::templates;
use crate::check::templates::TemplatePlace;
use crate::check::upstream_lookup::UpstreamLookup;
use crate::config::{ServerProtocol, StaticFiles};
use crate::diagnostic::SourceSpan;
use crate::diagnostic::{Diagnostic, DiagnosticKind};
use crate::key::{Spanned, SpannedTable};
use crate::text::FilesText;
use crate::value::Template;

pub(in crate::check) fn check(
    text: &SpannedTable<FilesText>,
    otherwise: Option<&Spanned<Box<str>>>,
    place: &TemplatePlace<'_>,
    files: &Files<'_>,
    upstreams: &UpstreamLookup<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> StaticFiles {
    let value = &text.value;
    let root = value.root.as_ref().map(|root| {
        let path = files.path(root);
        if files.may_read && !path.is_dir() {
            let message = format!("there is no folder `{}`", path.display());
            let is_script =
                |name: &Spanned<Box<str>>| upstreams.protocol(&name.value) == Some(ServerProtocol::Fastcgi);
            let help = match otherwise {
                Some(name) if !is_script(name) => "every request will go to the upstream until there is one",
                Some(_) | None => "every request will be answered 404 until there is one",
            };
            diagnostics.push(Diagnostic::new(DiagnosticKind::Suspicious, root.span, message).help(help));
        }
        path
    });
    for name in &value.index {
        let is_name =
            !name.value.is_empty() && !name.value.contains(['/', '\0']) && !name.value.starts_with("..");
        if !is_name {
            let message = format!("`{}` is not the name of a file in a folder", name.value);
            diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, name.span, message));
        }
    }
    for (extension, _) in &value.types.0 {
        report_extension(&extension.value, extension.span, diagnostics);
    }
    let try_files = match &value.try_files {
        None => vec!["{path}".parse().unwrap_or_default()],
        Some(paths) => {
            paths.0.iter().map(|path| try_file(path.span, &path.value.0, place, diagnostics)).collect()
        }
    };
    StaticFiles {
        root: root.unwrap_or_default(),
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
