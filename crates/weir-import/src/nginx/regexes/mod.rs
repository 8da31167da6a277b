//! Regular expressions of PCRE in the syntax of Weir's, which has neither look-around nor backreferences, and what can be told of two of them.

use regex_syntax::hir::literal::{ExtractKind, Extractor, Seq};
use regex_syntax::hir::{Hir, Look};

// Texts that are known beforehand.
mod search;

/// An expression, and others that have to be found, or must not be, beside it: what look-ahead at a known place comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NginxPattern {
    /// In Weir's syntax, with `(?i)` where letters do not count.
    pub(super) text: String,
    /// Further expressions, each with whether it has to be found.
    pub(super) beside: Vec<(String, bool)>,
}

impl NginxPattern {
    /// # Errors
    /// Why Weir has no such expression.
    pub(super) fn new(
        source: &str,
        ignores_case: bool,
        subject: PatternSubject,
    ) -> Result<NginxPattern, String> {
        let flag = if ignores_case { "(?i)" } else { "" };
        let (source, beside) = without_look_around(source)?;
        let convert = |source: &str| -> Result<String, String> {
            let text = format!("{flag}{}", converted(source, subject)?);
            parse(&text)?;
            Ok(text)
        };
        let beside = beside
            .into_iter()
            .map(|(source, wanted)| Ok((convert(&source)?, wanted)))
            .collect::<Result<_, String>>()?;
        Ok(NginxPattern { text: convert(&source)?, beside })
    }

    /// Whether every path has a match, so that nothing is left for what follows.
    pub(super) fn matches_all(&self) -> bool {
        let text = self.text.strip_prefix("(?i)").unwrap_or(&self.text);
        let all = [
            "^", "", ".", ".*", "^.*", "^.*$", ".*$", "(.*)", "^(.*)", "^(.*)$", "^/", "/", "^/(.*)",
            "^/(.*)$", "^/.*", "^/.*$", "^(.+)$", "^.+$", "^/?(.*)$",
        ];
        self.beside.is_empty() && all.contains(&text)
    }

    /// Whether a text that is known beforehand has a match; `None` where it takes too long to tell.
    pub(super) fn has_match(&self, text: &str) -> Option<bool> {
        let one = |pattern: &str| search::has_match(&parse(pattern).ok()?, text.as_bytes());
        let mut found = one(&self.text)?;
        for (pattern, wanted) in &self.beside {
            found &= one(pattern)? == *wanted;
        }
        Some(found)
    }

    /// How many groups it has.
    pub(super) fn groups(&self) -> usize {
        parse(&self.text).map_or(0, |hir| hir.properties().explicit_captures_len())
    }

    /// The names of its groups.
    pub(super) fn group_names(&self) -> Vec<String> {
        let mut names = Vec::new();
        for part in self.text.split("(?P<").skip(1).chain(self.text.split("(?<").skip(1)) {
            if let Some((name, _)) = part.split_once('>') {
                names.push(name.to_owned());
            }
        }
        names
    }

    /// Whether no text can have a match of both; `false` where it cannot be told.
    pub(super) fn excludes(&self, other: &NginxPattern) -> bool {
        let (Some(ours), Some(theirs)) = (Ends::of(&self.text), Ends::of(&other.text)) else { return false };
        let apart = |a: &Option<Vec<Vec<u8>>>, b: &Option<Vec<Vec<u8>>>, meets: fn(&[u8], &[u8]) -> bool| {
            match (a, b) {
                (Some(a), Some(b)) => a.iter().all(|a| b.iter().all(|b| !meets(a, b))),
                _ => false,
            }
        };
        apart(&ours.beginnings, &theirs.beginnings, |a, b| a.starts_with(b) || b.starts_with(a))
            || apart(&ours.endings, &theirs.endings, |a, b| a.ends_with(b) || b.ends_with(a))
    }

    /// Whether no path that begins with `prefix` can have a match.
    pub(super) fn excludes_prefix(&self, prefix: &str) -> bool {
        let Some(Ends { beginnings: Some(beginnings), .. }) = Ends::of(&self.text) else { return false };
        let prefix = prefix.to_ascii_lowercase().into_bytes();
        beginnings.iter().all(|one| !one.starts_with(&prefix) && !prefix.starts_with(one))
    }

