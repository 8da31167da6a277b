//! `[map.NAME]` in the text.

use std::time::Duration;

use crate::key::{Map, OneOrMany, Spanned, choice, section};
use crate::value::Template;
use weir_conditions::MapKind;

section! {
    /// A map: what one text stands for, by entries. `{map.NAME}` is the value wherever [placeholders](#placeholders) are allowed whose values the
    /// map needs, and `map.NAME` in [conditions](#conditions). Of entries that match, one of `exact` counts, then the longest of `host`, of `prefix`,
    /// of `suffix`, of `network`, then the first of `regex`. It is looked up where it is used, and only there.
    #[derive(Debug, Clone)]
    pub(crate) struct MapText at "map.NAME" {
        /// The text that is looked up, with placeholders. They have the form in which keys of lists have them: hosts in lower case, parameters of the
        /// query decoded. Of a header in several lines, the first counts; in keys of lists, limits and caches, and in conditions, each.
        source: Spanned<Template> = required, like "nginx `map $source`, HAProxy `map(...)` behind a sample";
        /// The value where no entry matches.
        default: Spanned<Template> = "", like "nginx `map` `default`";
        /// Whether capital letters do not count: ASCII letters of the source and of keys are compared in lower case.
        ignore_case: bool = false, like "nginx `map`, which always does; HAProxy `-i`";
        /// Values by whole texts. Values have placeholders; what they need has to be known where the map is used.
        exact: Map<Spanned<Template>> = {}, like "nginx `map`, HAProxy `map_str`";
        /// Values by hosts: `a.example.com`, `*.example.com` for what is below it, `.example.com` for both.
        host: Map<Spanned<Template>> = {}, like "nginx `map` with `hostnames`, HAProxy `map_dom`";
        /// Values by what the text begins with.
        prefix: Map<Spanned<Template>> = {}, like "HAProxy `map_beg`";
        /// Values by what the text ends with.
        suffix: Map<Spanned<Template>> = {}, like "HAProxy `map_end`";
        /// Values by networks and addresses.
        network: Map<Spanned<Template>> = {}, like "nginx `geo`, HAProxy `map_ip`";
        /// Values by regular expressions, in this order. `{match.1}` and `{match.NAME}` in a value are groups of the expression.
        regex: Map<Spanned<Template>> = {}, like "nginx `map ~`, HAProxy `map_reg`, `map_regm`";
        /// Files with further entries, one a line: the key, white space, the value. Lines that begin with `#` are left out. A value may have
        /// placeholders of the request and its connection, and with `file_kind = "regex"` groups, but neither maps nor variables. What has been changed
        /// is used as a whole, or, if there is an error in it, not at all.
        file: OneOrMany<Spanned<Box<str>>> = optional, like "HAProxy `map_str(FILE)`, nginx `include` in `map`";
        /// How keys in files are compared.
        file_kind: FileKind = "exact", like "HAProxy `map_str`, `map_beg`, `map_end`, `map_ip`, `map_reg`";
        /// How often the files are checked for changes.
        reload: Option<Duration> = "10s", in 100..=86_400_000;
    }
}

choice! {
    /// How keys in the files of a map are compared.
    pub(crate) enum FileKind {
        /// with the whole text
        #[default]
        Exact = "exact",
        /// as hosts
        Host = "host",
        /// with what the text begins with
        Prefix = "prefix",
        /// with what the text ends with
        Suffix = "suffix",
        /// as networks
        Network = "network",
        /// as regular expressions
        Regex = "regex",
    }
}

impl From<FileKind> for MapKind {
    fn from(kind: FileKind) -> Self {
        match kind {
            FileKind::Exact => Self::Exact,
            FileKind::Host => Self::Host,
            FileKind::Prefix => Self::Prefix,
            FileKind::Suffix => Self::Suffix,
            FileKind::Network => Self::Network,
            FileKind::Regex => Self::Regex,
        }
    }
}

impl MapText {
    /// The entries of the text, those of each kind in their order.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (MapKind, &(Spanned<Box<str>>, Spanned<Template>))> {
        let kinds = [
            (MapKind::Exact, &self.exact),
            (MapKind::Host, &self.host),
            (MapKind::Prefix, &self.prefix),
            (MapKind::Suffix, &self.suffix),
            (MapKind::Network, &self.network),
            (MapKind::Regex, &self.regex),
        ];
        kinds.into_iter().flat_map(|(kind, entries)| entries.0.iter().map(move |entry| (kind, entry)))
    }

    /// The texts with values in it: source, default and values of entries.
    pub(crate) fn templates(&self) -> impl Iterator<Item = &Template> {
        let entries = self.entries().map(|(_, (_, value))| &value.value);
        self.source.iter().chain([&self.default]).map(|text| &text.value).chain(entries)
    }
}
