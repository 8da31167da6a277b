//! Words and lines, by Caddy's rules for quotes, backticks, heredocs and comments (`caddyfile/lexer.go`).

use std::rc::Rc;

/// A word and its place.
#[derive(Clone, Debug)]
pub(super) struct CaddyToken {
    pub(super) text: String,
    pub(super) file: Rc<str>,
    pub(super) line: u32,
    pub(super) column: u32,
    /// Whether it was written in quotes, backticks or as a heredoc.
    pub(super) quoted: bool,
    /// Whether it is the first one of its line.
    pub(super) starts_line: bool,
    /// The comments right above it.
    pub(super) comments: Vec<String>,
}

/// What is wrong, and where: line and column.
pub(super) type CaddyLexicalError = (u32, u32, String);

struct CaddyLexer<'t> {
    rest: std::iter::Peekable<std::str::Chars<'t>>,
    file: Rc<str>,
    line: u32,
    column: u32,
    starts_line: bool,
    comments: Vec<String>,
    tokens: Vec<CaddyToken>,
}

/// All words of a text.
pub(super) fn tokens(text: &str, file: &Rc<str>) -> Result<Vec<CaddyToken>, CaddyLexicalError> {
    let mut lexer = CaddyLexer {
        rest: text.strip_prefix('\u{feff}').unwrap_or(text).chars().peekable(),
        file: file.clone(),
        line: 1,
        column: 1,
        starts_line: true,
        comments: Vec::new(),
        tokens: Vec::new(),
    };
    lexer.run()?;
    Ok(lexer.tokens)
}

impl CaddyLexer<'_> {
    fn run(&mut self) -> Result<(), CaddyLexicalError> {
        while let Some(&next) = self.rest.peek() {
            let (line, column) = (self.line, self.column);
            match next {
                '\n' => self.end_line(),
                space if space.is_whitespace() => drop(self.advance()),
                '#' => self.comment(),
                '\\' if self.is_continued() => {
                    self.advance();
                    while self.advance().is_some_and(|character| character != '\n') {}
                }
                '"' => {
                    self.advance();
                    let text = self.quoted((line, column))?;
                    self.push(text, (line, column), true);
                }
                '`' => {
                    self.advance();
                    let text = self.until('`', (line, column))?;
                    self.push(text, (line, column), true);
                }
                _ => self.bare((line, column))?,
            }
        }
        Ok(())
    }

    fn advance(&mut self) -> Option<char> {
        let character = self.rest.next()?;
        (self.line, self.column) =
            if character == '\n' { (self.line + 1, 1) } else { (self.line, self.column + 1) };
        Some(character)
    }

    fn end_line(&mut self) {
        // A line without anything ends a group of comments.
        if self.starts_line && self.column == 1 {
            self.comments.clear();
        }
        self.advance();
        self.starts_line = true;
    }

    /// Whether the line goes on behind a backslash.
    fn is_continued(&self) -> bool {
        let mut rest = self.rest.clone();
        rest.next();
        matches!(rest.next(), Some('\n'))
            || matches!((rest.next(), self.rest.clone().nth(1)), (Some('\n'), Some('\r')))
    }

    fn comment(&mut self) {
        let own_line = self.starts_line;
        let mut text = String::new();
        while self.rest.peek().is_some_and(|character| *character != '\n') {
            text.extend(self.advance());
        }
        if own_line {
            self.comments.push(text.trim_matches(|c| c == '#' || c == ' ' || c == '\r').to_owned());
            // The end of its own line is no empty one.
            self.rest
                .next_if_eq(&'\n')
                .into_iter()
                .for_each(|_| (self.line, self.column) = (self.line + 1, 1));
        }
    }

    fn push(&mut self, text: String, (line, column): (u32, u32), quoted: bool) {
        let comments = std::mem::take(&mut self.comments);
        let file = self.file.clone();
        let starts_line = std::mem::replace(&mut self.starts_line, false);
        self.tokens.push(CaddyToken { text, file, line, column, quoted, starts_line, comments });
    }

    /// Up to the partner of a quotation mark; a backslash before one is none of the text, any other is.
    fn quoted(&mut self, at: (u32, u32)) -> Result<String, CaddyLexicalError> {
        let mut text = String::new();
        loop {
            match self.advance() {
                None => return Err((at.0, at.1, "this quotation mark has no partner".to_owned())),
                Some('"') => return Ok(text),
                Some('\\') if self.rest.peek() == Some(&'"') => text.extend(self.advance()),
                Some(character) => text.push(character),
            }
        }
    }

    fn until(&mut self, end: char, at: (u32, u32)) -> Result<String, CaddyLexicalError> {
        let mut text = String::new();
        loop {
            match self.advance() {
                None => return Err((at.0, at.1, "this backtick has no partner".to_owned())),
                Some(character) if character == end => return Ok(text),
                Some(character) => text.push(character),
            }
        }
    }

    fn bare(&mut self, at: (u32, u32)) -> Result<(), CaddyLexicalError> {
        let mut text = String::new();
        while let Some(&next) = self.rest.peek() {
            if next.is_whitespace() {
                break;
            }
            if next == '\\' && self.is_continued() {
                break;
            }
            text.extend(self.advance());
        }
        let marker = text.strip_prefix("<<").filter(|marker| {
            !marker.is_empty() && marker.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-')
        });
        let Some(marker) = marker.map(str::to_owned) else {
            self.push(text, at, false);
            return Ok(());
        };
        let text = self.heredoc(&marker, at)?;
        self.push(text, at, true);
        Ok(())
    }

    /// Lines up to one with the marker alone, whose indentation is taken off all of them.
    fn heredoc(&mut self, marker: &str, at: (u32, u32)) -> Result<String, CaddyLexicalError> {
        while self.advance().is_some_and(|character| character != '\n') {}
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            while self.rest.peek().is_some_and(|character| *character != '\n') {
                line.extend(self.advance());
                if line.trim_start() == marker
                    && self.rest.peek().is_none_or(|character| character.is_whitespace())
                {
                    let indent = &line[..line.len() - marker.len()];
                    return without_indent(&lines, indent).ok_or_else(|| {
                        (at.0, at.1, format!("a line is less indented than its end, `{marker}`"))
                    });
                }
            }
            if self.advance().is_none() {
                return Err((at.0, at.1, format!("this text does not end with `{marker}`")));
            }
            lines.push(line.trim_end_matches('\r').to_owned());
        }
    }
}

