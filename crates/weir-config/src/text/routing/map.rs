//! `[map.NAME]` in the text.

use std::time::Duration;

use crate::key::{Map, OneOrMany, Spanned, TextFormat, choice, section, text_values};
use crate::value::{DatabaseField, Template, ValueError};
use weir_conditions::MapKind;

section! {
    /// A map: what one text stands for, by entries. `{map.NAME}` is the value wherever [placeholders](#placeholders) are allowed whose values the
    /// map needs, and `map.NAME` in [conditions](#conditions). Of entries that match, one of `exact` counts, then the longest of `host`, of `prefix`,
    /// of `suffix`, of `network`, then the first of `regex`. It is looked up where it is used, and only there.
    #[derive(Debug, Clone)]
    pub(crate) struct MapText at "map.NAME" {
        /// The text that is looked up, with placeholders. They have the form in which keys of lists have them: hosts in lower case, parameters of the
        /// query decoded. Of a header in several lines, the first counts; in keys of lists, limits and caches, and in conditions, each: up to 256 texts. With more,
        /// a condition of a list that refuses holds, one of a list that allows does not, one of a limit holds, nothing is cached, and other conditions look
        /// at the first ones and the last.
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
        /// A database of addresses (MaxMind DB: GeoLite2, GeoIP2 and others in this format), asked for `field` where no entry matches and the source
        /// is an address. It is in memory once for all maps that name it. It needs the feature `geoip`, which packages have.
        database: Spanned<Box<str>> = optional, like "nginx `geoip2`, `geoip_country`, `geoip_city`";
        /// The field of a record of `database` that is the value: `country.iso_code`, `city.names.en`, `subdivisions.0.iso_code`,
        /// `autonomous_system_number`. Texts, numbers and truth values are values; a record without it has none.
        field: Spanned<DatabaseField> = optional;
        /// How often the files and the database are checked for changes.
        reload: Option<Duration> = "10s", in 100..=86_400_000;
    }
}

text_values! {
    DatabaseField, |text: &str| DatabaseField::new(text).map_err(ValueError::new), |field: &DatabaseField| field.as_str().to_owned(), TextFormat {
        name: "field",
        article: "the name of a field",
        examples: &["country.iso_code", "subdivisions.0.iso_code", "autonomous_system_number"],
        pattern: r"^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+){0,6}$",
        about: "The way to a field of a record: names of tables and places in lists, from 0, with dots between them.",
    };
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
