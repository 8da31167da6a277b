//! The words of a line, by HAProxy's rules for quotes, backslashes, variables and comments (`parse_line` of its tools).

use crate::source::Word;

/// What stands around the name of a variable that is not set.
pub(in crate::haproxy) const OPEN: char = '\u{e000}';
pub(in crate::haproxy) const CLOSE: char = '\u{e001}';

/// A line in words.
#[derive(Debug, Default)]
pub(super) struct LineWords {
    pub(super) words: Vec<Word>,
    /// What follows `#`, where the line has one.
    pub(super) comment: Option<String>,
    /// The variables whose values are in the words.
    pub(super) variables: Vec<String>,
}

struct LineReader<'l> {
    characters: Vec<char>,
    next: usize,
    line: u32,
    variable: &'l dyn Fn(&str) -> Option<String>,
    read: LineWords,
}

/// Reads a line; the error is its column and what is wrong.
pub(super) fn words(
    text: &str,
    line: u32,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<LineWords, (u32, &'static str)> {
    let mut reader = LineReader {
        characters: text.chars().collect(),
        next: 0,
        line,
        variable,
        read: LineWords::default(),
    };
    reader.line()?;
    Ok(reader.read)
}

impl LineReader<'_> {
    fn line(&mut self) -> Result<(), (u32, &'static str)> {
        while let Some(&character) = self.characters.get(self.next) {
            if character.is_whitespace() {
                self.next += 1;
            } else if character == '#' {
                let text: String = self.characters[self.next..].iter().collect();
                self.read.comment =
                    Some(text.trim_matches(|c: char| c == '#' || c.is_whitespace()).to_owned());
                return Ok(());
            } else {
                self.word()?;
            }
        }
        Ok(())
    }

    fn word(&mut self) -> Result<(), (u32, &'static str)> {
        let column = self.column();
        let (mut text, mut quote, mut quoted) = (String::new(), None, false);
        while let Some(&character) = self.characters.get(self.next) {
            let opens = quote.is_none() && matches!(character, '"' | '\'');
            if opens || quote == Some(character) {
                quote = opens.then_some(character);
                (quoted, self.next) = (true, self.next + 1);
            } else if quote.is_none() && (character.is_whitespace() || character == '#') {
                break;
            } else if character == '\\' && quote != Some('\'') {
                self.escaped(&mut text);
            } else if character == '$' && quote == Some('"') {
                self.variable(&mut text)?;
            } else {
                text.push(character);
                self.next += 1;
            }
        }
        if quote.is_some() {
            return Err((column, "this quotation mark has no partner on its line"));
        }
        self.read.words.push(Word { text, line: self.line, column, quoted });
        Ok(())
    }

    /// Behind a backslash: what needs one, the usual letters, and bytes as `\x20`; all else keeps it.
    fn escaped(&mut self, text: &mut String) {
        let follows = self.characters.get(self.next + 1).copied();
        self.next += 2;
        match follows {
            Some(character @ (' ' | '\\' | '#' | '"' | '\'' | '$')) => text.push(character),
            Some('n') => text.push('\n'),
            Some('r') => text.push('\r'),
            Some('t') => text.push('\t'),
            Some('x') => match self.hexadecimal() {
                Some(character) => text.push(character),
                None => text.push_str("\\x"),
            },
            Some(other) => text.extend(['\\', other]),
            None => text.push('\\'),
        }
        self.next = self.next.min(self.characters.len());
    }

    fn hexadecimal(&mut self) -> Option<char> {
        let digits: String = self.characters.get(self.next..self.next + 2)?.iter().collect();
        let code = u8::from_str_radix(&digits, 16).ok().filter(u8::is_ascii)?;
        self.next += 2;
        Some(char::from(code))
    }

    /// `$NAME`, `${NAME}`, `${NAME-default}` and `${NAME[*]}`.
    fn variable(&mut self, text: &mut String) -> Result<(), (u32, &'static str)> {
        let at = self.column();
        self.next += 1;
        let braces = self.characters.get(self.next) == Some(&'{');
        self.next += usize::from(braces);
        let is_name = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
        let name: String = self.characters[self.next..].iter().take_while(|c| is_name(c)).collect();
        self.next += name.chars().count();
        if name.is_empty() {
            return Err((at, "a name of a variable is expected behind `$`"));
        }
        let mut default = None;
        if braces {
            let rest = &self.characters[self.next..];
            let Some(end) = rest.iter().position(|c| *c == '}') else {
                return Err((at, "this brace is not closed"));
            };
            let rest: String = rest[..end].iter().collect();
            default = rest.strip_prefix('-').map(str::to_owned);
            self.next += end + 1;
        }
        match (self.variable)(&name).or(default) {
            Some(value) => {
                text.push_str(&value);
                self.read.variables.push(name);
            }
            // One that is not set here is left to who runs the result.
            None => text.push_str(&format!("{OPEN}{name}{CLOSE}")),
        }
        Ok(())
    }

    fn column(&self) -> u32 {
        u32::try_from(self.next + 1).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::words;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let variable = |name: &str| (name == "A").then(|| "1 2".to_owned());
        let read = words(text, 1, &variable).unwrap();
        let texts: Vec<&str> = read.words.iter().map(|word| word.text.as_str()).collect();
        assert_eq!(texts, expected, "{text}");
    }

    #[test]
    fn words_have_quotes_backslashes_and_variables() {
        check(r"bind  :80 # all", &["bind", ":80"]);
        check(r"realm HAProxy\ Statistics", &["realm", "HAProxy Statistics"]);
        check(r#"a "b c" 'd e'f"#, &["a", "b c", "d ef"]);
        check(r"path_reg ^/a\.b\d $A", &["path_reg", r"^/a\.b\d", "$A"]);
        check(r#""$A" "${A}x" "${B-none}" '$A' "\$A""#, &["1 2", "1 2x", "none", "$A", "$A"]);
        check(r"a\#b\x41\tc", &["a#bA\tc"]);
        // As HAProxy 2.6 answers with it.
        check(r#"a\ b\q\.c\#d\x41\\e\"f"g\h\$i\.j"'k\l"m'n#o"#, &[r#"a b\q\.c#dA\e"fg\h$i\.jk\l"mn"#]);
        check("a#b", &["a"]);
    }

    #[test]
    fn open_quotes_and_braces_are_mistakes() {
        for text in ["a \"b", "a 'b", "\"${A\"", "\"$\""] {
            assert!(words(text, 1, &|_| None).is_err(), "{text}");
        }
    }
}
