//! The commands about tables of counters: `show table`, `set table`, `clear table`, as HAProxy has them.
//!
//! Pure, as the other commands.

use weir_traffic::table::TableCounter;

/// Conditions in one command.
const CONDITIONS_MAX: usize = 4;

/// A command about a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TableCommand {
    /// The tables, a line for each.
    List,
    /// Entries of a table.
    Show(String, EntrySelection),
    /// Forgets entries of a table.
    Clear(String, EntrySelection),
    /// Gives the entry of a key other counts.
    Set(String, String, Vec<(TableCounter, u64)>),
}

/// Entries of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EntrySelection {
    /// Those for which all of these hold; without any, all.
    Where(Vec<EntryCondition>),
    /// That of a key.
    Key(String),
}

/// What a counter has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EntryCondition {
    pub(crate) counter: TableCounter,
    pub(crate) relation: CountRelation,
    pub(crate) value: u64,
}

/// How two numbers are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CountRelation {
    Equal,
    NotEqual,
    AtMost,
    AtLeast,
    Less,
    Greater,
}

impl EntryCondition {
    /// Whether a count is as it has to be.
    pub(crate) fn holds(&self, count: u64) -> bool {
        match self.relation {
            CountRelation::Equal => count == self.value,
            CountRelation::NotEqual => count != self.value,
            CountRelation::AtMost => count <= self.value,
            CountRelation::AtLeast => count >= self.value,
            CountRelation::Less => count < self.value,
            CountRelation::Greater => count > self.value,
        }
    }
}

impl TableCommand {
    /// Whether it changes anything.
    pub(crate) const fn changes(&self) -> bool {
        matches!(self, Self::Clear(..) | Self::Set(..))
    }
}

/// What is wrong with a command, in the words of HAProxy where it has some.
fn said(what: impl Into<String>) -> String {
    what.into()
}

/// `show table [<name> [key <key> | data.<type> <operator> <value> ...]]`.
pub(super) fn show(words: &[&str]) -> Result<TableCommand, String> {
    match words {
        [] => Ok(TableCommand::List),
        [name, rest @ ..] => Ok(TableCommand::Show((*name).to_owned(), selection(rest)?)),
    }
}

/// `clear table <name> [key <key> | data.<type> <operator> <value> ...]`.
pub(super) fn clear(words: &[&str]) -> Result<TableCommand, String> {
    match words {
        [] => Err(said("Required arguments: <table> key <key> or <table> data.<type> <operator> <value>.")),
        [name, rest @ ..] => Ok(TableCommand::Clear((*name).to_owned(), selection(rest)?)),
    }
}

/// `set table <name> key <key> data.<type> <value> ...`.
pub(super) fn set(words: &[&str]) -> Result<TableCommand, String> {
    let [name, "key", key, data @ ..] = words else {
        return Err(said("Required arguments: <table> key <key> data.<type> <value>."));
    };
    let mut values = Vec::new();
    for pair in data.chunks(2) {
        let [name, value] = pair else { return Err(said("Missing value for data type.")) };
        values.push((counter(name)?, number(value)?));
    }
    match values.is_empty() {
        true => Err(said("Required arguments: <table> key <key> data.<type> <value>.")),
        false => Ok(TableCommand::Set((*name).to_owned(), (*key).to_owned(), values)),
    }
}

fn selection(words: &[&str]) -> Result<EntrySelection, String> {
    match words {
        ["key", key, ..] => Ok(EntrySelection::Key((*key).to_owned())),
        ["key"] => Err(said("'key' expects a value.")),
        words => {
            let mut conditions = Vec::new();
            for part in words.chunks(3) {
                let [name, operator, value] = part else {
                    return Err(said("Required arguments: data.<type> <operator> <value>."));
                };
                let (counter, value) = (counter(name)?, number(value)?);
                conditions.push(EntryCondition { counter, relation: relation(operator)?, value });
            }
            match conditions.len() {
                len if len > CONDITIONS_MAX => {
                    Err(said(format!("At most {CONDITIONS_MAX} conditions are possible.")))
                }
                _ => Ok(EntrySelection::Where(conditions)),
            }
        }
    }
}

fn counter(word: &str) -> Result<TableCounter, String> {
    let name = word.strip_prefix("data.").ok_or_else(|| said("'key' or 'data.<type>' is expected."))?;
    TableCounter::from_name(name).ok_or_else(|| said(format!("Unknown data type '{name}'.")))
}

fn number(word: &str) -> Result<u64, String> {
    word.parse().map_err(|_| said("Require a valid integer value to compare against."))
}

fn relation(word: &str) -> Result<CountRelation, String> {
    Ok(match word {
        "eq" => CountRelation::Equal,
        "ne" => CountRelation::NotEqual,
        "le" => CountRelation::AtMost,
        "ge" => CountRelation::AtLeast,
        "lt" => CountRelation::Less,
        "gt" => CountRelation::Greater,
        _ => return Err(said("Require and operator among \"eq\", \"ne\", \"le\", \"ge\", \"lt\", \"gt\".")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read() {
        let condition = |counter, relation, value| EntryCondition { counter, relation, value };
        let conditions = vec![
            condition(TableCounter::General0, CountRelation::Greater, 0),
            condition(TableCounter::RequestRate, CountRelation::AtMost, 10),
        ];
        assert_eq!(show(&[]), Ok(TableCommand::List));
        assert_eq!(show(&["t"]), Ok(TableCommand::Show("t".into(), EntrySelection::Where(Vec::new()))));
        let words = ["t", "data.gpc0", "gt", "0", "data.http_req_rate", "le", "10"];
        assert_eq!(show(&words), Ok(TableCommand::Show("t".into(), EntrySelection::Where(conditions))));
        let key = EntrySelection::Key("192.0.2.1".into());
        assert_eq!(clear(&["t", "key", "192.0.2.1"]), Ok(TableCommand::Clear("t".into(), key)));
        assert_eq!(
            set(&["t", "key", "a", "data.gpc0", "3", "data.gpc1", "4"]),
            Ok(TableCommand::Set(
                "t".into(),
                "a".into(),
                vec![(TableCounter::General0, 3), (TableCounter::General1, 4)]
            ))
        );
    }

    #[test]
    fn what_is_wrong_has_an_answer() {
        for (words, answer) in [
            (&["t", "data.gpc7", "gt", "0"][..], "Unknown data type 'gpc7'."),
            (&["t", "gpc0", "gt", "0"], "'key' or 'data.<type>' is expected."),
            (
                &["t", "data.gpc0", "over", "0"],
                "Require and operator among \"eq\", \"ne\", \"le\", \"ge\", \"lt\", \"gt\".",
            ),
            (&["t", "data.gpc0", "gt", "-1"], "Require a valid integer value to compare against."),
            (&["t", "data.gpc0", "gt"], "Required arguments: data.<type> <operator> <value>."),
            (&["t", "key"], "'key' expects a value."),
        ] {
            assert_eq!(show(words), Err(answer.to_owned()), "{words:?}");
        }
        assert!(set(&["t", "key", "a"]).is_err() && set(&["t", "key", "a", "data.gpc0"]).is_err());
        assert!(clear(&[]).is_err());
    }
}
