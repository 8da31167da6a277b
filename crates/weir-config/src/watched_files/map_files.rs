//! Files of maps: an entry a line, a million of them in a fraction of a second; and databases of addresses.
//!
//! What is wrong in a file is told with its line, and nothing of the file is used then.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use weir_conditions::MapKind;
use weir_traffic::route::ValueMatch;

use crate::text_file::{MapFileMark, file_mark, read_bytes, read_text};
use crate::value::{
    AddressDatabase, DatabaseReader, MapDefinition, MapTable, OwnValue, Template, TemplateValue, ValueError,
};

/// The largest file of a map: several times a million entries.
const BYTES_MAX: u64 = 256 << 20;

/// The largest database: those of all addresses with cities and providers have less.
const DATABASE_BYTES_MAX: u64 = 1 << 30;

/// Problems that are told of one file.
const PROBLEMS_MAX: usize = 5;

/// The table of a map whose files have changed.
///
/// # Errors
/// Everything that is wrong, up to a few, each in one sentence that begins with its place.
pub fn load_map(map: &OwnValue) -> Result<MapTable, Vec<String>> {
    let definition = map.map().ok_or_else(|| vec!["it is no map".to_owned()])?;
    read_map(definition, |value| map.leaves().contains(value))
}

/// The marks of the files of a map as they are now.
pub fn map_marks(map: &MapDefinition) -> Vec<MapFileMark> {
    map.sources().map(|file| file_mark(file)).collect()
}

/// The table of a map: the entries of the config with those of its files, whose values may have the placeholders that `is_known` says.
///
/// # Errors
/// As [`load_map`].
pub(crate) fn read_map(
    map: &MapDefinition,
    is_known: impl Fn(&TemplateValue) -> bool,
) -> Result<MapTable, Vec<String>> {
    let mut builder = map.builder().map_err(|(_, error)| vec![error.to_string()])?;
    let mut problems = Vec::new();
    for file in &map.files {
        match read_text(file, BYTES_MAX) {
            Err(error) => problems.push(format!("{}: it cannot be read: {error}", file.display())),
            Ok(text) => {
                let lines = memchr::memchr_iter(b'\n', text.as_bytes()).count() + 1;
                builder.reserve(map.file_kind, lines);
                let mut report = |line: usize, problem: String| {
                    problems.push(format!("{}:{line}: {problem}", file.display()));
                    problems.len() < PROBLEMS_MAX
                };
                read_lines(&text, |line, key, value| {
                    let value = match value {
                        None => return report(line, "the key has no value".to_owned()),
                        Some(value) => value,
                    };
                    let added = match memchr::memchr2(b'{', b'}', value.as_bytes()) {
                        None => {
                            builder.insert_text(map.file_kind, key, value).map_err(|error| error.to_string())
                        }
                        Some(_) => template(map, key, value, &is_known).and_then(|template| {
                            builder.insert(map.file_kind, key, &template).map_err(|error| error.to_string())
                        }),
                    };
                    added.map_or_else(|problem| report(line, problem), |()| true)
                });
            }
        }
        if problems.len() >= PROBLEMS_MAX {
            break;
        }
    }
    let mut database = None;
    if let Some(named) = &map.database {
        match open(&named.file) {
            Ok(reader) => database = Some(AddressDatabase::new(reader, named.field.clone())),
            Err(problem) => problems.push(format!("{}: {problem}", named.file.display())),
        }
    }
    if problems.is_empty() { Ok(builder.build(database)) } else { Err(problems) }
}

/// Databases in use, each with the mark of its file: several maps name fields of the same one, which is in memory once.
static OPEN: Mutex<Vec<(MapFileMark, Weak<DatabaseReader>)>> = Mutex::new(Vec::new());

/// The database of a file: the one in use, as long as the file is the same, or a new one.
fn open(file: &Path) -> Result<Arc<DatabaseReader>, String> {
    let mark = file_mark(file);
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    open.retain(|(_, reader)| reader.strong_count() > 0);
    let known = open.iter().find(|(known, _)| mark.is_some() && *known == mark);
    if let Some(reader) = known.and_then(|(_, reader)| reader.upgrade()) {
        return Ok(reader);
    }
    let bytes =
        read_bytes(file, DATABASE_BYTES_MAX).map_err(|error| format!("it cannot be read: {error}"))?;
    let reader = DatabaseReader::new(bytes).map_err(|error| format!("it is no MaxMind DB: {error}"))?;
    let reader = Arc::new(reader);
    open.push((mark, Arc::downgrade(&reader)));
    Ok(reader)
}

/// Calls `entry` with the number of each line that has an entry, its key and its value, until it returns `false`.
fn read_lines<'t>(text: &'t str, mut entry: impl FnMut(usize, &'t str, Option<&'t str>) -> bool) {
    // Editors of other systems begin a file with a mark of its byte order, which is no part of the first key.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for (place, line) in text.lines().enumerate() {
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let key_end = line.bytes().position(|byte| byte.is_ascii_whitespace());
        let (key, value) =
            key_end.map_or((line, None), |end| (&line[..end], Some(line[end..].trim_ascii_start())));
        if !entry(place + 1, key, value) {
            return;
        }
    }
}

/// A value with placeholders.
fn template(
    map: &MapDefinition,
    key: &str,
    value: &str,
    is_known: &impl Fn(&TemplateValue) -> bool,
) -> Result<Template, String> {
    let template: Template = value.parse().map_err(|error: ValueError| error.message)?;
    for value in template.values() {
        check_value(map.file_kind, key, value, is_known)?;
    }
    if template.literal().is_none() && !map.permits(&template) {
        return Err("the value may begin with text from the client, and a redirect leads there".to_owned());
    }
    Ok(template)
}

/// Whether a placeholder may stand in a file: where the map may be used was decided by what it was made of when the config was read.
fn check_value(
    kind: MapKind,
    key: &str,
    value: &TemplateValue,
    is_known: &impl Fn(&TemplateValue) -> bool,
) -> Result<(), String> {
    let name = value.name();
    match value {
        TemplateValue::MatchGroup(group) => {
            let has_group = kind == MapKind::Regex
                && matches!(ValueMatch::regex(key), Ok(ValueMatch::Regex(regex)) if regex.with_groups().has_group(group));
            let error = || format!("`{{{name}}}` has no value: there is no group `{group}`");
            has_group.then_some(()).ok_or_else(error)
        }
        value if value.own().is_some() => {
            Err(format!("`{{{name}}}` cannot stand in a file: write the entry in the config"))
        }
        value if is_known(value) => Ok(()),
        _ => Err(format!("`{{{name}}}` is new in the map: it counts once the config is reloaded")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_of_the_byte_order_is_no_part_of_a_key() {
        let mut entries = Vec::new();
        read_lines("\u{feff}a 1\n# comment\n\u{feff}b 2\nc", |line, key, value| {
            entries.push((line, key.to_owned(), value.map(str::to_owned)));
            true
        });
        let entry = |line, key: &str, value: Option<&str>| (line, key.to_owned(), value.map(str::to_owned));
        assert_eq!(
            entries,
            [entry(1, "a", Some("1")), entry(3, "\u{feff}b", Some("2")), entry(4, "c", None)]
        );
    }
}
