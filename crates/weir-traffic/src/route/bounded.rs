//! Regular expressions of authors whom others share a process with: each text is compiled once, and what they take is bounded, for one object
//! and for all objects of an author.
//!
//! A text of 20 bytes can be a program of 400 KiB, an object can have hundreds of them, and an author thousands of objects.

use std::collections::HashMap;

use regex_automata::nfa::thompson::{self, NFA, WhichCaptures};
use regex_automata::util::syntax;

use super::pattern::{RouteRegex, WeakRegex};

/// The largest program of one of them, in bytes: `^/[a-z0-9-]{1,200}$` takes a fifth of it.
const PROGRAM_BYTES_MAX: usize = 128 << 10;

/// What all of an object may take, in bytes: 400 that are as large as `^/api/v[0-9]+/users/[^/]+$`.
const OBJECT_BYTES_MAX: usize = 4 << 20;

/// What all of an author may take, in bytes. What several objects have alike counts once.
const AUTHOR_BYTES_MAX: usize = 32 << 20;

/// Fewer known texts are not worth a look for those that are not in use any more.
const SWEPT_MIN: usize = 64;

/// The regular expressions that are in use, each of which is compiled once.
#[derive(Debug, Default)]
pub struct RegexCache {
    plain: KnownRegexes,
    with_groups: KnownRegexes,
}

#[derive(Debug, Default)]
struct KnownRegexes {
    known: HashMap<Box<str>, WeakRegex>,
    swept_at: usize,
}

impl KnownRegexes {
    fn find(&self, text: &str) -> Option<RouteRegex> {
        self.known.get(text)?.upgrade()
    }

    fn insert(&mut self, made: &RouteRegex) {
        self.known.insert(made.as_str().into(), made.downgrade());
        if self.known.len() > self.swept_at.max(SWEPT_MIN) {
            self.known.retain(|_, known| known.upgrade().is_some());
            self.swept_at = 2 * self.known.len();
        }
    }
}

/// What the objects of an author hold.
#[derive(Debug, Default)]
pub struct HeldRegexes {
    /// How many objects have each one, by its place in memory.
    uses: HashMap<usize, usize>,
    bytes: usize,
}

impl HeldRegexes {
    /// Adds those of an object, each once.
    pub fn add(&mut self, regexes: &[RouteRegex]) {
        for regex in regexes {
            let uses = self.uses.entry(regex.place()).or_default();
            if *uses == 0 {
                self.bytes += regex.bytes();
            }
            *uses += 1;
        }
    }

    /// Removes those of an object that were added.
    pub fn remove(&mut self, regexes: &[RouteRegex]) {
        for regex in regexes {
            let Some(uses) = self.uses.get_mut(&regex.place()) else { continue };
            *uses -= 1;
            if *uses == 0 {
                self.uses.remove(&regex.place());
                self.bytes -= regex.bytes();
            }
        }
    }

    /// Whether those of another object may be added.
    pub fn has_room_for(&self, regexes: &[RouteRegex]) -> bool {
        let is_new = |regex: &&RouteRegex| !self.uses.contains_key(&regex.place());
        self.bytes + regexes.iter().filter(is_new).map(RouteRegex::bytes).sum::<usize>() <= AUTHOR_BYTES_MAX
    }

    /// How much may be added, in bytes.
    pub fn room(&self) -> usize {
        AUTHOR_BYTES_MAX.saturating_sub(self.bytes)
    }
}

/// The regular expressions of one object.
#[derive(Debug)]
pub struct BoundedRegexes<'a> {
    cache: &'a mut RegexCache,
    /// What other objects of the author hold; `None`: no more is compiled for this one.
    held: Option<&'a HeldRegexes>,
    used: Vec<RouteRegex>,
    bytes: usize,
    /// What of `bytes` no other object holds.
    new_bytes: usize,
    is_short: bool,
}

/// Why there is no such regular expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BoundedRegexError {
    /// It is malformed; the text says where.
    #[error("{0}")]
    Malformed(String),
    /// Compiled, it alone would be too large.
    #[error("the regular expression is too large: compiled, it takes more than {} KiB", PROGRAM_BYTES_MAX >> 10)]
    TooLarge,
    /// Compiled, it and those before it would be too large.
    #[error("the regular expressions of the object are too large: compiled, they take more than {} MiB together", OBJECT_BYTES_MAX >> 20)]
    TooMany,
    /// Compiled, it and those of other objects would be too large.
    #[error(
        "the regular expressions of the namespace are too large: compiled, those of this object and of older ones take more than {} MiB together",
        AUTHOR_BYTES_MAX >> 20
    )]
    NoRoom,
}

