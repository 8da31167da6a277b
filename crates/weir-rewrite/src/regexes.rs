//! Regular expressions over the bytes of a stream: which ones can be searched for in a window, and how they are compiled.

use std::ops::Range;

use regex_automata::meta::Regex;
use regex_automata::util::syntax;
use regex_syntax::hir::{Hir, Look};

/// Memory that a compiled rule may take.
const NFA_MAX: usize = 1 << 20;

/// Memory that one search may take besides.
const CACHE_MAX: usize = 1 << 20;

/// Why a rule cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// There is nothing to search for.
    #[error("the text is empty")]
    Empty,
    /// All texts of a list together.
    #[error("the texts of all rules together are longer than {0} bytes")]
    AllTooLong(usize),
    /// More than are searched for at once.
    #[error("there are more than {0} rules")]
    TooMany(usize),
    /// It is no regular expression, or too large.
    #[error("{0}")]
    Syntax(String),
    /// It asks for the beginning or the end of the whole.
    #[error("`{0}` asks for the whole body, of which only a part is there at a time")]
    Whole(&'static str),
    /// It matches without a byte.
    #[error("it matches where there is nothing")]
    MatchesNothing,
    /// Its shortest match is longer than a match may be.
    #[error("its shortest match has {0} bytes, more than `match_max`")]
    NeverMatches(usize),
}

/// Compiles a regular expression that is searched for in a part of a text.
///
/// # Errors
/// Why it cannot be.
pub(crate) fn compile(pattern: &str, ignore_case: bool) -> Result<Regex, RuleError> {
    let hir = parse(pattern, ignore_case)?;
    let looks = hir.properties().look_set();
    for (look, text) in [(Look::Start, r"^` or `\A"), (Look::End, r"$` or `\z")] {
        if looks.contains(look) {
            return Err(RuleError::Whole(text));
        }
    }
    if hir.properties().minimum_len().unwrap_or_default() == 0 {
        return Err(RuleError::MatchesNothing);
    }
    build(&hir)
}

/// Compiles a text, which matches as it is.
pub(crate) fn compile_text(text: &str, ignore_case: bool) -> Result<Regex, RuleError> {
    // As in the automaton of texts: the letters of ASCII alone have two cases.
    let config = syntax::Config::new().utf8(false).unicode(false).case_insensitive(ignore_case);
    let hir = syntax::parse_with(&regex_syntax::escape(text), &config);
    build(&hir.map_err(|error| syntax_error(&error))?)
}

/// Compiles a regular expression that is searched for in a whole text.
///
/// # Errors
/// Why it cannot be.
pub(crate) fn compile_whole(pattern: &str, ignore_case: bool) -> Result<Regex, RuleError> {
    build(&parse(pattern, ignore_case)?)
}

/// Where a regular expression matches first, and its groups, of which the first is the whole match.
pub(crate) fn find_groups<'a>(regex: &Regex, text: &'a [u8]) -> Option<(Range<usize>, Vec<&'a [u8]>)> {
    let mut captures = regex.create_captures();
    regex.captures(text, &mut captures);
    let groups = (0..regex.captures_len())
        .map(|group| captures.get_group(group).map_or(&b""[..], |span| &text[span.range()]));
    Some((captures.get_match()?.range(), groups.collect()))
}

/// The least length of a match.
pub(crate) fn length_min(pattern: &str, ignore_case: bool) -> usize {
    parse(pattern, ignore_case).ok().and_then(|hir| hir.properties().minimum_len()).unwrap_or_default()
}

fn parse(pattern: &str, ignore_case: bool) -> Result<Hir, RuleError> {
    let config = syntax::Config::new().utf8(false).case_insensitive(ignore_case);
    syntax::parse_with(pattern, &config).map_err(|error| syntax_error(&error))
}

/// What is wrong, in a line.
fn syntax_error(error: &regex_syntax::Error) -> RuleError {
    let what = match error {
        regex_syntax::Error::Parse(error) => error.kind().to_string(),
        regex_syntax::Error::Translate(error) => error.kind().to_string(),
        other => other.to_string(),
    };
    RuleError::Syntax(format!("not a regular expression: {what}"))
}

fn build(hir: &Hir) -> Result<Regex, RuleError> {
    let config =
        Regex::config().utf8_empty(false).nfa_size_limit(Some(NFA_MAX)).hybrid_cache_capacity(CACHE_MAX);
    let built = Regex::builder().configure(config).build_from_hir(hir);
    built.map_err(|error| match error.size_limit() {
        Some(_) => RuleError::Syntax("the regular expression is too large".to_owned()),
        None => RuleError::Syntax(error.to_string()),
    })
}
