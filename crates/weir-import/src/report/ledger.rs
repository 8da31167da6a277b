//! The account of statements: opened by parsers, settled by translations. What is never settled is not supported, and so is a word that no
//! translation has looked at.

use std::cell::RefCell;

use super::{ImportFinding, ImportOutcome, ImportReport};
use crate::source::{Position, SourceFormat, Statement, StatementId, Word};

/// The account of all statements. Shared while a config is translated.
#[derive(Debug, Default)]
pub struct Ledger {
    accounts: RefCell<Vec<StatementAccount>>,
}

#[derive(Debug)]
struct StatementAccount {
    at: Position,
    statement: String,
    outcome: Option<ImportOutcome>,
    notes: Vec<String>,
    /// For each word whether it was looked at.
    used: Vec<bool>,
    words: Vec<String>,
}

/// The words of a statement behind its name. Each that is taken counts as understood.
#[derive(Debug)]
pub struct StatementWords<'s> {
    ledger: &'s Ledger,
    statement: &'s Statement,
    next: usize,
    /// Which ones this reading has taken; another reading of the statement begins anew.
    taken: Vec<bool>,
}

impl Ledger {
    /// Opens the account of a statement, and gives it its name.
    pub fn open(
        &self,
        at: Position,
        words: Vec<Word>,
        block: Option<Vec<Statement>>,
        comments: Vec<String>,
    ) -> Statement {
        let id = self.reserve(at.clone());
        self.opened(id, at, words, block, comments)
    }

    /// The name of a statement whose block is still to be read, so that statements count in the order of the file.
    pub fn reserve(&self, at: Position) -> StatementId {
        let mut accounts = self.accounts.borrow_mut();
        let id = StatementId(u32::try_from(accounts.len()).unwrap_or(u32::MAX));
        let (statement, words) = (String::new(), Vec::new());
        accounts.push(StatementAccount {
            at,
            statement,
            outcome: None,
            notes: Vec::new(),
            used: Vec::new(),
            words,
        });
        id
    }

    /// The statement under a name that was reserved.
    pub fn opened(
        &self,
        id: StatementId,
        at: Position,
        words: Vec<Word>,
        block: Option<Vec<Statement>>,
        comments: Vec<String>,
    ) -> Statement {
        let statement = Statement { id, at, words, block, comments };
        let account = &mut self.accounts.borrow_mut()[id.0 as usize];
        account.statement = statement.line();
        account.words = statement.words.iter().map(|word| word.text.clone()).collect();
        account.used = vec![false; statement.words.len()];
        statement
    }

    /// Where a statement is.
    pub fn position(&self, id: StatementId) -> Position {
        self.accounts.borrow()[id.0 as usize].at.clone()
    }

    /// The words of a statement behind its name.
    pub fn words<'s>(&'s self, statement: &'s Statement) -> StatementWords<'s> {
        StatementWords { ledger: self, statement, next: 1, taken: vec![false; statement.words.len()] }
    }

    /// The config says it in the words of Weir. Words that nothing has looked at make it not supported after all.
    pub fn exact(&self, statement: &Statement) {
        self.settle(statement, ImportOutcome::Exact, None);
    }

    /// Weir does it anyway; `why` names the default.
    pub fn by_default(&self, statement: &Statement, why: &str) {
        self.settle(statement, ImportOutcome::Default, Some(why));
    }

    /// Nearly the same; `difference` says what would tell.
    pub fn approximated(&self, statement: &Statement, difference: &str) {
        self.settle(statement, ImportOutcome::Approximated, Some(difference));
    }

    /// The config does not say it; `advice` says what to do.
    pub fn unsupported(&self, statement: &Statement, advice: &str) {
        self.settle(statement, ImportOutcome::Unsupported, Some(advice));
    }

    /// Nothing is different without it; `why` says why.
    pub fn meaningless(&self, statement: &Statement, why: &str) {
        self.settle(statement, ImportOutcome::Meaningless, Some(why));
    }

    /// What a statement has become is no sound config, and was taken out of the result again.
    pub(crate) fn taken_out(&self, id: StatementId, advice: &str) {
        self.settle_by_id(id, ImportOutcome::Unsupported, Some(advice));
    }

    /// What a statement has become is nearly the same, as it turned out at the end.
    pub(crate) fn approximated_after_all(&self, id: StatementId, difference: &str) {
        self.settle_by_id(id, ImportOutcome::Approximated, Some(difference));
    }

    /// The first statement of all files.
    pub(crate) fn first(&self) -> Option<StatementId> {
        (!self.accounts.borrow().is_empty()).then_some(StatementId(0))
    }

    /// Whether anything of the files is understood: where nothing is, they are hardly of the kind that they were taken for.
    pub(crate) fn understands_any(&self) -> bool {
        let accounts = self.accounts.borrow();
        let mut outcomes = accounts.iter().filter_map(|account| account.outcome);
        outcomes.any(|outcome| outcome != ImportOutcome::Unsupported)
    }

