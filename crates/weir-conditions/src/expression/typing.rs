//! What each part of a comparison is: a value of the caller or a constant, and of which type.

use std::ops::Range;

use super::error::ExpressionError;
use super::names::{Names, ValueType};
use super::syntax::{SyntaxNode, SyntaxTree};

/// One side of a comparison.
pub(super) enum Operand<V> {
    Text { value: V, ignores_case: bool },
    Length(V),
    Number(V),
    Digits(V),
    Address(V),
    AddressInText(V),
    Flag(V),
    ConstantText(Vec<u8>),
    ConstantNumber(i64),
    ConstantFlag(bool),
    List(Vec<SyntaxTree>),
}

impl<V> Operand<V> {
    /// What it is, for messages.
    pub(super) fn noun(&self) -> &'static str {
        match self {
            Operand::Text { .. } | Operand::ConstantText(_) => ValueType::Text.noun(),
            Operand::Length(_) | Operand::Number(_) | Operand::Digits(_) | Operand::ConstantNumber(_) => {
                ValueType::Number.noun()
            }
            Operand::Address(_) | Operand::AddressInText(_) => ValueType::Address.noun(),
            Operand::Flag(_) | Operand::ConstantFlag(_) => ValueType::Flag.noun(),
            Operand::List(_) => "a list",
        }
    }

    pub(super) fn is_constant(&self) -> bool {
        matches!(
            self,
            Operand::ConstantText(_)
                | Operand::ConstantNumber(_)
                | Operand::ConstantFlag(_)
                | Operand::List(_)
        )
    }
}

/// Functions that make one side of a comparison of another.
const OPERAND_FUNCTIONS: &[&str] = &["lowerAscii", "size", "int", "ip"];

/// Functions that are a condition themselves.
pub(super) const TEST_FUNCTIONS: &[&str] = &["startsWith", "endsWith", "contains", "matches", "has"];

pub(super) fn operand<N: Names>(tree: &SyntaxTree, names: &N) -> Result<Operand<N::Value>, ExpressionError> {
    match &tree.node {
        SyntaxNode::Text(text) => Ok(Operand::ConstantText(text.clone())),
        SyntaxNode::Number(number) => Ok(Operand::ConstantNumber(*number)),
        SyntaxNode::Flag(flag) => Ok(Operand::ConstantFlag(*flag)),
        SyntaxNode::List(items) => Ok(Operand::List(items.clone())),
        SyntaxNode::Name(parts) => {
            let (value, value_type) = resolve(parts, &tree.span, names)?;
            Ok(match value_type {
                ValueType::Text => Operand::Text { value, ignores_case: false },
                ValueType::Number => Operand::Number(value),
                ValueType::Address => Operand::Address(value),
                ValueType::Flag => Operand::Flag(value),
            })
        }
        SyntaxNode::Call { function, function_span, receiver, arguments } => {
            let subject = match (receiver, &arguments[..]) {
                (Some(receiver), []) => Some(&**receiver),
                (None, [argument]) => Some(argument),
                _ => None,
            };
            let called = match subject {
                Some(SyntaxTree { node: SyntaxNode::Name(parts), span }) => {
                    Some(resolve(parts, span, names)?)
                }
                _ => None,
            };
            convert(function, function_span, receiver.is_some(), called)
        }
        SyntaxNode::Not(_) | SyntaxNode::All(_) | SyntaxNode::Any(_) | SyntaxNode::Relation { .. } => {
            Err(ExpressionError::new(
                tree.span.clone(),
                "a name, a text or a number is expected here, not a comparison",
            ))
        }
    }
}

pub(super) fn resolve<N: Names>(
    parts: &[String],
    span: &Range<usize>,
    names: &N,
) -> Result<(N::Value, ValueType), ExpressionError> {
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    names.resolve(&parts).map_err(|error| ExpressionError {
        span: span.clone(),
        message: error.message,
        help: error.help,
    })
}

/// What a function makes of a name.
fn convert<V>(
    function: &str,
    span: &Range<usize>,
    is_method: bool,
    of: Option<(V, ValueType)>,
) -> Result<Operand<V>, ExpressionError> {
    let error = |message: String| ExpressionError::new(span.clone(), message);
    let usage = match function {
        "lowerAscii" => "NAME.lowerAscii()",
        "size" => "size(NAME)",
        "int" => "int(NAME)",
        "ip" => "ip(NAME)",
        _ => return Err(unknown_function(function, span)),
    };
    match (function, of) {
        ("lowerAscii", Some((value, ValueType::Text))) if is_method => {
            Ok(Operand::Text { value, ignores_case: true })
        }
        ("size", Some((value, ValueType::Text))) => Ok(Operand::Length(value)),
        ("int", Some((value, ValueType::Text))) if !is_method => Ok(Operand::Digits(value)),
        ("ip", Some((value, ValueType::Text))) if !is_method => Ok(Operand::AddressInText(value)),
        (_, Some((_, other))) if other != ValueType::Text => {
            Err(error(format!("`{function}` is for texts, and this is {other}")).help("leave it out"))
        }
        _ => Err(error(format!("`{function}` has the form `{usage}`"))),
    }
}

pub(super) fn unknown_function(function: &str, span: &Range<usize>) -> ExpressionError {
    let all = || TEST_FUNCTIONS.iter().chain(OPERAND_FUNCTIONS);
    let plain = |text: &str| text.replace('_', "").to_ascii_lowercase();
    let error = ExpressionError::new(span.clone(), format!("there is no function `{function}`"));
    let meant = match plain(function).as_str() {
        "lower" | "tolower" | "lowercase" => Some("lowerAscii"),
        "len" | "length" => Some("size"),
        "match" | "regex" | "regexp" => Some("matches"),
        "exists" | "defined" | "isset" => Some("has"),
        "prefix" | "hasprefix" | "beginswith" => Some("startsWith"),
        "suffix" | "hassuffix" => Some("endsWith"),
        "includes" | "substr" => Some("contains"),
        name => all().find(|known| plain(known) == name).copied(),
    };
    match meant {
        Some(meant) => error.help(format!("write `{meant}`")),
        None => {
            let names: Vec<String> = all().map(|name| format!("`{name}`")).collect();
            error.help(format!("there are {}", names.join(", ")))
        }
    }
}
