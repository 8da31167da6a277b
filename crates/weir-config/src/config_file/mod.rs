//! A config file that is read again and again: at a reload only what changed of it, where that can be told, and each time with the
//! fragments that stores have for `[routes_from.NAME]`.

mod last_read;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use self::last_read::LastRead;
use crate::config::{Config, RouteSource};
use crate::diagnostic::Diagnostics;
use crate::fragments::{FragmentReport, FragmentTexts, Fragments, OfferedFragments};
use crate::load::CheckedConfig;
use crate::source::ConfigTranslator;

/// A config file that is read again and again.
#[derive(Debug)]
pub struct ConfigFile {
    path: PathBuf,
    /// What a config that was read as a whole must pass besides.
    check: fn(CheckedConfig) -> CheckedConfig,
    /// Reads it if it is in another format.
    translator: Option<Box<dyn ConfigTranslator>>,
    /// The config in use and its text, where parts of it can be taken over.
    in_use: Option<LastRead>,
    /// The text that was read since and is not in use yet.
    read: Option<LastRead>,
    /// What `[routes_from.NAME]` adds.
    fragments: Fragments,
    /// The same with the sources of the file that was read since.
    read_fragments: Option<Fragments>,
    restore: fn(&RouteSource) -> FragmentTexts,
    /// What the process before has in use, with the name of the source and its store in words; used for the first config.
    handed_over: Vec<(Box<str>, String, FragmentTexts)>,
    /// The files in use without their fragments, and those that were read since; only where there are sources of fragments.
    base: Option<CheckedConfig>,
    read_base: Option<CheckedConfig>,
}

impl ConfigFile {
    /// A file that was not read yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self::with_check(path, |checked| checked)
    }

    /// A file that was not read yet, with a further check, which adds errors to a config. It must not depend on servers: a change of servers
    /// alone is read without it.
    pub fn with_check(path: impl Into<PathBuf>, check: fn(CheckedConfig) -> CheckedConfig) -> Self {
        Self {
            path: path.into(),
            check,
            translator: None,
            in_use: None,
            read: None,
            fragments: Fragments::default(),
            read_fragments: None,
            restore: |_| FragmentTexts::new(),
            handed_over: Vec::new(),
            base: None,
            read_base: None,
        }
    }

    /// The same, which may be in another format.
    #[must_use]
    pub fn translated_by(self, translator: impl ConfigTranslator + 'static) -> Self {
        Self { translator: Some(Box::new(translator)), ..self }
    }

    /// The same with the fragments that an earlier process has left of a source.
    #[must_use]
    pub fn restoring(self, restore: fn(&RouteSource) -> FragmentTexts) -> Self {
        Self { restore, ..self }
    }

    /// The same with the fragments of a source that the process before has in use, if its store in words is this one.
    #[must_use]
    pub fn taking_over(mut self, source: &str, store: String, texts: FragmentTexts) -> Self {
        self.handed_over.push((source.into(), store, texts));
        self
    }

    /// Takes in all fragments that a store has now; whether they are others than before, so that [`Self::read_fragments`] is due.
    pub fn offer(&mut self, source: &str, fragments: OfferedFragments) -> bool {
        self.fragments.offer(source, fragments)
    }

    /// The config of the files as they were read last and are in use, with what stores offer now, as far as it fits.
    ///
    /// # Errors
    /// When nothing of it fits the files.
    pub fn read_fragments(&mut self) -> Option<Result<Config, Diagnostics>> {
        let base = self.base.as_ref()?;
        let config = self.fragments.join(base);
        self.read_base = Some(base.clone());
        (self.read, self.read_fragments) = (None, None);
        Some(config)
    }

    /// Whether what was read by [`Self::read_fragments`] is anything else than what is in use.
    pub fn has_other_fragments(&self) -> bool {
        self.fragments.has_other()
    }

    /// The fragments that were read last cannot be used, for a reason that is not in them.
    pub fn refuse_fragments(&mut self, why: &[String]) {
        self.fragments.refuse(why);
    }

    /// What became of the fragments of each source.
    pub fn fragment_reports(&self) -> impl Iterator<Item = (&str, FragmentReport)> {
        self.fragments.reports()
    }

    /// Its path, as it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the file and all that it includes, with the environment of the process; gives the warnings with the config.
    ///
    /// # Errors
    /// All diagnostics, if there is an error among them.
    pub fn read(&mut self) -> Result<(Config, Diagnostics), Diagnostics> {
        (self.read, self.read_base, self.read_fragments) = (None, None, None);
        if let Some(read) = self.in_use.as_ref().and_then(|in_use| in_use.again(&self.path)) {
            let diagnostics = Diagnostics::new(read.sources(&self.path), Vec::new());
            let config = read.config.clone();
            self.read = Some(read);
            return Ok((config, diagnostics));
        }
        let checked = (self.check)(match &self.translator {
            Some(translator) => CheckedConfig::load_translated(&self.path, &**translator),
            None => CheckedConfig::load(&self.path),
        });
        self.read = LastRead::new(&checked);
        let Some(config) = &checked.config else { return Err(checked.diagnostics) };
        let mut fragments = self.fragments.clone();
        let (handed_over, restore) = (&self.handed_over, self.restore);
        fragments.follow(&config.route_sources, &|source| {
            let is_its = |(name, store, _): &&(Box<str>, String, FragmentTexts)| {
                *name == source.name && *store == source.store.to_string()
            };
            let handed = handed_over.iter().find(is_its);
            handed.map_or_else(|| restore(source), |(_, _, texts)| texts.clone())
        });
        if config.route_sources.is_empty() {
            self.read_fragments = Some(fragments);
            return Ok((config.clone(), checked.diagnostics));
        }
        // Where there are fragments, the text of the file is not all that there is.
        self.read = None;
        let config = fragments.join(&checked)?;
        self.read_fragments = Some(fragments);
        let diagnostics = checked.diagnostics.clone();
        self.read_base = Some(checked);
        Ok((config, diagnostics))
    }

    /// The text that was read last is in use, as `config`, which may share its parts with the one before.
    pub fn follow(&mut self, config: Config) {
        self.handed_over.clear();
        self.in_use = self.read.take().map(|read| read.used_as(config));
        self.base = self.read_base.take();
        self.fragments = self.read_fragments.take().unwrap_or_else(|| std::mem::take(&mut self.fragments));
        self.fragments.commit();
    }
}
