//! Tokens to a tree: what binds how, without asking what names stand for.

use std::ops::Range;
use std::str::FromStr;

use super::error::ExpressionError;
use super::token::{SyntaxToken, TokenKind, tokens};

/// How deep parentheses, lists and negations may be in each other.
const DEPTH_MAX: usize = 16;

/// A condition as a tree.
#[derive(Debug, Clone)]
pub(super) struct SyntaxTree {
    pub(super) span: Range<usize>,
    pub(super) node: SyntaxNode,
}

#[derive(Debug, Clone)]
pub(super) enum SyntaxNode {
    Text(Vec<u8>),
    Number(i64),
    Flag(bool),
    List(Vec<SyntaxTree>),
    /// A name and its parts: `header["user-agent"]`.
    Name(Vec<String>),
    /// `receiver.function(arguments)` or `function(arguments)`.
    Call {
        function: String,
        function_span: Range<usize>,
        receiver: Option<Box<SyntaxTree>>,
        arguments: Vec<SyntaxTree>,
    },
    Not(Box<SyntaxTree>),
    /// All of them, from the left.
    All(Vec<SyntaxTree>),
    /// Any of them, from the left.
    Any(Vec<SyntaxTree>),
    /// One compared with another.
    Relation {
        relation: Relation,
        relation_span: Range<usize>,
        left: Box<SyntaxTree>,
        right: Box<SyntaxTree>,
    },
}

/// How two things are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Relation {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
}

impl Relation {
    const ALL: [(&'static str, Relation); 6] = [
        ("==", Relation::Equal),
        ("!=", Relation::NotEqual),
        ("<", Relation::Less),
        ("<=", Relation::LessOrEqual),
        (">", Relation::Greater),
        (">=", Relation::GreaterOrEqual),
    ];

    pub(super) fn sign(self) -> &'static str {
        Self::ALL.iter().find(|(_, relation)| *relation == self).map_or("in", |(sign, _)| sign)
    }
}

impl FromStr for SyntaxTree {
    type Err = ExpressionError;

    fn from_str(text: &str) -> Result<Self, ExpressionError> {
        let mut parser = Parser { tokens: &tokens(text)?, end: text.len(), depth: 0 };
        let tree = parser.any()?;
        match parser.tokens.first() {
            None => Ok(tree),
            Some(token) => Err(surplus(token)),
        }
    }
}

/// What stands behind a complete condition.
fn surplus(token: &SyntaxToken) -> ExpressionError {
    let error = |message: String| ExpressionError::new(token.span.clone(), message);
    match &token.kind {
        TokenKind::Name(name) => {
            let error = error(format!("`{name}` stands where `&&` or `||` is expected"));
            match name.to_ascii_lowercase().as_str() {
                "and" => error.help("write `&&`"),
                "or" => error.help("write `||`"),
                "eq" | "is" => error.help("write `==`"),
                "startswith" | "endswith" | "contains" | "matches" => {
                    error.help(format!("write `NAME.{name}(\"...\")`"))
                }
                _ => error,
            }
        }
        TokenKind::Sign("-") => error("`-` is no sign of a condition".to_owned())
            .help("a name with a dash needs brackets and quotes: `header[\"user-agent\"]`"),
        TokenKind::Sign(sign) => error(format!("`{sign}` stands where `&&` or `||` is expected")),
        TokenKind::Text(_) | TokenKind::Number(_) => error("`&&` or `||` is missing before this".to_owned()),
    }
}

struct Parser<'a> {
    tokens: &'a [SyntaxToken],
    /// Bytes of the whole text.
    end: usize,
    depth: usize,
}

