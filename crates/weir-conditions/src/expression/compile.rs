//! A tree to terms, with jumps between them: what `&&` and `||` need not ask is skipped.

use std::ops::Range;

use memchr::memmem::Finder;
use weir_traffic::route::ValueMatch;

use super::error::ExpressionError;
use super::names::{Names, ValueType};
use super::relation;
use super::step::{ExpressionStep, TERMS_MAX};
use super::syntax::{SyntaxNode, SyntaxTree};
use super::term::{ExpressionTerm, TermQuestion, TextTest};
use super::typing::{Operand, TEST_FUNCTIONS, operand, resolve, unknown_function};

/// Terms and steps.
pub(super) type Compiled<V> = (Box<[ExpressionTerm<V>]>, Box<[ExpressionStep]>);

pub(super) fn compile<N: Names>(tree: &SyntaxTree, names: &N) -> Result<Compiled<N::Value>, ExpressionError> {
    let mut compiler = Compiler { names, terms: Vec::new(), steps: Vec::new(), is_needed: true };
    compiler.condition(tree)?;
    Ok((compiler.terms.into(), compiler.steps.into()))
}

struct Compiler<'a, N: Names> {
    names: &'a N,
    terms: Vec<ExpressionTerm<N::Value>>,
    steps: Vec<ExpressionStep>,
    /// Whether the condition holds only if the part that is being compiled does.
    is_needed: bool,
}

impl<N: Names> Compiler<'_, N> {
    fn condition(&mut self, tree: &SyntaxTree) -> Result<(), ExpressionError> {
        match &tree.node {
            SyntaxNode::Flag(flag) => self.steps.push(ExpressionStep::Answer(*flag)),
            SyntaxNode::Not(inner) => {
                self.optional(|compiler| compiler.condition(inner))?;
                self.steps.push(ExpressionStep::Negate);
            }
            SyntaxNode::All(parts) => self.joined(parts, ExpressionStep::SkipIfNo)?,
            SyntaxNode::Any(parts) => {
                self.optional(|compiler| compiler.joined(parts, ExpressionStep::SkipIfYes))?;
            }
            SyntaxNode::Name(parts) => {
                let (value, value_type) = resolve(parts, &tree.span, self.names)?;
                if value_type != ValueType::Flag {
                    return Err(not_compared(&tree.span, value_type));
                }
                self.ask(tree, TermQuestion::Flag(value))?;
            }
            SyntaxNode::Call { function, function_span, receiver, arguments } => {
                let question = match receiver {
                    None if function == "has" => self.has(function_span, arguments)?,
                    Some(receiver) => self.text_test(receiver, function, function_span, arguments)?,
                    None => return Err(self.not_a_test(tree, function, function_span)),
                };
                self.ask(tree, question)?;
            }
            SyntaxNode::Relation { relation, relation_span, left, right } => {
                let sides = [operand(left, self.names)?, operand(right, self.names)?];
                let spans = [&left.span, relation_span, &right.span];
                let (question, is_negated) = relation::question(*relation, sides, spans)?;
                match question {
                    relation::RelationAnswer::TermQuestion(question) if is_negated => {
                        self.optional(|compiler| compiler.ask(tree, question))?;
                    }
                    relation::RelationAnswer::TermQuestion(question) => self.ask(tree, question)?,
                    relation::RelationAnswer::Constant(constant) => {
                        self.steps.push(ExpressionStep::Answer(constant));
                    }
                }
                if is_negated {
                    self.steps.push(ExpressionStep::Negate);
                }
            }
            SyntaxNode::Text(_) | SyntaxNode::Number(_) | SyntaxNode::List(_) => {
                let message = "a condition is expected here, not a constant";
                return Err(
                    ExpressionError::new(tree.span.clone(), message).help("compare it: `path == \"/\"`")
                );
            }
        }
        Ok(())
    }

    /// Compiles what the condition may hold without.
    fn optional(
        &mut self,
        compile: impl FnOnce(&mut Self) -> Result<(), ExpressionError>,
    ) -> Result<(), ExpressionError> {
        let before = std::mem::replace(&mut self.is_needed, false);
        let compiled = compile(self);
        self.is_needed = before;
        compiled
    }

    /// Parts of which a later one is asked only while the answer is not decided.
    fn joined(
        &mut self,
        parts: &[SyntaxTree],
        skip: fn(u16) -> ExpressionStep,
    ) -> Result<(), ExpressionError> {
        let mut skips = Vec::new();
        for (index, part) in parts.iter().enumerate() {
            if index > 0 {
                skips.push(self.steps.len());
                self.steps.push(skip(0));
            }
            self.condition(part)?;
        }
        // The text is too short for more.
        let end = u16::try_from(self.steps.len()).unwrap_or(u16::MAX);
        for at in skips {
            self.steps[at] = skip(end);
        }
        Ok(())
    }

    fn ask(&mut self, tree: &SyntaxTree, question: TermQuestion<N::Value>) -> Result<(), ExpressionError> {
        let index = self.terms.len();
        if index == TERMS_MAX {
            let message = format!("a condition has {TERMS_MAX} comparisons at most");
            return Err(ExpressionError::new(tree.span.clone(), message)
                .help("compare with a list (`host in [\"a\", \"b\"]`), or use a map"));
        }
        self.terms.push(ExpressionTerm { span: tree.span.clone(), question, is_needed: self.is_needed });
        self.steps.push(ExpressionStep::Ask(u16::try_from(index).unwrap_or(u16::MAX)));
        Ok(())
    }

    /// `has(NAME)`.
    fn has(
        &self,
        span: &Range<usize>,
        arguments: &[SyntaxTree],
    ) -> Result<TermQuestion<N::Value>, ExpressionError> {
        match arguments {
            [SyntaxTree { node: SyntaxNode::Name(parts), span }] => {
                resolve(parts, span, self.names).map(|(value, _)| TermQuestion::Present(value))
            }
            _ => Err(ExpressionError::new(span.clone(), "`has` has the form `has(NAME)`")),
        }
    }

    /// `NAME.startsWith("...")` and its like.
    fn text_test(
        &self,
        receiver: &SyntaxTree,
        function: &str,
        span: &Range<usize>,
        arguments: &[SyntaxTree],
    ) -> Result<TermQuestion<N::Value>, ExpressionError> {
        let error = |message: String| ExpressionError::new(span.clone(), message);
        if function == "has" {
            return Err(error("`has` has the form `has(NAME)`".to_owned()));
        }
        if !TEST_FUNCTIONS.contains(&function) {
            let of_operand = operand(
                &SyntaxTree {
                    span: receiver.span.clone(),
                    node: SyntaxNode::Call {
                        function: function.to_owned(),
                        function_span: span.clone(),
                        receiver: Some(Box::new(receiver.clone())),
                        arguments: arguments.to_vec(),
                    },
                },
                self.names,
            )?;
            return Err(error(format!("this is {}, and no condition", of_operand.noun())).help("compare it"));
        }
        let (value, ignores_case) = match operand(receiver, self.names)? {
            Operand::Text { value, ignores_case } => (value, ignores_case),
            other => {
                let message = format!("`{function}` is for texts, and this is {}", other.noun());
                return Err(ExpressionError::new(receiver.span.clone(), message));
            }
        };
        let [SyntaxTree { node: SyntaxNode::Text(text), span: text_span }] = arguments else {
            return Err(error(format!("`{function}` has the form `NAME.{function}(\"...\")`")));
        };
        test(function, text, text_span, ignores_case).map(|test| TermQuestion::Text(value, test))
    }

    /// Why a function is no condition by itself.
    fn not_a_test(&self, tree: &SyntaxTree, function: &str, span: &Range<usize>) -> ExpressionError {
        if TEST_FUNCTIONS.contains(&function) {
            return ExpressionError::new(
                span.clone(),
                format!("`{function}` has the form `NAME.{function}(\"...\")`"),
            );
        }
        match operand(tree, self.names) {
            Ok(of) => {
                let message = format!("this is {}, and no condition", of.noun());
                ExpressionError::new(tree.span.clone(), message).help("compare it: `size(query) > 1000`")
            }
            Err(_) if !matches!(function, "size" | "int" | "ip") => unknown_function(function, span),
            Err(error) => error,
        }
    }
}