impl<'a> BoundedRegexes<'a> {
    /// Of an object beside which others hold some; `None`: others before it found no room.
    pub fn new(cache: &'a mut RegexCache, held: Option<&'a HeldRegexes>) -> Self {
        Self { cache, held, used: Vec::new(), bytes: 0, new_bytes: 0, is_short: false }
    }

    /// Checks the syntax of a text that will be a part of another one.
    ///
    /// # Errors
    /// [`BoundedRegexError::Malformed`].
    pub fn check_part(text: &str) -> Result<(), BoundedRegexError> {
        let parsed = regex_syntax::ParserBuilder::new().unicode(false).utf8(false).build().parse(text);
        parsed.map(drop).map_err(|error| BoundedRegexError::Malformed(error.to_string()))
    }

    /// The regular expression of this text.
    ///
    /// # Errors
    /// All of [`BoundedRegexError`].
    pub fn compile(&mut self, text: &str) -> Result<RouteRegex, BoundedRegexError> {
        let made = match self.cache.plain.find(text) {
            Some(known) => known,
            None => {
                self.check(text)?;
                let made = RouteRegex::build_within(text, 2 * PROGRAM_BYTES_MAX)
                    .map_err(|_| BoundedRegexError::TooLarge)?;
                self.cache.plain.insert(&made);
                made
            }
        };
        self.take(made)
    }

    /// The regular expression of this text, with its groups.
    ///
    /// # Errors
    /// All of [`BoundedRegexError`].
    pub fn compile_with_groups(&mut self, text: &str) -> Result<RouteRegex, BoundedRegexError> {
        let made = match self.cache.with_groups.find(text) {
            Some(known) => known,
            None => {
                self.check(text)?;
                let made = RouteRegex::build_with_groups(text).map_err(|_| BoundedRegexError::TooLarge)?;
                self.cache.with_groups.insert(&made);
                made
            }
        };
        self.take(made)
    }

    /// Those that were made, each once.
    pub fn used(self) -> Vec<RouteRegex> {
        self.used
    }

    /// Whether one was refused with [`BoundedRegexError::NoRoom`].
    pub fn is_short(&self) -> bool {
        self.is_short
    }

    /// What can be said of a text before it is compiled as a whole.
    fn check(&mut self, text: &str) -> Result<(), BoundedRegexError> {
        Self::check_part(text)?;
        if self.bytes >= OBJECT_BYTES_MAX {
            return Err(BoundedRegexError::TooMany);
        }
        if self.held.is_none_or(|held| self.new_bytes >= held.room()) {
            self.is_short = true;
            return Err(BoundedRegexError::NoRoom);
        }
        program(text).map(drop).ok_or(BoundedRegexError::TooLarge)
    }

    fn take(&mut self, made: RouteRegex) -> Result<RouteRegex, BoundedRegexError> {
        if self.used.iter().any(|known| known.place() == made.place()) {
            return Ok(made);
        }
        if self.bytes + made.bytes() > OBJECT_BYTES_MAX {
            return Err(BoundedRegexError::TooMany);
        }
        let is_new = self.held.is_none_or(|held| !held.uses.contains_key(&made.place()));
        let new_bytes = self.new_bytes + if is_new { made.bytes() } else { 0 };
        if self.held.is_none_or(|held| new_bytes > held.room()) {
            self.is_short = true;
            return Err(BoundedRegexError::NoRoom);
        }
        (self.bytes, self.new_bytes) = (self.bytes + made.bytes(), new_bytes);
        self.used.push(made.clone());
        Ok(made)
    }
}

