//! What two sides of a comparison come to.

use std::net::IpAddr;
use std::ops::{Range, RangeInclusive};

use ipnet::IpNet;
use weir_traffic::limit::AddressTable;

use super::error::ExpressionError;
use super::syntax::{Relation, SyntaxNode, SyntaxTree};
use super::term::{AddressFrom, NumberFrom, NumberTest, TermQuestion, TextTest};
use super::typing::Operand;

/// What a comparison asks, or what it is anyway.
pub(super) enum RelationAnswer<V> {
    TermQuestion(TermQuestion<V>),
    Constant(bool),
}

/// The most members of a list.
const LIST_MAX: usize = 256;

type Spans<'a> = [&'a Range<usize>; 3];

/// What is asked, and whether the answer is to be negated. The spans are those of the left side, the sign and the right side.
pub(super) fn question<V>(
    relation: Relation,
    [left, right]: [Operand<V>; 2],
    spans: Spans<'_>,
) -> Result<(RelationAnswer<V>, bool), ExpressionError> {
    let question = RelationAnswer::TermQuestion;
    match (left, relation, right) {
        (left, Relation::In, Operand::List(items)) => {
            within(left, &items, spans).map(|asked| (question(asked), false))
        }
        (_, Relation::In, right) => {
            let message = format!("`in` has a list on its right, and this is {}", right.noun());
            Err(ExpressionError::new(spans[2].clone(), message).help("write `[\"...\", \"...\"]`"))
        }
        (left, relation, right) if left.is_constant() && !right.is_constant() => {
            compare(right, turned(relation), left, [spans[2], spans[1], spans[0]])
        }
        (left, relation, right) => compare(left, relation, right, spans),
    }
}

/// The relation seen from the other side.
fn turned(relation: Relation) -> Relation {
    match relation {
        Relation::Less => Relation::Greater,
        Relation::LessOrEqual => Relation::GreaterOrEqual,
        Relation::Greater => Relation::Less,
        Relation::GreaterOrEqual => Relation::LessOrEqual,
        same @ (Relation::Equal | Relation::NotEqual | Relation::In) => same,
    }
}

fn compare<V>(
    left: Operand<V>,
    relation: Relation,
    right: Operand<V>,
    spans: Spans<'_>,
) -> Result<(RelationAnswer<V>, bool), ExpressionError> {
    let is_negated = relation == Relation::NotEqual;
    let is_equality = is_negated || relation == Relation::Equal;
    let asked = match (left, right) {
        (Operand::Text { value, ignores_case }, Operand::ConstantText(text)) if is_equality => {
            TermQuestion::Text(value, equal(text, spans[2], ignores_case)?)
        }
        (
            Operand::Text { value, ignores_case: false },
            Operand::Text { value: other, ignores_case: false },
        ) if is_equality => TermQuestion::SameText(value, other),
        (Operand::Address(value), Operand::ConstantText(text)) if is_equality => {
            TermQuestion::Address(value, AddressFrom::Value, address(&text, spans)?)
        }
        (Operand::AddressInText(value), Operand::ConstantText(text)) if is_equality => {
            TermQuestion::Address(value, AddressFrom::Text, address(&text, spans)?)
        }
        (Operand::Flag(value), Operand::ConstantFlag(flag)) if is_equality => {
            return Ok((RelationAnswer::TermQuestion(TermQuestion::Flag(value)), is_negated == flag));
        }
        (Operand::Number(value), Operand::ConstantNumber(number)) => {
            numbers(value, NumberFrom::Value, relation, number)
        }
        (Operand::Length(value), Operand::ConstantNumber(number)) => {
            numbers(value, NumberFrom::Length, relation, number)
        }
        (Operand::Digits(value), Operand::ConstantNumber(number)) => {
            numbers(value, NumberFrom::Digits, relation, number)
        }
        (Operand::ConstantText(one), Operand::ConstantText(other)) if is_equality => {
            return Ok((RelationAnswer::Constant(one == other), is_negated));
        }
        (left, right) => return Err(mismatch(&left, relation, &right, spans)),
    };
    Ok((RelationAnswer::TermQuestion(asked), is_negated))
}