    /// Whether every path with a match begins with `prefix`.
    pub(super) fn implies_prefix(&self, prefix: &str) -> bool {
        let Some(Ends { beginnings: Some(beginnings), .. }) = Ends::of(&self.text) else { return false };
        !self.text.starts_with("(?i)")
            && beginnings.iter().all(|one| one.starts_with(prefix.to_ascii_lowercase().as_bytes()))
    }
}

/// What an expression is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) enum PatternSubject {
    /// A text that is the same in nginx and here.
    #[default]
    Text,
    /// The path, which Weir compares percent-encoded.
    Path,
    /// The target, or its query, as it was received, but for what no URL has, which Weir percent-encodes.
    Target,
}

impl PatternSubject {
    /// Of a value, by its name in conditions.
    pub(super) fn of(name: &str) -> PatternSubject {
        match name {
            "path" => PatternSubject::Path,
            "target" | "args" => PatternSubject::Target,
            _ => PatternSubject::Text,
        }
    }

    /// Whether it has a character percent-encoded.
    fn encodes(self, character: char) -> bool {
        match self {
            PatternSubject::Text => false,
            PatternSubject::Path => is_encoded(character),
            PatternSubject::Target => !character.is_ascii() || "\"<>\\^`{|}".contains(character),
        }
    }
}

/// What is said of an expression with characters that no URL has.
pub(super) const ENCODED: &str = "characters that no URL has, such as `<`, count as such and percent-encoded";

/// With which texts a match begins at the beginning, and ends at the end, in lower case; `None` if it need not, or with too many.
struct Ends {
    beginnings: Option<Vec<Vec<u8>>>,
    endings: Option<Vec<Vec<u8>>>,
}

impl Ends {
    fn of(text: &str) -> Option<Ends> {
        let hir = parse(text.strip_prefix("(?i)").unwrap_or(text)).ok()?;
        let lower = |sequence: Seq| -> Option<Vec<Vec<u8>>> {
            let literals = sequence.literals()?.iter();
            Some(literals.map(|literal| literal.as_bytes().to_ascii_lowercase()).collect())
        };
        let is_tied = |look| hir.properties().look_set_prefix().contains(look);
        let beginnings = is_tied(Look::Start).then(|| lower(Extractor::new().extract(&hir))).flatten();
        let endings = hir.properties().look_set_suffix().contains(Look::End);
        let endings =
            endings.then(|| lower(Extractor::new().kind(ExtractKind::Suffix).extract(&hir))).flatten();
        Some(Ends { beginnings, endings })
    }
}

fn parse(text: &str) -> Result<Hir, String> {
    let mut parser = regex_syntax::ParserBuilder::new().unicode(false).utf8(false).build();
    parser.parse(text).map_err(|error| {
        let message = error.to_string();
        let reason = message.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
        format!("Weir has no such regular expression: {reason}")
    })
}

/// A literal text as a part of an expression.
pub(super) fn escaped(text: &str) -> String {
    regex_syntax::escape(text)
}

/// Takes look-ahead behind a literal beginning, and look-behind at the end, out of an expression.
fn without_look_around(source: &str) -> Result<(String, Vec<(String, bool)>), String> {
    let mut source = without_literal_behind(source).unwrap_or_else(|| source.to_owned());
    let mut beside = Vec::new();
    if let Some((before, words)) = tempered(&source) {
        beside.push((format!("\\.[^.]*(?:{words})[^.]*$"), false));
        source = format!("{before}\\.[^.]*$");
    }
    while let Some(at) = source.find("(?!").or_else(|| source.find("(?=")) {
        let wanted = source[at..].starts_with("(?=");
        let end = closing(&source, at).ok_or("a parenthesis is not closed")?;
        let before = &source[..at];
        let literal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '_' | '-' | '\\' | '.');
        let is_literal = before.strip_prefix('^').is_some_and(|rest| rest.chars().all(literal));
        if !is_literal || source[..at].contains("(?<") {
            return Err("Weir's regular expressions have no look-ahead such as `(?!...)`: they take linear time; write a location of its own for what is left out".to_owned());
        }
        beside.push((format!("{before}(?:{})", &source[at + 3..end]), wanted));
        let groups = groups_in(&source[at + 3..end], wanted)?;
        source.replace_range(at..=end, &groups);
    }
    if let Some(at) = source.find("(?<!").or_else(|| source.find("(?<=")) {
        let wanted = source[at..].starts_with("(?<=");
        let end = closing(&source, at).ok_or("a parenthesis is not closed")?;
        if &source[end + 1..] != "$" {
            return Err("Weir's regular expressions have no look-behind such as `(?<!...)`: they take linear time; write a location of its own for what is left out".to_owned());
        }
        beside.push((format!("(?:{})$", &source[at + 4..end]), wanted));
        let groups = groups_in(&source[at + 4..end], wanted)?;
        source.replace_range(at..=end, &groups);
    }
    Ok((source, beside))
}

