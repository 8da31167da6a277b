//! Texts that a regular expression matches, as far as they can be written down without a search: enough to ask for what a config names.

/// Up to three texts that match, and begin where the expression may begin.
pub(crate) fn samples(pattern: &str) -> Vec<String> {
    let mut found = Vec::new();
    for choice in 0..3 {
        let chars: Vec<char> = pattern.chars().collect();
        let mut sampler = PatternSampler { chars: &chars, at: 0, choice, groups: 0 };
        let text = sampler.alternatives();
        if !found.contains(&text) {
            found.push(text);
        }
    }
    found
}

struct PatternSampler<'p> {
    chars: &'p [char],
    at: usize,
    /// Which alternative to take, and how often to repeat.
    choice: usize,
    groups: usize,
}

impl PatternSampler<'_> {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn alternatives(&mut self) -> String {
        let mut all = vec![self.sequence()];
        while self.peek() == Some('|') {
            self.at += 1;
            all.push(self.sequence());
        }
        let index = self.choice % all.len();
        all.swap_remove(index)
    }

    fn sequence(&mut self) -> String {
        let mut text = String::new();
        while let Some(next) = self.peek() {
            if next == '|' || next == ')' {
                break;
            }
            let piece = self.atom();
            text.push_str(&self.repeated(piece));
        }
        text
    }

    fn atom(&mut self) -> String {
        let next = self.chars[self.at];
        self.at += 1;
        match next {
            '^' | '$' => String::new(),
            '.' => "x".to_owned(),
            '(' => self.group(),
            '[' => self.class(),
            '\\' => self.escape(),
            other => other.to_string(),
        }
    }

    fn group(&mut self) -> String {
        self.groups += 1;
        let mut is_assertion = false;
        if self.peek() == Some('?') {
            self.at += 1;
            let kind = self.peek();
            match kind {
                Some(':' | 'i') => {
                    while self.peek().is_some_and(|next| next != ':' && next != ')') {
                        self.at += 1;
                    }
                    self.at += usize::from(self.peek() == Some(':'));
                }
                Some('=' | '!') => {
                    is_assertion = true;
                    self.at += 1;
                }
                Some('<' | 'P') => {
                    is_assertion = matches!(self.chars.get(self.at + 1), Some('=' | '!'));
                    while self.peek().is_some_and(|next| next != '>' && next != ')' && !is_assertion) {
                        self.at += 1;
                    }
                    self.at += if is_assertion { 2 } else { 1 };
                }
                _ => {}
            }
        }
        let text = self.alternatives();
        self.at += usize::from(self.peek() == Some(')'));
        if is_assertion { String::new() } else { text }
    }

    fn class(&mut self) -> String {
        let is_negated = self.peek() == Some('^');
        self.at += usize::from(is_negated);
        let start = self.at;
        while self.peek().is_some_and(|next| next != ']' || self.at == start) {
            self.at += if self.peek() == Some('\\') { 2 } else { 1 };
        }
        let end = self.at.min(self.chars.len());
        self.at += 1;
        let members: String = self.chars[start..end].iter().collect();
        if is_negated {
            let unlike = |candidate: &&char| !members.contains(**candidate);
            return ['q', '7', '-', 'Z'].iter().find(unlike).copied().unwrap_or('~').to_string();
        }
        match members.chars().next() {
            Some('\\') => self.escaped(members.chars().nth(1).unwrap_or('\\')),
            Some(first) => first.to_string(),
            None => String::new(),
        }
    }

    fn escape(&mut self) -> String {
        let next = self.peek().unwrap_or('\\');
        self.at += 1;
        self.escaped(next)
    }

    fn escaped(&self, next: char) -> String {
        match next {
            'd' => "4".to_owned(),
            'w' => "w".to_owned(),
            's' => " ".to_owned(),
            'S' | 'D' => "s".to_owned(),
            'W' => "-".to_owned(),
            'b' | 'B' | 'A' | 'z' => String::new(),
            other => other.to_string(),
        }
    }

    fn repeated(&mut self, piece: String) -> String {
        let times = match self.peek() {
            Some('*') => [1, 0, 2][self.choice % 3],
            Some('+') => [1, 2, 3][self.choice % 3],
            Some('?') => [1, 0, 1][self.choice % 3],
            Some('{') if self.chars.get(self.at + 1).is_some_and(char::is_ascii_digit) => {
                let end = self.chars[self.at..].iter().position(|next| *next == '}').unwrap_or(0);
                let text: String = self.chars[self.at + 1..self.at + end].iter().collect();
                self.at += end;
                text.split(',').next().and_then(|first| first.parse().ok()).unwrap_or(1).min(64)
            }
            _ => return piece,
        };
        self.at += 1;
        if matches!(self.peek(), Some('?' | '+')) {
            self.at += 1;
        }
        piece.repeat(times)
    }
}

#[cfg(test)]
mod tests {
    use super::samples;

    #[test]
    fn what_is_sampled_matches() {
        assert_eq!(samples(r"^/(a|b)/(\d+)\.php$"), ["/a/4.php", "/b/44.php", "/a/444.php"]);
        assert_eq!(samples(r"\.(?:css|js)$"), [".css", ".js"]);
        assert_eq!(samples(r"^/(?<name>[a-z]{2,})(/.*)?$"), ["/aa/x", "/aa", "/aa/xx"]);
        assert_eq!(samples(r"^/x(?!y)[^/]+"), ["/xq", "/xqq", "/xqqq"]);
    }
}