fn not_compared(span: &Range<usize>, value_type: ValueType) -> ExpressionError {
    let error =
        ExpressionError::new(span.clone(), format!("this is {value_type}, and a condition is expected here"));
    match value_type {
        ValueType::Text => {
            error.help("compare it: `NAME == \"...\"`, or ask whether it is there: `has(NAME)`")
        }
        ValueType::Number => error.help("compare it: `NAME == 1`"),
        ValueType::Address => error.help("compare it: `NAME in [\"192.0.2.0/24\"]`"),
        ValueType::Flag => error,
    }
}

/// What a function asks of a text.
fn test(
    function: &str,
    text: &[u8],
    span: &Range<usize>,
    ignores_case: bool,
) -> Result<TextTest, ExpressionError> {
    if function == "matches" {
        return matches(text, span, ignores_case);
    }
    if ignores_case {
        relation::check_lower(text, span)?;
    }
    Ok(match (function, ignores_case) {
        ("startsWith", false) => TextTest::Prefix(text.into()),
        ("startsWith", true) => TextTest::PrefixIgnoringCase(text.into()),
        ("endsWith", false) => TextTest::Suffix(text.into()),
        ("endsWith", true) => TextTest::SuffixIgnoringCase(text.into()),
        (_, false) => TextTest::Contains(Box::new(Finder::new(text).into_owned())),
        (_, true) => {
            let literal: String = text.iter().map(|byte| format!("\\x{byte:02x}")).collect();
            matches(literal.as_bytes(), span, true)?
        }
    })
}

fn matches(text: &[u8], span: &Range<usize>, ignores_case: bool) -> Result<TextTest, ExpressionError> {
    let error = |message: String| ExpressionError::new(span.clone(), message);
    let text = std::str::from_utf8(text).map_err(|_| error("a regular expression is UTF-8".to_owned()))?;
    let text = if ignores_case { format!("(?i){text}") } else { text.to_owned() };
    match ValueMatch::regex(&text) {
        Ok(ValueMatch::Regex(regex)) => Ok(TextTest::Matches(regex)),
        Ok(_) => Err(error("this is no regular expression".to_owned())),
        Err(cause) => {
            let cause = cause.to_string();
            let last = cause.lines().last().unwrap_or_default().trim_start_matches("error: ");
            Err(error(format!("the regular expression is malformed: {last}"))
                .help("write `r\"...\"`, in which a backslash is one"))
        }
    }
}