/// Groups that keep the numbers of those behind them: in what must not be there, they have no value.
fn groups_in(source: &str, wanted: bool) -> Result<String, String> {
    let groups = parse(source).map_or(0, |hir| hir.properties().explicit_captures_len());
    if groups > 0 && wanted {
        return Err("a group within look-ahead has no value here: write `(?:...)` there".to_owned());
    }
    Ok("()".repeat(groups))
}

/// `(.*)\\.((?!css|js).)*$`: what comes first, and the words that are nowhere behind a dot. Behind the last dot is the least, so these words
/// are asked for there: where another dot would do, the last one does.
fn tempered(source: &str) -> Option<(&str, &str)> {
    let (before, rest) = source.split_once("(.*)\\.((?!").or_else(|| source.split_once("(.*)\\.(?:(?!"))?;
    let words = rest.strip_suffix(").)*$")?;
    let is_word = |word: &str| {
        let word = word.strip_suffix("\\b").unwrap_or(word);
        !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    if before.contains("(?!") || before.contains("(?=") || !words.split('|').all(is_word) {
        return None;
    }
    Some((&source[..before.len() + "(.*)".len()], words))
}

/// `/\\.(?!well-known).*`: what follows is not this text, spelled out, where nothing else has to follow.
fn without_literal_behind(source: &str) -> Option<String> {
    let at = source.find("(?!")?;
    let end = closing(source, at)?;
    let literal = source[at + 3..end].replace("\\/", "/").replace("\\-", "-").replace("\\.", ".");
    let is_literal = literal.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '/' | '.'));
    let ends = matches!(&source[end + 1..], "" | ".*" | ".*$");
    if !is_literal || literal.is_empty() || literal.len() > 24 || !ends || source[..at].starts_with('^') {
        return None;
    }
    let other = literal.chars().rev().fold(String::new(), |rest, character| {
        let one = escaped(&character.to_string());
        let further = if rest.is_empty() { rest } else { format!("|{one}{rest}") };
        format!("(?:$|[^{one}]{further})")
    });
    Some(format!("{}{other}", &source[..at]))
}

/// Where the parenthesis closes that opens at `at`.
fn closing(source: &str, at: usize) -> Option<usize> {
    let (mut depth, mut in_class, mut escaped) = (0_usize, false, false);
    for (index, character) in source[at..].char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '[' => in_class = true,
            ']' => in_class = false,
            '(' if !in_class => depth += 1,
            ')' if !in_class => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + index);
                }
            }
            _ => {}
        }
    }
    None
}