    /// Whether a statement has an outcome yet.
    pub fn is_settled(&self, statement: &Statement) -> bool {
        self.accounts.borrow()[statement.id.0 as usize].outcome.is_some()
    }

    /// Whether the outcome of a statement, so far, is that nothing is different without it.
    pub fn is_meaningless(&self, statement: &Statement) -> bool {
        self.accounts.borrow()[statement.id.0 as usize].outcome == Some(ImportOutcome::Meaningless)
    }

    /// Whether the outcome of a statement, so far, is that it is not supported.
    pub fn is_unsupported(&self, statement: &Statement) -> bool {
        self.accounts.borrow()[statement.id.0 as usize].outcome == Some(ImportOutcome::Unsupported)
    }

    /// A statement that is used in several places has the worst of its outcomes, and all notes once.
    fn settle(&self, statement: &Statement, outcome: ImportOutcome, note: Option<&str>) {
        self.settle_by_id(statement.id, outcome, note);
    }

    fn settle_by_id(&self, id: StatementId, outcome: ImportOutcome, note: Option<&str>) {
        let account = &mut self.accounts.borrow_mut()[id.0 as usize];
        account.outcome = account.outcome.max(Some(outcome));
        if let Some(note) = note
            && !account.notes.iter().any(|known| known == note)
        {
            account.notes.push(note.to_owned());
        }
    }

    fn use_word(&self, statement: &Statement, index: usize) {
        self.accounts.borrow_mut()[statement.id.0 as usize].used[index] = true;
    }

    /// The end of all accounts.
    pub fn into_report(self, format: SourceFormat) -> ImportReport {
        let findings = self.accounts.into_inner().into_iter().map(StatementAccount::into_finding).collect();
        ImportReport { format, findings }
    }
}

impl StatementAccount {
    fn into_finding(mut self) -> ImportFinding {
        let outcome = match self.outcome {
            None => {
                self.notes.push("the import does not know this statement".to_owned());
                ImportOutcome::Unsupported
            }
            // What is without meaning or not supported is so with all of its words.
            Some(outcome @ (ImportOutcome::Meaningless | ImportOutcome::Unsupported)) => outcome,
            Some(outcome) => self.check_words(outcome),
        };
        ImportFinding { at: self.at, statement: self.statement, outcome, notes: self.notes }
    }

    fn check_words(&mut self, outcome: ImportOutcome) -> ImportOutcome {
        let unread: Vec<&str> = (1..self.words.len())
            .filter(|index| !self.used[*index])
            .map(|index| self.words[index].as_str())
            .collect();
        if unread.is_empty() {
            return outcome;
        }
        self.notes.push(format!("the import does not understand `{}`", unread.join(" ")));
        ImportOutcome::Unsupported
    }
}

impl<'s> StatementWords<'s> {
    /// The next word that was not taken, in the order of the statement.
    #[expect(clippy::should_implement_trait, reason = "words can be taken out of order, too")]
    pub fn next(&mut self) -> Option<&'s Word> {
        let index = (self.next..self.statement.words.len()).find(|index| !self.taken[*index])?;
        self.next = index + 1;
        Some(self.take(index))
    }

    /// The text of the next word.
    pub fn text(&mut self) -> Option<&'s str> {
        self.next().map(|word| word.text.as_str())
    }

    /// All words that are left.
    pub fn rest(&mut self) -> Vec<&'s Word> {
        std::iter::from_fn(|| self.next()).collect()
    }

    /// Whether a word is there, wherever.
    pub fn flag(&mut self, text: &str) -> bool {
        self.find(|word| word.text == text).is_some()
    }

    /// What follows `prefix` in a word such as `weight=5`, wherever.
    pub fn option(&mut self, prefix: &str) -> Option<&'s str> {
        self.find(|word| word.text.starts_with(prefix)).map(|word| &word.text[prefix.len()..])
    }

    /// The word behind `name`, wherever: HAProxy's `weight 5`.
    pub fn value_of(&mut self, name: &str) -> Option<&'s str> {
        let index = self.index_of(|word| word.text == name)?;
        let value = self.statement.words.get(index + 1)?;
        self.take(index);
        self.take(index + 1);
        Some(&value.text)
    }

    /// The next word, which stays there.
    pub fn peek(&self) -> Option<&'s Word> {
        let index = (self.next..self.statement.words.len()).find(|index| !self.taken[*index])?;
        self.statement.words.get(index)
    }

    fn find(&mut self, fits: impl Fn(&Word) -> bool) -> Option<&'s Word> {
        let index = self.index_of(fits)?;
        Some(self.take(index))
    }

    fn index_of(&self, fits: impl Fn(&Word) -> bool) -> Option<usize> {
        (1..self.statement.words.len())
            .find(|index| !self.taken[*index] && fits(&self.statement.words[*index]))
    }

    fn take(&mut self, index: usize) -> &'s Word {
        self.taken[index] = true;
        self.ledger.use_word(self.statement, index);
        &self.statement.words[index]
    }
}