fn numbers<V>(value: V, from: NumberFrom, relation: Relation, number: i64) -> TermQuestion<V> {
    TermQuestion::Number(value, from, NumberTest::Within(range(relation, number)))
}

/// The numbers that are in a relation to another one. Those that are not equal are negated by the caller.
fn range(relation: Relation, number: i64) -> RangeInclusive<i64> {
    const NONE: RangeInclusive<i64> = RangeInclusive::new(1, 0);
    match relation {
        Relation::Equal | Relation::NotEqual | Relation::In => number..=number,
        Relation::LessOrEqual => i64::MIN..=number,
        Relation::GreaterOrEqual => number..=i64::MAX,
        Relation::Less => number.checked_sub(1).map_or(NONE, |last| i64::MIN..=last),
        Relation::Greater => number.checked_add(1).map_or(NONE, |first| first..=i64::MAX),
    }
}

/// A text with capitals is equal to none in lower case.
pub(super) fn check_lower(text: &[u8], span: &Range<usize>) -> Result<(), ExpressionError> {
    if text.iter().any(u8::is_ascii_uppercase) {
        let lower = String::from_utf8_lossy(text).to_ascii_lowercase();
        return Err(ExpressionError::new(
            span.clone(),
            "this is compared with a text in lower case, and has capitals",
        )
        .help(format!("write \"{lower}\"")));
    }
    Ok(())
}

fn equal(text: Vec<u8>, span: &Range<usize>, ignores_case: bool) -> Result<TextTest, ExpressionError> {
    if !ignores_case {
        return Ok(TextTest::Equal(text.into()));
    }
    check_lower(&text, span)?;
    Ok(TextTest::EqualIgnoringCase(text.into()))
}

/// One address, with which another is compared.
fn address(text: &[u8], spans: Spans<'_>) -> Result<AddressTable, ExpressionError> {
    let text = String::from_utf8_lossy(text);
    match text.parse::<IpAddr>() {
        Ok(address) => Ok(AddressTable::new([(IpNet::from(address), 0)])),
        Err(_) => {
            let error = ExpressionError::new(spans[2].clone(), format!("\"{text}\" is no IP address"));
            Err(match text.parse::<IpNet>() {
                Ok(_) => error.help(format!("write `in [\"{text}\"]` for a network")),
                Err(_) => error,
            })
        }
    }
}

/// Whether a value is in a list.
fn within<V>(
    left: Operand<V>,
    items: &[SyntaxTree],
    spans: Spans<'_>,
) -> Result<TermQuestion<V>, ExpressionError> {
    if items.is_empty() || items.len() > LIST_MAX {
        let message = match items.len() {
            0 => "the list is empty, so nothing is in it".to_owned(),
            len => format!("a list has {LIST_MAX} members at most, not {len}"),
        };
        return Err(ExpressionError::new(spans[2].clone(), message).help("put long lists into a map"));
    }
    match left {
        Operand::Text { value, ignores_case } => {
            let mut texts = members(items, text_member)?;
            if ignores_case {
                for (text, item) in texts.iter().zip(items) {
                    check_lower(text, &item.span)?;
                }
                texts.sort_by_key(|text| text.len());
                return Ok(TermQuestion::Text(value, TextTest::OneOfIgnoringCase(texts.into())));
            }
            texts.sort();
            Ok(TermQuestion::Text(value, TextTest::OneOf(texts.into())))
        }
        Operand::Number(value) => one_of(value, NumberFrom::Value, items),
        Operand::Length(value) => one_of(value, NumberFrom::Length, items),
        Operand::Digits(value) => one_of(value, NumberFrom::Digits, items),
        Operand::Address(value) => {
            networks(items).map(|all| TermQuestion::Address(value, AddressFrom::Value, all))
        }
        Operand::AddressInText(value) => {
            networks(items).map(|all| TermQuestion::Address(value, AddressFrom::Text, all))
        }
        other => {
            let message = format!("a value is expected on the left of `in`, and this is {}", other.noun());
            Err(ExpressionError::new(spans[0].clone(), message))
        }
    }
}

