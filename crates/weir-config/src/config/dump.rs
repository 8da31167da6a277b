//! A configuration dump: every key with its value. Most lines of a large one occur several times: each distinct line is stored once, and
//! the dump is a list of indices.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Every key with the value that holds, as TOML; secrets are left out. Cheap to clone.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ConfigDump(Arc<Lines>);

#[derive(Default, PartialEq, Eq)]
struct Lines {
    /// The lines that are different, one behind the other.
    text: Box<str>,
    /// Where each of them ends.
    ends: Box<[usize]>,
    /// The lines of the configuration.
    lines: Box<[u32]>,
}

impl ConfigDump {
    /// The lines that `print` passes on, without their ends.
    pub(crate) fn of_lines(print: impl FnOnce(&mut dyn FnMut(&str))) -> Self {
        let (mut known, mut text, mut ends, mut lines) =
            (HashMap::new(), String::new(), Vec::new(), Vec::new());
        print(&mut |line| {
            let number = known.get(line).copied().unwrap_or_else(|| {
                text.push_str(line);
                ends.push(text.len());
                let number = u32::try_from(known.len()).expect("a file of so many lines is not read");
                known.insert(Box::<str>::from(line), number);
                number
            });
            lines.push(number);
        });
        Self(Arc::new(Lines { text: text.into(), ends: ends.into(), lines: lines.into() }))
    }

    /// The bytes of the lines that are different, those included that were shown before.
    pub(crate) fn bytes(&self) -> usize {
        self.0.text.len()
    }

    /// The same with the tables of the upstreams that `others` has, which are in the same order; nothing when one of them is not here, or
    /// when its lines would take more than `bytes_max`.
    pub(crate) fn with_upstreams(&self, others: &Self, bytes_max: usize) -> Option<Self> {
        let (mut text, mut ends) = (String::from(&*self.0.text), self.0.ends.to_vec());
        let mut known: HashMap<&str, Option<u32>> = others.lines().map(|line| (line, None)).collect();
        for (number, line) in self.distinct().enumerate() {
            known.entry(line).and_modify(|known| *known = Some(number as u32));
        }
        let mut number_of = |line| {
            *known.get_mut(line).expect("all lines are in it").get_or_insert_with(|| {
                text.push_str(line);
                ends.push(text.len());
                u32::try_from(ends.len() - 1).expect("a file of so many lines is not read")
            })
        };
        let others_lines: Vec<u32> = others.lines().map(&mut number_of).collect();
        let empty = number_of("");
        let mut lines = Vec::with_capacity(self.0.lines.len());
        let mut rest = &*self.0.lines;
        for (start, _) in others.lines().enumerate().filter(|(_, line)| line.starts_with("[upstream.")) {
            let place = rest.iter().position(|line| *line == others_lines[start])?;
            lines.extend_from_slice(&rest[..place]);
            lines.extend_from_slice(&others_lines[table(&others_lines, start, empty)]);
            rest = &rest[table(rest, place, empty).end..];
        }
        lines.extend_from_slice(rest);
        if text.len() > bytes_max {
            return None;
        }
        Some(Self(Arc::new(Lines { text: text.into(), ends: ends.into(), lines: lines.into() })))
    }

    fn distinct(&self) -> impl Iterator<Item = &str> {
        (0..self.0.ends.len()).map(|number| self.0.line(number))
    }

    /// The lines, without their ends.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        self.0.lines.iter().map(|number| self.0.line(*number as usize))
    }
}

/// The lines of the table whose header is at `start`: up to the next empty line.
fn table(lines: &[u32], start: usize, empty: u32) -> Range<usize> {
    let len = lines[start..].iter().position(|line| *line == empty).unwrap_or(lines.len() - start);
    start..start + len
}

impl Lines {
    fn line(&self, number: usize) -> &str {
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[start..self.ends[number]]
    }
}

impl fmt::Display for ConfigDump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines().try_for_each(|line| writeln!(f, "{line}"))
    }
}

impl fmt::Debug for ConfigDump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

#[cfg(test)]
mod tests {
    use crate::CheckedConfig;

    fn config(upstreams: usize) -> CheckedConfig {
        let mut text = "listener.web = { address = \":0\", upstream = \"u0\" }\n".to_owned();
        for number in 0..upstreams {
            text.push_str(&format!("upstream.u{number}.servers = [\"127.0.0.1:{}\"]\n", number + 1));
        }
        CheckedConfig::parse(&text, "weir.toml")
    }

    #[test]
    fn it_is_the_whole_text() {
        let checked = config(3);
        let shown = checked.config.as_ref().expect("it has no errors").dump.to_string();
        assert_eq!(shown, checked.print());
    }

    #[test]
    fn an_upstream_is_small() {
        let bytes = |upstreams: usize| {
            let config = config(upstreams).config.expect("it has no errors");
            let shown = &config.dump;
            shown.0.text.len() + size_of_val(&*shown.0.ends) + size_of_val(&*shown.0.lines)
        };
        let each = (bytes(40) - bytes(20)) / 20;
        assert!(each < 300, "{each} bytes");
    }
}
