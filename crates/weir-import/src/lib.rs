//! Configs of nginx, HAProxy, Caddy and Traefik as a `weir.toml`, and a report of what became of every statement.
//!
//! Pure: text in, text and report out; files are read by who calls ([`SourceFiles`]). The result enters Weir through the same door as a file that
//! was written by hand: it is text, and `weir-config` reads it. [`Imported::origin`] leads from its lines back to the file that was imported.
//!
//! Nothing is dropped in silence, by construction: each statement is opened in the [`Ledger`] when it is parsed, and what
//! no translation has accounted for, down to single words, is reported as not supported. No result is refused by Weir, either: what `weir check`
//! finds wrong with it is taken out, and the statement that it comes from is not supported.

#![forbid(unsafe_code)]

mod nginx;
mod haproxy;
mod caddy;
mod traefik;

// What Weir would refuse of a result is taken out of it.
mod soundness;
// A config that runs beside the balancer whose config it was.
pub mod shadow;
// Networks as other products take them.
mod networks;
// A `weir.toml` in the making.
pub mod document;
// What became of each statement.
pub mod report;
// Files, statements and their places.
pub mod source;

pub use report::{ImportOutcome, ImportReport};
pub use source::{ImportError, Position, ResultFault, SourceFiles, SourceFormat};

use document::Draft;
use report::Ledger;
use shadow::{ShadowError, ShadowOptions, ShadowReport};
use source::StatementId;

/// A config that was imported.
#[derive(Debug)]
pub struct Imported {
    /// The text of a `weir.toml`.
    pub toml: String,
    /// What became of each statement.
    pub report: ImportReport,
    /// For each line of the text the statement that it comes from.
    origins: Vec<Option<Position>>,
    draft: Draft,
}

impl Imported {
    /// Where the line of the text (from 1) comes from.
    pub fn origin(&self, line: usize) -> Option<&Position> {
        self.origins.get(line.checked_sub(1)?)?.as_ref()
    }

    /// The same as a config that runs beside the balancer whose config it was, and compares with it; with what becomes of the listeners.
    ///
    /// # Errors
    /// It cannot: it would be a loop, or there is nothing that could be compared.
    pub fn beside(mut self, options: &ShadowOptions) -> Result<(Self, ShadowReport), ShadowError> {
        let findings = self.report.findings();
        let place = |id: StatementId| findings[id.0 as usize].at.clone();
        let shadowed = shadow::apply(&mut self.draft, options, &place)?;
        let (toml, origins) = self.draft.render();
        self.origins = origins.into_iter().map(|statement| statement.map(place)).collect();
        self.toml = toml;
        Ok((self, shadowed))
    }
}

/// The kind of a config, by the name of its file, else by what it says.
pub fn detect(name: &str, text: &str) -> Option<SourceFormat> {
    let file = name.rsplit('/').next().unwrap_or(name).to_ascii_lowercase();
    if file.starts_with("caddyfile") || file.ends_with(".caddyfile") {
        return Some(SourceFormat::Caddy);
    }
    if file.starts_with("haproxy") || file.ends_with(".cfg") {
        return Some(SourceFormat::Haproxy);
    }
    if traefik::is_named(&file) {
        return Some(SourceFormat::Traefik);
    }
    if file.contains("nginx") || file.ends_with(".conf") {
        return Some(SourceFormat::Nginx);
    }
    if looks_like_nginx(text) {
        return Some(SourceFormat::Nginx);
    }
    if haproxy::looks_like(text) {
        return Some(SourceFormat::Haproxy);
    }
    if traefik::looks_like(text) {
        return Some(SourceFormat::Traefik);
    }
    caddy::looks_like(text).then_some(SourceFormat::Caddy)
}

/// Whether directives of nginx stand in a text.
fn looks_like_nginx(text: &str) -> bool {
    let named =
        ["listen", "server_name", "proxy_pass", "return", "root", "worker_processes", "user", "include"];
    text.lines().map(str::trim).any(|line| {
        let word = line.split_whitespace().next().unwrap_or_default();
        line.ends_with(';') && named.contains(&word) || line.ends_with('{') && word == "location"
    })
}

/// Takes out what a Weir without HTTP/3 refuses.
fn without_http3(document: &mut Draft, ledger: &Ledger) {
    for (_, listener) in document.table(&["listener"]).children_mut() {
        let Some(from) = listener.origin_of("http3").or(listener.origin()).filter(|_| listener.has("http3"))
        else {
            continue;
        };
        listener.remove("http3");
        let difference = "this Weir was built without the feature `http3`: clients use HTTP/2 and HTTP/1.1";
        ledger.approximated_after_all(from, difference);
    }
}

/// Imports the files `names` (HAProxy and Traefik take several, in this order; the others one).
///
/// # Errors
/// A file cannot be read, or is no config of this kind: the mistake with its place; or nothing of it is understood.
pub fn import(
    format: SourceFormat,
    names: &[&str],
    files: &dyn SourceFiles,
) -> Result<Imported, ImportError> {
    let ledger = Ledger::default();
    let mut document: Draft = match format {
        SourceFormat::Nginx => nginx::translate(names, files, &ledger)?,
        SourceFormat::Haproxy => haproxy::translate(names, files, &ledger)?,
        SourceFormat::Caddy => caddy::translate(names, files, &ledger)?,
        SourceFormat::Traefik => traefik::translate(names, files, &ledger)?,
    };
    if !ledger.understands_any() {
        let message = format!("nothing of it is understood as a file of {}", format.product());
        let at = ledger.first().map(|first| ledger.position(first));
        return Err(ImportError { at, message });
    }
    if !files.has_http3() {
        without_http3(&mut document, &ledger);
    }
    let (toml, origins) = soundness::make_sound(&mut document, &ledger, files);
    let origins = origins.into_iter().map(|statement| statement.map(|id| ledger.position(id))).collect();
    Ok(Imported { toml, report: ledger.into_report(format), origins, draft: document })
}