/// Character by character: what PCRE and Weir write otherwise.
fn converted(source: &str, subject: PatternSubject) -> Result<String, String> {
    let mut text = String::new();
    let characters: Vec<char> = source.chars().collect();
    let mut at = 0;
    let mut class: Option<PatternClass> = None;
    while let Some(&character) = characters.get(at) {
        let next = characters.get(at + 1).copied();
        let is_range = next == Some('-') || at > 0 && characters[at - 1] == '-';
        at += 1;
        if let Some(open) = &mut class {
            match character {
                '\\' => {
                    at += 1;
                    let is_encoded =
                        next.is_some_and(|next| !next.is_ascii_alphanumeric() && subject.encodes(next));
                    match next.filter(|_| is_encoded && !open.is_negated) {
                        Some(next) => open.beside.push(encoded(&next.to_string())),
                        None => text.push_str(&escape(next, true)?),
                    }
                }
                '[' if next == Some(':') => text.push('['),
                // `[:alpha:]` within a class does not end it.
                ']' if ends_posix_class(&text) => text.push(']'),
                ']' => {
                    text.push(']');
                    if let Some(open) = class.take() {
                        open.close(&mut text);
                    }
                }
                other if subject.encodes(other) && !open.is_negated && !is_range => {
                    open.beside.push(encoded(&other.to_string()));
                }
                '[' => text.push_str("\\["),
                '&' | '~' => text.extend(['\\', character]),
                other if subject != PatternSubject::Text && !other.is_ascii() => {
                    return Err("a path is compared percent-encoded: write letters beyond ASCII as a group such as `(?:%C3%A4|%C3%B6)`".to_owned());
                }
                other => text.push(other),
            }
            continue;
        }
        match character {
            '\\' => {
                at += 1;
                match next {
                    Some('s') if subject == PatternSubject::Path => text.push_str("(?:%20|%09|%0A|%0D)"),
                    Some(next) if !next.is_ascii_alphanumeric() && subject.encodes(next) => {
                        text.push_str(&encoded(&next.to_string()));
                    }
                    _ => text.push_str(&escape(next, false)?),
                }
            }
            '[' => {
                let is_negated = next == Some('^');
                let open = PatternClass { at: text.len(), is_negated, beside: Vec::new() };
                text.push('[');
                if is_negated {
                    text.push('^');
                    at += 1;
                }
                class = Some(open);
                if characters.get(at) == Some(&']') {
                    text.push_str("\\]");
                    at += 1;
                }
            }
            '+' if text.ends_with(['+', '*', '?'])
                && !text.ends_with("\\+")
                && !text.ends_with("\\*")
                && !text.ends_with("\\?") =>
            {
                return Err("Weir's regular expressions have no possessive repetition such as `a++`: leave the second `+` out".to_owned());
            }
            '{' if is_repetition(&characters[at..]) => {
                let end = characters[at..].iter().position(|next| *next == '}').unwrap_or(0);
                text.push('{');
                text.extend(&characters[at..=at + end]);
                at += end + 1;
            }
            '{' if !subject.encodes('{') => text.push_str("\\{"),
            '(' if next == Some('?') => at = group(&characters, at, &mut text)?,
            '^' | '|' | '?' => text.push(character),
            other if subject.encodes(other) => text.push_str(&encoded(&other.to_string())),
            other => text.push(other),
        }
    }
    Ok(text)
}

/// A class of characters that is open.
struct PatternClass {
    /// Where it begins in the result.
    at: usize,
    is_negated: bool,
    /// Members that are more than one character where they are percent-encoded.
    beside: Vec<String>,
}

impl PatternClass {
    /// Puts what is beside it into a group with it.
    fn close(self, text: &mut String) {
        if self.beside.is_empty() {
            return;
        }
        let class = text.split_off(self.at);
        let class = if class == "[]" { None } else { Some(class) };
        let all: Vec<String> = class.into_iter().chain(self.beside).collect();
        text.push_str(&format!("(?:{})", all.join("|")));
    }
}

/// Whether a text ends with the beginning of the end of `[:alpha:]`.
fn ends_posix_class(text: &str) -> bool {
    text.ends_with(':')
        && text.rfind("[:").is_some_and(|open| {
            open + 2 < text.len()
                && !text[open + 2..text.len() - 1].contains(|c: char| !c.is_ascii_alphabetic() && c != '^')
        })
}

/// The beginning of a group with a question mark, from behind its parenthesis; where the text goes on.
fn group(characters: &[char], at: usize, text: &mut String) -> Result<usize, String> {
    let rest = &characters[at..];
    match rest.get(1) {
        Some('\'') => {
            let name: String = rest[2..].iter().take_while(|c| **c != '\'').collect();
            text.push_str(&format!("(?<{name}>"));
            Ok(at + 3 + name.chars().count())
        }
        Some('>') => {
            Err("Weir's regular expressions have no atomic groups `(?>...)`: write `(?:...)`".to_owned())
        }
        _ => {
            let end = rest.iter().position(|next| matches!(next, ':' | '>' | ')' | '=' | '!'));
            let end = end.ok_or("a parenthesis is not closed")?;
            text.push('(');
            // A parenthesis closes flags alone, and belongs to them.
            text.extend(&rest[..=end]);
            Ok(at + end + 1)
        }
    }
}

/// Whether a path has a character percent-encoded in Weir's normal form.
fn is_encoded(character: char) -> bool {
    !character.is_ascii() || !(character.is_ascii_alphanumeric() || PLAIN.contains(&(character as u8)))
}

