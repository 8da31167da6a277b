//! The macro that declares a table: its keys with type, default, meaning and the terms of nginx, HAProxy and others.

use super::ConfigValue;
use super::reader::TreeReader;
use super::schema::{Bounds, SectionSchema};
use super::vocabulary::Vocabulary;
use crate::diagnostic::SourceMap;
use crate::source::{Tree, parse_document};

/// A type that is a table with known keys.
pub(crate) trait ConfigSection: ConfigValue {
    const SECTION: &'static SectionSchema;

    /// The keys that are set, with their values as TOML, in the order of the reference.
    fn entries(&self) -> Vec<(&'static str, String)>;

    /// An inline table of the keys that are set.
    fn inline(&self) -> String {
        let entries: Vec<String> =
            self.entries().iter().map(|(key, value)| format!("{key} = {value}")).collect();
        if entries.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", entries.join(", ")) }
    }
}

/// The value of a default, written as TOML.
pub(crate) fn default_value<T: ConfigValue>(text: &str, bounds: Bounds) -> T {
    let mut sources = SourceMap::default();
    let file = sources.add("default", format!("value = {text}"));
    let mut diagnostics = Vec::new();
    let node = parse_document(&sources, file, &|_| None, &mut diagnostics);
    let value = match &node.tree {
        Tree::Table(table) => {
            let mut reader = TreeReader::new(&mut diagnostics, Vocabulary::none);
            table.find("value").and_then(|entry| T::read(&entry.node, bounds, &mut reader))
        }
        _ => None,
    };
    value
        .filter(|_| diagnostics.is_empty())
        .expect("the default of every key is valid: a test reads them all")
}

/// The name of a key by that of its field: keywords of Rust have a prefix there.
pub(crate) const fn key_name(field: &'static str) -> &'static str {
    match field.as_bytes() {
        [b'r', b'#', name @ ..] => match std::str::from_utf8(name) {
            Ok(name) => name,
            Err(_) => field,
        },
        _ => field,
    }
}

/// The type of a field: plain with a default, an `Option` otherwise.
macro_rules! presence_type {
    (optional $type:ty) => { Option<$type> };
    (required $type:ty) => { Option<$type> };
    ($default:tt $type:ty) => { $type };
}

/// `@about`: the [`Presence`]; `@absent`: the value without the key, read from its text once per process; `@present`: from the value of the key; `@entry`: back to TOML;
/// `@check`: the bounds; `@doc`: the sentence for the documentation of the field.
macro_rules! presence_value {
    (@about optional) => { $crate::key::Presence::Optional };
    (@about required) => { $crate::key::Presence::Required };
    (@about $default:tt) => { $crate::key::Presence::Default(stringify!($default)) };
    (@absent optional $type:ty, $bounds:expr) => { None };
    (@absent required $type:ty, $bounds:expr) => { None };
    (@absent $default:tt $type:ty, $bounds:expr) => {{
        static VALUE: std::sync::OnceLock<$type> = std::sync::OnceLock::new();
        VALUE.get_or_init(|| $crate::key::default_value::<$type>(stringify!($default), $bounds)).clone()
    }};
    (@present optional $type:ty, $found:expr, $bounds:expr) => { $found };
    (@present required $type:ty, $found:expr, $bounds:expr) => { $found };
    (@present $default:tt $type:ty, $found:expr, $bounds:expr) => {
        $found.unwrap_or_else(|| $crate::key::presence_value!(@absent $default $type, $bounds))
    };
    (@entry optional $value:expr) => { $value.as_ref().map($crate::key::ConfigValue::write) };
    (@entry required $value:expr) => { $value.as_ref().map($crate::key::ConfigValue::write) };
    (@entry $default:tt $value:expr) => { Some($crate::key::ConfigValue::write(&$value)) };
    (@lines optional $value:expr, $path:expr, $lines:expr) => {
        if let Some(value) = &$value {
            $crate::key::ConfigValue::lines(value, $path, $lines);
        }
    };
    (@lines required $value:expr, $path:expr, $lines:expr) => {
        $crate::key::presence_value!(@lines optional $value, $path, $lines);
    };
    (@lines $default:tt $value:expr, $path:expr, $lines:expr) => {
        $crate::key::ConfigValue::lines(&$value, $path, $lines);
    };
    (@check optional $value:expr, $key:expr, $bounds:expr, $found:expr) => {
        if let Some(value) = &$value {
            $crate::key::ConfigValue::check_bounds(value, $key, $bounds, $found);
        }
    };
    (@check required $value:expr, $key:expr, $bounds:expr, $found:expr) => {
        $crate::key::presence_value!(@check optional $value, $key, $bounds, $found);
    };
    (@check $default:tt $value:expr, $key:expr, $bounds:expr, $found:expr) => {
        $crate::key::ConfigValue::check_bounds(&$value, $key, $bounds, $found);
    };
    (@doc optional) => { "" };
    (@doc required) => { "" };
    (@doc $default:tt) => { concat!("\n\nDefault: `", stringify!($default), "`.") };
}

/// Declares a table of the config as a struct: one field per key, read, written and documented from this one place.
///
/// After `=` stands the default as TOML, or `required`, or `optional`; after `in` the bounds of a number in its base unit; after `like`
/// the equivalents in other products.
macro_rules! section {
    (
        $(#[doc = $about:literal])+
        #[derive($($derive:ident),+)]
        $vis:vis struct $name:ident at $path:literal {
            $(
                $(#[doc = $doc:literal])+
                $key:ident: $type:ty = $presence:tt $(, in $bounds:expr)? $(, like $like:literal)?;
            )+
        }
    ) => {
        $(#[doc = $about])+
        #[derive($($derive),+)]
        #[non_exhaustive]
        $vis struct $name {
            $(
                $(#[doc = $doc])+
                #[doc = $crate::key::presence_value!(@doc $presence)]
                $vis $key: $crate::key::presence_type!($presence $type),
            )+
        }

        impl Default for $name {
            fn default() -> Self {
                Self {$(
                    $key: $crate::key::presence_value!(@absent $presence $type, $crate::key::section!(@bounds $($bounds)?)),
                )+}
            }
        }

        impl $crate::key::ConfigSection for $name {
            const SECTION: &'static $crate::key::SectionSchema = &$crate::key::SectionSchema {
                path: $path,
                about: concat!($($about, "\n"),+),
                keys: &[$(
                    $crate::key::KeySchema {
                        name: $crate::key::key_name(stringify!($key)),
                        about: concat!($($doc, "\n"),+),
                        kind: || <$type as $crate::key::ConfigValue>::kind($crate::key::section!(@bounds $($bounds)?)),
                        presence: $crate::key::presence_value!(@about $presence),
                        like: concat!("" $(, $like)?),
                    },
                )+],
            };

            fn entries(&self) -> Vec<(&'static str, String)> {
                let entries = [$(
                    ($crate::key::key_name(stringify!($key)), $crate::key::presence_value!(@entry $presence self.$key)),
                )+];
                entries.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
            }
        }

        impl $crate::key::ConfigValue for $name {
            fn kind(_: $crate::key::Bounds) -> $crate::key::ValueKind {
                $crate::key::ValueKind::Section(<Self as $crate::key::ConfigSection>::SECTION)
            }

            fn read(
                node: &$crate::source::TreeNode,
                _: $crate::key::Bounds,
                reader: &mut $crate::key::TreeReader<'_>,
            ) -> Option<Self> {
                let table = reader.open(node, <Self as $crate::key::ConfigSection>::SECTION)?;
                Some(Self {$(
                    $key: $crate::key::presence_value!(
                        @present $presence $type,
                        reader.value::<$type>(table, $crate::key::key_name(stringify!($key)), $crate::key::section!(@bounds $($bounds)?)),
                        $crate::key::section!(@bounds $($bounds)?)
                    ),
                )+})
            }

            fn write(&self) -> String {
                $crate::key::ConfigSection::inline(self)
            }

            fn check_bounds(
                &self,
                _: &str,
                _: $crate::key::Bounds,
                found: &mut Vec<$crate::key::OutOfBounds>,
            ) {
                $(
                    $crate::key::presence_value!(
                        @check $presence self.$key, $crate::key::key_name(stringify!($key)), $crate::key::section!(@bounds $($bounds)?), found
                    );
                )+
            }

            fn lines(&self, path: &str, lines: &mut Vec<String>) {
                let under = if path.is_empty() { String::new() } else { format!("{path}.") };
                $(
                    $crate::key::presence_value!(
                        @lines $presence self.$key, &format!("{under}{}", $crate::key::key_name(stringify!($key))), lines
                    );
                )+
            }
        }
    };
    (@bounds) => { $crate::key::Bounds::NONE };
    (@bounds $bounds:expr) => { $crate::key::Bounds::from_range($bounds) };
}

pub(crate) use {presence_type, presence_value, section};