fn without_indent(lines: &[String], indent: &str) -> Option<String> {
    let line = |line: &String| match line.strip_prefix(indent) {
        Some(rest) => Some(rest.to_owned()),
        None => line.trim().is_empty().then(String::new),
    };
    Some(lines.iter().map(line).collect::<Option<Vec<String>>>()?.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        tokens(text, &"Caddyfile".into()).unwrap().into_iter().map(|token| token.text).collect()
    }

    #[test]
    fn words_are_told_apart_as_caddy_does() {
        for (text, expected) in [
            ("a b\tc\n", vec!["a", "b", "c"]),
            ("respond \"say \\\"hi\\\" \\d\"", vec!["respond", "say \"hi\" \\d"]),
            ("respond `{\"a\": 1}` 200", vec!["respond", "{\"a\": 1}", "200"]),
            ("respond <<END\n\t\tone\n\t\t  two\n\t\tEND 200\n", vec!["respond", "one\n  two", "200"]),
            ("a # comment\nb#no", vec!["a", "b#no"]),
            ("a \\\n b", vec!["a", "b"]),
            ("\"two\nlines\"", vec!["two\nlines"]),
        ] {
            assert_eq!(words(text), expected, "{text:?}");
        }
        for bad in ["\"a", "`a", "<<END\na\n"] {
            assert!(tokens(bad, &"Caddyfile".into()).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn places_and_comments_are_known() {
        let tokens = tokens("# of a\na b\n\n# lost\n\n  c\n", &"Caddyfile".into()).unwrap();
        let places: Vec<_> =
            tokens.iter().map(|token| (token.line, token.column, token.starts_line)).collect();
        assert_eq!(places, [(2, 1, true), (2, 3, false), (6, 3, true)]);
        assert_eq!(tokens[0].comments, ["of a"]);
        assert!(tokens[2].comments.is_empty());
    }
}