fn members<T>(
    items: &[SyntaxTree],
    member: impl Fn(&SyntaxTree) -> Result<T, ExpressionError>,
) -> Result<Vec<T>, ExpressionError> {
    items.iter().map(member).collect()
}

fn text_member(item: &SyntaxTree) -> Result<Box<[u8]>, ExpressionError> {
    match &item.node {
        SyntaxNode::Text(text) => Ok(text.as_slice().into()),
        SyntaxNode::Number(number) => {
            Err(ExpressionError::new(item.span.clone(), "the list is one of texts")
                .help(format!("write \"{number}\"")))
        }
        _ => Err(ExpressionError::new(item.span.clone(), "a text in quotes is expected here")),
    }
}

fn one_of<V>(value: V, from: NumberFrom, items: &[SyntaxTree]) -> Result<TermQuestion<V>, ExpressionError> {
    let mut numbers = members(items, |item| match &item.node {
        SyntaxNode::Number(number) => Ok(*number),
        _ => Err(ExpressionError::new(item.span.clone(), "the list is one of numbers, without quotes")),
    })?;
    numbers.sort_unstable();
    Ok(TermQuestion::Number(value, from, NumberTest::OneOf(numbers.into())))
}

fn networks(items: &[SyntaxTree]) -> Result<AddressTable, ExpressionError> {
    let networks = members(items, |item| {
        let text = text_member(item)?;
        let text = String::from_utf8_lossy(&text);
        let network = text.parse::<IpNet>().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from));
        match network {
            Some(network) if network.trunc() == network => Ok((network, 0)),
            Some(network) => {
                let message = format!("\"{text}\" is an address within its network");
                Err(ExpressionError::new(item.span.clone(), message)
                    .help(format!("write \"{}\"", network.trunc())))
            }
            None => {
                let message = format!("\"{text}\" is neither an IP address nor a network");
                Err(ExpressionError::new(item.span.clone(), message)
                    .help("write \"192.0.2.0/24\" or \"2001:db8::/32\""))
            }
        }
    })?;
    Ok(AddressTable::new(networks))
}

/// Why two sides cannot be compared, and how they could be.
fn mismatch<V>(
    left: &Operand<V>,
    relation: Relation,
    right: &Operand<V>,
    spans: Spans<'_>,
) -> ExpressionError {
    let sign = relation.sign();
    let error = ExpressionError::new(
        spans[2].clone(),
        format!("`{sign}` cannot compare {} with {}", left.noun(), right.noun()),
    );
    match (left, right) {
        (Operand::Number(_) | Operand::Length(_) | Operand::Digits(_), Operand::ConstantText(text)) => {
            let text = String::from_utf8_lossy(text);
            match text.parse::<i64>() {
                Ok(_) => error.help(format!("write `{text}` without quotes")),
                Err(_) => error.help("write a whole number"),
            }
        }
        (Operand::Text { .. }, Operand::ConstantNumber(number)) => {
            error.help(format!("write `\"{number}\"`, or `int(NAME)` on the other side"))
        }
        (Operand::Text { .. }, Operand::ConstantText(_)) => {
            ExpressionError::new(spans[1].clone(), format!("`{sign}` is for numbers, and these are texts"))
                .help("write `int(NAME)` for the number that a text is")
        }
        (_, Operand::List(_)) => error.help("write `in` for a list"),
        _ if left.is_constant() => {
            ExpressionError::new(spans[0].start..spans[2].end, "two constants are compared")
                .help("one side is a name")
        }
        (Operand::Flag(_), _) => error.help("write the name alone, or `!NAME`"),
        _ => error,
    }
}
