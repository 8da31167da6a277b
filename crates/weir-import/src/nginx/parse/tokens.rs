//! Words, braces, semicolons and comments, by nginx's rules for quotes and escapes (`ngx_conf_read_token`).

/// A piece of a config and its place.
#[derive(Debug)]
pub(super) struct NginxToken {
    pub(super) kind: NginxTokenKind,
    pub(super) line: u32,
    pub(super) column: u32,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum NginxTokenKind {
    Word {
        text: String,
        quoted: bool,
    },
    Open,
    Close,
    End,
    /// Without its `#` and the space behind it.
    Comment {
        text: String,
        /// Whether nothing else stands on its line.
        own_line: bool,
    },
    /// A line without anything, which ends a group of comments.
    BlankLine,
}

/// The tokens of a text.
pub(super) struct NginxTokens<'t> {
    rest: std::iter::Peekable<std::str::Chars<'t>>,
    line: u32,
    column: u32,
    /// Whether anything stands on the line yet.
    line_has_text: bool,
}

type LexicalError = (u32, u32, &'static str);

impl<'t> NginxTokens<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        let rest = text.strip_prefix('\u{feff}').unwrap_or(text).chars().peekable();
        NginxTokens { rest, line: 1, column: 1, line_has_text: false }
    }

    pub(super) fn next_token(&mut self) -> Result<Option<NginxToken>, LexicalError> {
        loop {
            let (line, column) = (self.line, self.column);
            let Some(character) = self.advance() else { return Ok(None) };
            let kind = match character {
                '\n' => {
                    let blank = !self.line_has_text;
                    self.line_has_text = false;
                    if !blank {
                        continue;
                    }
                    NginxTokenKind::BlankLine
                }
                space if space.is_ascii_whitespace() => continue,
                '#' => self.comment(),
                '{' => NginxTokenKind::Open,
                '}' => NginxTokenKind::Close,
                ';' => NginxTokenKind::End,
                quote @ ('"' | '\'') => self.quoted(quote, (line, column))?,
                first => self.bare(first),
            };
            self.line_has_text |= kind != NginxTokenKind::BlankLine;
            return Ok(Some(NginxToken { kind, line, column }));
        }
    }

    /// Skips a script in Lua up to the brace that closes its block, by the rules of Lua for texts and comments; whether there is one.
    pub(super) fn skip_script(&mut self) -> bool {
        let mut depth = 1_usize;
        while let Some(character) = self.advance() {
            match character {
                '{' => depth += 1,
                '}' => depth -= 1,
                quote @ ('"' | '\'') => self.skip_text(quote),
                '[' if self.rest.peek() == Some(&'[') => self.skip_until(&[']', ']']),
                '-' if self.rest.peek() == Some(&'-') => {
                    self.advance();
                    let is_long = self.rest.clone().take(2).eq(['[', '[']);
                    self.skip_until(if is_long { &[']', ']'] } else { &['\n'] });
                }
                _ => {}
            }
            if depth == 0 {
                return true;
            }
        }
        false
    }

    /// Skips a text of a script up to its second quotation mark.
    fn skip_text(&mut self, quote: char) {
        while let Some(character) = self.advance() {
            match character {
                '\\' => _ = self.advance(),
                character if character == quote => return,
                _ => {}
            }
        }
    }

    /// Skips up to and with this end.
    fn skip_until(&mut self, end: &[char]) {
        while let Some(character) = self.advance() {
            if end.first() == Some(&character) && (end.len() == 1 || self.rest.peek() == end.get(1)) {
                return;
            }
        }
    }

    fn advance(&mut self) -> Option<char> {
        let character = self.rest.next()?;
        (self.line, self.column) =
            if character == '\n' { (self.line + 1, 1) } else { (self.line, self.column + 1) };
        Some(character)
    }

    fn comment(&mut self) -> NginxTokenKind {
        let own_line = !self.line_has_text;
        let mut text = String::new();
        while self.rest.peek().is_some_and(|character| *character != '\n') {
            text.extend(self.advance());
        }
        NginxTokenKind::Comment {
            text: text.trim_matches(|c| c == '#' || c == ' ' || c == '\r').to_owned(),
            own_line,
        }
    }

    fn quoted(&mut self, quote: char, (line, column): (u32, u32)) -> Result<NginxTokenKind, LexicalError> {
        let mut text = String::new();
        loop {
            match self.advance() {
                None => return Err((line, column, "this quotation mark has no partner")),
                Some('\\') => self.escaped(&mut text),
                Some(character) if character == quote => break,
                Some(character) => text.push(character),
            }
        }
        let follows =
            self.rest.peek().is_none_or(|next| next.is_ascii_whitespace() || matches!(next, ';' | '{' | ')'));
        if !follows {
            return Err((self.line, self.column, "behind a quotation mark a space, `;` or `{` is expected"));
        }
        Ok(NginxTokenKind::Word { text, quoted: true })
    }

    /// A word without quotes; `${name}` in it opens no block.
    fn bare(&mut self, first: char) -> NginxTokenKind {
        let mut text = String::new();
        if first == '\\' {
            self.escaped(&mut text);
        } else {
            text.push(first);
        }
        while let Some(&next) = self.rest.peek() {
            let variable = next == '{' && text.ends_with('$');
            if next.is_ascii_whitespace() || next == ';' || (next == '{' && !variable) {
                break;
            }
            self.advance();
            if next == '\\' { self.escaped(&mut text) } else { text.push(next) }
        }
        NginxTokenKind::Word { text, quoted: false }
    }

    /// Behind a backslash: quotes, backslashes and the usual letters are what they stand for; others keep their backslash.
    fn escaped(&mut self, text: &mut String) {
        match self.advance() {
            Some(character @ ('"' | '\'' | '\\')) => text.push(character),
            Some('t') => text.push('\t'),
            Some('r') => text.push('\r'),
            Some('n') => text.push('\n'),
            Some(other) => text.extend(['\\', other]),
            None => text.push('\\'),
        }
    }
}
