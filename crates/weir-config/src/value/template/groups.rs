//! A template with groups of a regular expression: `"/{1}"`, in which a number stands for what a group has matched.

use std::fmt;
use std::str::FromStr;

use super::Template;

/// A piece of such a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupPiece {
    /// Text with values.
    Template(Template),
    /// What a group has matched; 0 is the whole match.
    Group(usize),
}

/// Text with values and groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupTemplate {
    pieces: Box<[GroupPiece]>,
}

impl GroupTemplate {
    /// Its pieces, one after the other.
    pub fn pieces(&self) -> &[GroupPiece] {
        &self.pieces
    }

    /// Its parts that have text and values.
    pub fn templates(&self) -> impl Iterator<Item = &Template> {
        self.pieces.iter().filter_map(|piece| match piece {
            GroupPiece::Template(template) => Some(template),
            GroupPiece::Group(_) => None,
        })
    }

    /// The groups that it names.
    pub fn groups(&self) -> impl Iterator<Item = usize> {
        self.pieces.iter().filter_map(|piece| match piece {
            GroupPiece::Group(group) => Some(*group),
            GroupPiece::Template(_) => None,
        })
    }
}

impl FromStr for GroupTemplate {
    type Err = <Template as FromStr>::Err;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (mut pieces, mut from, mut at) = (Vec::new(), 0, 0);
        let push = |range: std::ops::Range<usize>, pieces: &mut Vec<GroupPiece>| {
            let parsed = text[range.clone()].parse::<Template>().map_err(|error| {
                let wrong = error.range.clone().unwrap_or(0..range.len());
                error.range(range.start + wrong.start..range.start + wrong.end)
            })?;
            if !range.is_empty() {
                pieces.push(GroupPiece::Template(parsed));
            }
            Ok::<(), Self::Err>(())
        };
        while let Some(open) = text[at..].find('{').map(|found| at + found) {
            at = open + 1;
            if text[at..].starts_with('{') {
                at += 1;
                continue;
            }
            let len = text[at..].bytes().take_while(u8::is_ascii_digit).count();
            let is_group = (1..=2).contains(&len) && text[at + len..].starts_with('}');
            let Some(group) = text[at..at + len].parse().ok().filter(|_| is_group) else { continue };
            push(from..open, &mut pieces)?;
            pieces.push(GroupPiece::Group(group));
            at += len + 1;
            from = at;
        }
        push(from..text.len(), &mut pieces)?;
        Ok(Self { pieces: pieces.into() })
    }
}

impl fmt::Display for GroupTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pieces.iter().try_for_each(|piece| match piece {
            GroupPiece::Template(template) => template.fmt(f),
            GroupPiece::Group(group) => write!(f, "{{{group}}}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_numbers_in_braces() {
        for (text, groups) in [
            ("", vec![]),
            ("/{1}{host}/{12}", vec![1, 12]),
            ("{{1}}", vec![]),
            ("a{0}", vec![0]),
            ("{{{1}", vec![1]),
        ] {
            let parsed: GroupTemplate = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(parsed.groups().collect::<Vec<_>>(), groups, "{text}");
            assert_eq!(parsed.to_string(), text);
        }
    }

    #[test]
    fn mistakes_are_told_with_their_place() {
        for (text, range) in [("{1}{hosst}", 3..10), ("{1}{2", 3..5), ("{123}", 0..5), ("{1}}", 3..4)] {
            assert_eq!(text.parse::<GroupTemplate>().expect_err(text).range, Some(range), "{text}");
        }
    }
}