/// Its program; `None` when it would be too large.
fn program(text: &str) -> Option<NFA> {
    let config = thompson::Config::new()
        .utf8(false)
        .which_captures(WhichCaptures::None)
        .nfa_size_limit(Some(PROGRAM_BYTES_MAX));
    thompson::Compiler::new()
        .syntax(syntax::Config::new().unicode(false).utf8(false))
        .configure(config)
        .build(text)
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_expressions_are_compiled_once() {
        let (mut cache, held) = (RegexCache::default(), HeldRegexes::default());
        let mut all = BoundedRegexes::new(&mut cache, Some(&held));
        for text in [
            "^(?:/api/v[0-9]+/.*)$",
            r"^(?:[a-zA-Z0-9._%+-]{1,64}@[a-z0-9.-]{1,100})$",
            "^/[a-z0-9-]{1,200}$",
            r"(a|b)*a(a|b){18}$",
        ] {
            let made = all.compile(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            let bytes = all.bytes;
            assert_eq!(all.compile(text).map(|again| again.place()), Ok(made.place()));
            assert_eq!(all.bytes, bytes);
        }
        for number in 0..400 {
            let text = format!("^/api/v[0-9]+/users{number}/[^/]+$");
            assert!(all.compile(&text).is_ok(), "{number}: {} bytes", all.bytes);
        }
    }

    #[test]
    fn large_ones_and_many_are_refused() {
        let (mut cache, held) = (RegexCache::default(), HeldRegexes::default());
        let mut all = BoundedRegexes::new(&mut cache, Some(&held));
        assert_eq!(all.compile(r"(\w{100}){60}"), Err(BoundedRegexError::TooLarge));
        assert_eq!(all.compile_with_groups(r"(\w{100}){60}"), Err(BoundedRegexError::TooLarge));
        assert_eq!(all.bytes, 0);
        assert!(matches!(all.compile("("), Err(BoundedRegexError::Malformed(_))));
        assert!(matches!(BoundedRegexes::check_part("a)|(b"), Err(BoundedRegexError::Malformed(_))));
        let refused = (0..100).find_map(|number| all.compile(&format!("{number}(a|b)*a(a|b){{18}}$")).err());
        assert_eq!(refused, Some(BoundedRegexError::TooMany));
        assert!(all.used.len() <= 16 && !all.is_short(), "{}", all.used.len());
    }

    #[test]
    fn objects_of_an_author_are_bounded_together() {
        let (mut cache, mut held) = (RegexCache::default(), HeldRegexes::default());
        let fat = |object: usize, number: usize| format!("{object}x{number}(a|b)*a(a|b){{18}}$");
        let mut objects = Vec::new();
        let error = loop {
            let mut one = BoundedRegexes::new(&mut cache, Some(&held));
            match (0..10).find_map(|number| one.compile(&fat(objects.len(), number)).err()) {
                Some(error) => break (error, one.is_short()),
                None => {
                    let used = one.used();
                    held.add(&used);
                    objects.push(used);
                }
            }
        };
        assert_eq!(error, (BoundedRegexError::NoRoom, true));
        assert!((8..16).contains(&objects.len()), "{}", objects.len());
        // What others hold costs nothing, and is the same.
        let mut alike = BoundedRegexes::new(&mut cache, Some(&held));
        let made: Vec<_> =
            (0..10).map(|number| alike.compile(&fat(0, number)).map(|one| one.place())).collect();
        assert_eq!(made, objects[0].iter().map(|one| Ok(one.place())).collect::<Vec<_>>());
        assert!(held.has_room_for(&objects[1]));
        // What goes makes room.
        let bytes = held.bytes;
        let gone = objects.remove(0);
        held.remove(&gone);
        assert!(held.bytes < bytes && !held.uses.contains_key(&gone[0].place()));
        assert!(BoundedRegexes::new(&mut cache, Some(&held)).compile(&fat(99, 0)).is_ok());
        assert_eq!(
            BoundedRegexes::new(&mut cache, None).compile("^/new$"),
            Err(BoundedRegexError::NoRoom),
            "after one that found no room"
        );
    }

    #[test]
    fn what_no_object_has_any_more_is_forgotten() {
        let (mut cache, held) = (RegexCache::default(), HeldRegexes::default());
        for number in 0..1_000 {
            let mut one = BoundedRegexes::new(&mut cache, Some(&held));
            assert!(one.compile(&format!("^/{number}$")).is_ok());
        }
        assert!(cache.plain.known.len() <= 2 * SWEPT_MIN, "{}", cache.plain.known.len());
    }
}