/// What follows a backslash.
fn escape(next: Option<char>, in_class: bool) -> Result<String, String> {
    match next {
        None => Err("the expression ends with a backslash".to_owned()),
        Some('Z') => Ok("\\z".to_owned()),
        Some('/') => Ok("/".to_owned()),
        Some('-') if !in_class => Ok("-".to_owned()),
        Some(c @ ('<' | '>' | '"' | '\'' | '=' | ':' | ',' | '@' | '%' | ';' | '!' | '_' | ' ')) => {
            Ok(c.to_string())
        }
        Some('h') => Ok(if in_class { " \\t" } else { "[ \\t]" }.to_owned()),
        Some(digit @ '1'..='9') if !in_class => Err(format!(
            "Weir's regular expressions have no backreferences such as `\\{digit}`: they take linear time"
        )),
        Some(letter @ ('K' | 'Q' | 'E' | 'R' | 'G' | 'X' | 'C')) => {
            Err(format!("Weir's regular expressions have no `\\{letter}`"))
        }
        Some('e') => Ok("\\x1b".to_owned()),
        Some(other) => Ok(format!("\\{other}")),
    }
}

/// Whether what follows `{` makes it a repetition.
fn is_repetition(rest: &[char]) -> bool {
    let inner: String = rest.iter().take_while(|c| **c != '}').collect();
    let is_number = |text: &str| text.chars().all(|c| c.is_ascii_digit());
    let (from, to) = inner.split_once(',').unwrap_or((&inner, ""));
    inner.len() < rest.len() && !from.is_empty() && is_number(from) && is_number(to)
}

/// What a path has as it is, beside letters and digits.
const PLAIN: &[u8] = b"-._~!$&'()*+,;=:@/";

/// A path in Weir's normal form: what a URL cannot have is percent-encoded.
pub(super) fn encoded(path: &str) -> String {
    let mut text = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || PLAIN.contains(&byte) {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(source: &str) -> NginxPattern {
        NginxPattern::new(source, false, PatternSubject::Path).unwrap()
    }

    #[test]
    fn the_syntax_of_pcre_becomes_that_of_weir() {
        for (source, expected) in [
            (r"\.php$", r"\.php$"),
            (r"^\/a\-b", "^/a-b"),
            (r"[[]x&&y~]", r"(?:%5B)x&&y~%5D"),
            (r"^/[?&]a[^?]+\?b", r"^/(?:[\&]|%3F)a[^?]+%3Fb"),
            (r"[<>]|\|", r"(?:%3C|%3E)|%7C"),
            ("(?<n>a)%", "(?<n>a)%25"),
            (r"[a&&b]", r"[a\&\&b]"),
            (r"[[:alpha:]_]+x", r"[[:alpha:]_]+x"),
            ("^/a{b}", "^/a%7Bb%7D"),
            (r"^/a{2,3}", "^/a{2,3}"),
            (r"(?'name'x)", "(?<name>x)"),
            ("^/ä b", "^/%C3%A4%20b"),
        ] {
            assert_eq!(pattern(source).text, expected, "{source}");
        }
        for source in [r"(a)\1", "a++", "(?>a)", "x(?!y)z", r"\Qa\E", "("] {
            assert!(NginxPattern::new(source, false, PatternSubject::Path).is_err(), "{source}");
        }
    }

    #[test]
    fn look_around_at_a_known_place_is_a_condition() {
        let found = pattern(r"^/(?!index|core\/x)(.*)$");
        assert_eq!(found.text, "^/(.*)$");
        assert_eq!(found.beside, vec![("^/(?:index|core/x)".to_owned(), false)]);
        let found = pattern(r"^/(?!(x|y))(.*)$");
        assert_eq!((found.text.as_str(), found.groups()), ("^/()(.*)$", 2));
        let found = pattern(r"^/(a|b)\/(.*)\.((?!ico|js\b).)*$");
        assert_eq!(found.text, r"^/(a|b)/(.*)\.[^.]*$");
        assert_eq!(found.beside, vec![(r"\.[^.]*(?:ico|js\b)[^.]*$".to_owned(), false)]);
        assert_eq!(pattern(r"/\.(?!ab).*").text, r"/\.(?:$|[^a]|a(?:$|[^b]))");
        assert_eq!(pattern(r"^/a.*(?<!\.php)$").beside, vec![(r"(?:\.php)$".to_owned(), false)]);
    }

    #[test]
    fn expressions_with_other_beginnings_or_endings_exclude_each_other() {
        assert!(pattern("^/a/").excludes(&pattern("^/b/(.*)$")));
        assert!(pattern(r"\.php$").excludes(&pattern(r"\.(css|js)$")));
        assert!(!pattern(r"\.php$").excludes(&pattern("^/a/")));
        assert!(!pattern(r"\.p$").excludes(&pattern(r"\.php\.p$")));
        assert!(pattern("^/(a|b)/").excludes_prefix("/c/"));
        assert!(pattern("^/a/b").implies_prefix("/a/"));
    }
}