impl Parser<'_> {
    fn any(&mut self) -> Result<SyntaxTree, ExpressionError> {
        self.joined("||", Self::all, SyntaxNode::Any)
    }

    fn all(&mut self) -> Result<SyntaxTree, ExpressionError> {
        self.joined("&&", Self::relation, SyntaxNode::All)
    }

    fn joined(
        &mut self,
        sign: &'static str,
        mut part: impl FnMut(&mut Self) -> Result<SyntaxTree, ExpressionError>,
        join: impl FnOnce(Vec<SyntaxTree>) -> SyntaxNode,
    ) -> Result<SyntaxTree, ExpressionError> {
        let mut parts = vec![part(self)?];
        while self.take(sign).is_some() {
            parts.push(part(self)?);
        }
        match (parts.len(), parts.first(), parts.last()) {
            (2.., Some(first), Some(last)) => {
                Ok(SyntaxTree { span: first.span.start..last.span.end, node: join(parts) })
            }
            _ => Ok(parts.swap_remove(0)),
        }
    }

    fn relation(&mut self) -> Result<SyntaxTree, ExpressionError> {
        let left = self.unary()?;
        let Some((relation, relation_span)) = self.take_relation() else { return Ok(left) };
        let right = self.unary()?;
        if let Some((_, span)) = self.take_relation() {
            return Err(ExpressionError::new(span, "two comparisons in a row").help("join them with `&&`"));
        }
        let span = left.span.start..right.span.end;
        let (left, right) = (Box::new(left), Box::new(right));
        Ok(SyntaxTree { span, node: SyntaxNode::Relation { relation, relation_span, left, right } })
    }

    fn take_relation(&mut self) -> Option<(Relation, Range<usize>)> {
        let token = self.tokens.first()?;
        let relation = match &token.kind {
            TokenKind::Name(name) if name == "in" => Relation::In,
            TokenKind::Sign(sign) => Relation::ALL.iter().find(|(of, _)| of == sign)?.1,
            _ => return None,
        };
        self.tokens = &self.tokens[1..];
        Some((relation, token.span.clone()))
    }

    fn unary(&mut self) -> Result<SyntaxTree, ExpressionError> {
        if let Some(span) = self.take("!") {
            let inner = self.deeper(&span, Self::unary)?;
            return Ok(SyntaxTree {
                span: span.start..inner.span.end,
                node: SyntaxNode::Not(Box::new(inner)),
            });
        }
        let mut tree = self.primary()?;
        loop {
            if self.take(".").is_some() {
                tree = self.member(tree)?;
            } else if let Some(open) = self.take("[") {
                tree = self.index(tree, &open)?;
            } else {
                return Ok(tree);
            }
        }
    }

    /// What stands behind a dot: a part of a name, or a function.
    fn member(&mut self, before: SyntaxTree) -> Result<SyntaxTree, ExpressionError> {
        let (span, name) = self.name("a name is expected behind `.`")?;
        if let Some(open) = self.take("(") {
            let (arguments, end) = self.list(")", &open)?;
            let node = SyntaxNode::Call {
                function: name,
                function_span: span,
                receiver: Some(Box::new(before.clone())),
                arguments,
            };
            return Ok(SyntaxTree { span: before.span.start..end, node });
        }
        Self::with_part(before, name, span)
    }

    /// The part of a name that is between brackets.
    fn index(&mut self, before: SyntaxTree, open: &Range<usize>) -> Result<SyntaxTree, ExpressionError> {
        let part = match self.tokens.split_first() {
            Some((SyntaxToken { kind: TokenKind::Text(text), span }, rest)) => {
                self.tokens = rest;
                String::from_utf8(text.clone())
                    .map_err(|_| ExpressionError::new(span.clone(), "a name is UTF-8"))?
            }
            Some((SyntaxToken { kind: TokenKind::Number(number), .. }, rest)) => {
                self.tokens = rest;
                number.to_string()
            }
            Some((token, _)) => {
                return Err(ExpressionError::new(
                    token.span.clone(),
                    "a name in quotes is expected in brackets",
                ));
            }
            None => return Err(self.ends_early("a name in quotes is expected in brackets")),
        };
        let Some(close) = self.take("]") else { return Err(self.not_closed(open, "]")) };
        Self::with_part(before, part, open.start..close.end)
    }

    fn with_part(
        before: SyntaxTree,
        part: String,
        span: Range<usize>,
    ) -> Result<SyntaxTree, ExpressionError> {
        match before.node {
            SyntaxNode::Name(mut parts) => {
                parts.push(part);
                Ok(SyntaxTree { span: before.span.start..span.end, node: SyntaxNode::Name(parts) })
            }
            _ => Err(ExpressionError::new(span, "only names have parts")),
        }
    }

    fn primary(&mut self) -> Result<SyntaxTree, ExpressionError> {
        const EXPECTED: &str = "a name, a text or a number is expected here";
        let Some((SyntaxToken { span, kind }, rest)) = self.tokens.split_first() else {
            return Err(self.ends_early(EXPECTED));
        };
        self.tokens = rest;
        let span = span.clone();
        let node = match kind {
            TokenKind::Text(text) => SyntaxNode::Text(text.clone()),
            TokenKind::Number(number) => SyntaxNode::Number(*number),
            TokenKind::Name(name) => return self.named(name, span),
            TokenKind::Sign("-") => match self.tokens.split_first() {
                Some((SyntaxToken { kind: TokenKind::Number(number), span: of_number }, rest))
                    if of_number.start == span.end =>
                {
                    self.tokens = rest;
                    return Ok(SyntaxTree {
                        span: span.start..of_number.end,
                        node: SyntaxNode::Number(-number),
                    });
                }
                _ => return Err(ExpressionError::new(span, EXPECTED)),
            },
            TokenKind::Sign("(") => {
                let inner = self.deeper(&span, Self::any)?;
                let Some(close) = self.take(")") else { return Err(self.not_closed(&span, ")")) };
                return Ok(SyntaxTree { span: span.start..close.end, node: inner.node });
            }
            TokenKind::Sign("[") => {
                let (items, end) = self.list("]", &span)?;
                return Ok(SyntaxTree { span: span.start..end, node: SyntaxNode::List(items) });
            }
            TokenKind::Sign(_) => return Err(ExpressionError::new(span, EXPECTED)),
        };
        Ok(SyntaxTree { span, node })
    }

    fn named(&mut self, name: &str, span: Range<usize>) -> Result<SyntaxTree, ExpressionError> {
        let node = match name {
            "true" => SyntaxNode::Flag(true),
            "false" => SyntaxNode::Flag(false),
            "in" => {
                return Err(ExpressionError::new(
                    span,
                    "`in` has something on its left: `method in [\"GET\"]`",
                ));
            }
            "not" if !self.next_is("(") => {
                return Err(ExpressionError::new(span, "`not` is no word of a condition").help("write `!`"));
            }
            _ => {
                if let Some(open) = self.take("(") {
                    let (arguments, end) = self.list(")", &open)?;
                    let (start, function) = (span.start, name.to_owned());
                    let node = SyntaxNode::Call { function, function_span: span, receiver: None, arguments };
                    return Ok(SyntaxTree { span: start..end, node });
                }
                SyntaxNode::Name(vec![name.to_owned()])
            }
        };
        Ok(SyntaxTree { span, node })
    }

    /// Things with commas between them, up to `close`.
    fn list(
        &mut self,
        close: &'static str,
        open: &Range<usize>,
    ) -> Result<(Vec<SyntaxTree>, usize), ExpressionError> {
        let mut items = Vec::new();
        loop {
            if let Some(span) = self.take(close) {
                return Ok((items, span.end));
            }
            if self.tokens.is_empty() {
                return Err(self.not_closed(open, close));
            }
            items.push(self.deeper(open, Self::any)?);
            if self.take(",").is_none() && !self.next_is(close) {
                return Err(match self.tokens.first() {
                    Some(token) => {
                        ExpressionError::new(token.span.clone(), format!("`,` or `{close}` is expected here"))
                    }
                    None => self.not_closed(open, close),
                });
            }
        }
    }

    fn deeper<T>(
        &mut self,
        span: &Range<usize>,
        part: impl FnOnce(&mut Self) -> Result<T, ExpressionError>,
    ) -> Result<T, ExpressionError> {
        if self.depth == DEPTH_MAX {
            let message = format!("a condition is {DEPTH_MAX} levels deep at most");
            return Err(ExpressionError::new(span.clone(), message));
        }
        self.depth += 1;
        let result = part(self);
        self.depth -= 1;
        result
    }

    fn name(&mut self, expected: &str) -> Result<(Range<usize>, String), ExpressionError> {
        match self.tokens.split_first() {
            Some((SyntaxToken { span, kind: TokenKind::Name(name) }, rest)) => {
                self.tokens = rest;
                Ok((span.clone(), name.clone()))
            }
            Some((token, _)) => Err(ExpressionError::new(token.span.clone(), expected)),
            None => Err(self.ends_early(expected)),
        }
    }

    fn take(&mut self, sign: &str) -> Option<Range<usize>> {
        let (token, rest) = self.tokens.split_first()?;
        if !matches!(token.kind, TokenKind::Sign(of) if of == sign) {
            return None;
        }
        self.tokens = rest;
        Some(token.span.clone())
    }

    fn next_is(&self, sign: &str) -> bool {
        self.tokens.first().is_some_and(|token| matches!(token.kind, TokenKind::Sign(of) if of == sign))
    }

    fn ends_early(&self, expected: &str) -> ExpressionError {
        ExpressionError::new(self.end..self.end, format!("the condition ends here, and {expected}"))
    }

    fn not_closed(&self, open: &Range<usize>, close: &str) -> ExpressionError {
        ExpressionError::new(open.clone(), format!("this is not closed by `{close}`"))
    }
}
