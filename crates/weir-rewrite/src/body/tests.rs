//! The streaming result is that of the definition on the whole body, for every cut.

use proptest::collection::vec;
use proptest::prelude::*;
use regex_automata::{Anchored, Input};

use super::*;

fn rule(pattern: &str) -> BodySubstitution {
    let (is_regex, pattern) = pattern.strip_prefix('~').map_or((false, pattern), |regex| (true, regex));
    let (once, pattern) = pattern.strip_prefix("1:").map_or((false, pattern), |rest| (true, rest));
    let (ignore_case, pattern) = pattern.strip_prefix("i:").map_or((false, pattern), |rest| (true, rest));
    let pattern = if is_regex { Pattern::Regex(pattern.into()) } else { Pattern::Text(pattern.into()) };
    BodySubstitution { pattern, ignore_case, once }
}

/// Rules that put their own number, and the first group, in place of a match.
fn rules(patterns: &[&str], match_max: usize) -> (Arc<BodyRules>, Vec<MatchReplacement>) {
    let rules = BodyRules::new(patterns.iter().map(|pattern| rule(pattern)).collect(), match_max).unwrap();
    let to = (0..patterns.len()).map(|at| {
        let mut to = vec![ReplacementPiece::Text(format!("<{at}").into_bytes().into())];
        if rules.group_count(at) > 0 {
            to.push(ReplacementPiece::Group(1));
        }
        to.push(ReplacementPiece::Text(b">".as_slice().into()));
        to
    });
    let to = to.collect();
    (Arc::new(rules), to)
}

/// What becomes of a body that comes in these pieces, and is taken `out_max` bytes at a time.
fn stream(rules: &(Arc<BodyRules>, Vec<MatchReplacement>), pieces: &[&[u8]], out_max: usize) -> Vec<u8> {
    let mut rewriter = BodyRewriter::new(Arc::clone(&rules.0), rules.1.clone());
    let mut made = Vec::new();
    for piece in pieces {
        let mut rest = *piece;
        while !rest.is_empty() {
            let mut out = Vec::new();
            let taken = rewriter.pass(rest, &mut out, out_max);
            assert!(taken > 0 || !out.is_empty() || rewriter.is_busy(), "it goes on");
            rest = &rest[taken..];
            made.extend_from_slice(&out);
        }
    }
    loop {
        let mut out = Vec::new();
        let is_done = rewriter.finish(&mut out, out_max);
        made.extend_from_slice(&out);
        if is_done {
            return made;
        }
    }
}

/// The same by the definition alone: at each place the first rule that matches there.
fn whole(rules: &(Arc<BodyRules>, Vec<MatchReplacement>), body: &[u8]) -> Vec<u8> {
    let (mut made, mut at) = (Vec::new(), 0);
    let mut over = vec![false; rules.0.rules.len()];
    'places: while at < body.len() {
        for (place, rule) in rules.0.rules.iter().enumerate().filter(|(place, _)| !over[*place]) {
            let (end, group) = match &rule.pattern {
                Pattern::Text(text) => {
                    let found = body.get(at..at + text.len()).filter(|found| match rule.ignore_case {
                        true => found.eq_ignore_ascii_case(text.as_bytes()),
                        false => *found == text.as_bytes(),
                    });
                    let Some(found) = found else { continue };
                    (at + found.len(), None)
                }
                Pattern::Regex(pattern) => {
                    let regex = compile(pattern, rule.ignore_case).unwrap();
                    let end = body.len().min(at + rules.0.match_max);
                    let mut groups = regex.create_captures();
                    let input = Input::new(body).span(at..end).anchored(Anchored::Yes);
                    regex.search_captures(&input, &mut groups);
                    let Some(found) = groups.get_match() else { continue };
                    (found.end(), groups.get_group(1).map(|span| span.range()))
                }
            };
            made.extend_from_slice(format!("<{place}").as_bytes());
            made.extend_from_slice(group.map_or(b"", |group| &body[group]));
            made.push(b'>');
            over[place] = rule.once;
            at = end;
            continue 'places;
        }
        made.push(body[at]);
        at += 1;
    }
    made
}

fn bytes(body: &str) -> Vec<&[u8]> {
    body.as_bytes().chunks(1).collect()
}

#[test]
fn the_leftmost_match_counts_and_of_those_the_first_rule() {
    for (patterns, body, expected) in [
        (&["http://a.example"][..], "<a href=\"http://a.example/x\">", "<a href=\"<0>/x\">"),
        (&["aab"], "aaab", "a<0>"),
        (&["ab", "abc"], "abcd", "<0>cd"),
        (&["abc", "ab"], "abcd", "<0>d"),
        (&["abc", "ab"], "abd", "<1>d"),
        (&["bc", "abcd"], "abcd", "<1>"),
        (&["bc", "abcd"], "abce", "a<0>e"),
        (&["aa"], "aaaaa", "<0><0>a"),
        (&["1:a", "b"], "abab", "<0><1>a<1>"),
        (&["1:ab", "a"], "abab", "<0><1>b"),
        (&["i:Ab", "aB"], "ab AB aB", "<0> <0> <0>"),
        (&["aB", "i:ab"], "ab aB", "<1> <0>"),
        (&["<0>", "a"], "a<0>", "<1><0>"),
        (&["end"], "the en", "the en"),
        (&["~h(t+)p", "http"], "http htttp", "<0tt> <0ttt>"),
        (&["http", "~h(t+)p"], "http htttp", "<0> <1ttt>"),
        (&["~1:a+"], "aa aa", "<0> aa"),
        (&[r"~\bword\b"], "word swords word", "<0> swords <0>"),
        (&["~(?m)^x"], "x\nx x", "<0>\n<0> x"),
        (&["~i:straße"], "STRAßE", "<0>"),
    ] {
        let rules = rules(patterns, 64);
        assert_eq!(String::from_utf8(whole(&rules, body.as_bytes())).unwrap(), expected, "{patterns:?}");
        for out_max in [1, 3, 8_192] {
            let made = stream(&rules, &[body.as_bytes()], out_max);
            assert_eq!(String::from_utf8(made).unwrap(), expected, "{patterns:?} {body}");
            let made = stream(&rules, &bytes(body), out_max);
            assert_eq!(String::from_utf8(made).unwrap(), expected, "{patterns:?} {body}, bytes one by one");
        }
    }
}

#[test]
fn only_what_may_be_the_beginning_of_a_match_waits() {
    let (list, to) = rules(&["http://a.example", "</head>"], 1_024);
    let mut rewriter = BodyRewriter::new(list, to);
    for (data, expected) in [
        ("data: 1\n\n", "data: 1\n\n"),
        ("see http:/", "see "),
        ("/b", "http://b"),
        ("<", ""),
        ("<", "<"),
        ("/head>", "<1>"),
    ] {
        let mut out = Vec::new();
        assert_eq!(rewriter.pass(data.as_bytes(), &mut out, 8_192), data.len());
        assert_eq!(String::from_utf8(out).unwrap(), expected, "{data}");
    }
    let BodySearch::Texts(search) = &rewriter.search else { unreachable!("there are texts alone") };
    assert_eq!(search.held(), 0);
}

#[test]
fn rules_that_cannot_be_had_are_refused() {
    use RuleError::{AllTooLong, Empty, MatchesNothing, NeverMatches, Whole};
    let long = "a".repeat(5_000);
    for (patterns, at, error) in [
        (&[""][..], 0, Empty),
        (&["a", &long, &long], 2, AllTooLong(TEXTS_MAX)),
        (&["~a*"], 0, MatchesNothing),
        (&[r"~\b"], 0, MatchesNothing),
        (&["a", "~^a"], 1, Whole(r"^` or `\A")),
        (&["~a$"], 0, Whole(r"$` or `\z")),
        (&[r"~a\z"], 0, Whole(r"$` or `\z")),
        (&["~a{65}"], 0, NeverMatches(65)),
    ] {
        let rules = patterns.iter().map(|pattern| rule(pattern)).collect();
        assert_eq!(BodyRules::new(rules, 64).err(), Some((at, error)), "{patterns:?}");
    }
    for pattern in ["~(", "~(?:a{1000}){1000}"] {
        let refused = BodyRules::new(vec![rule(pattern)], 1 << 20);
        assert!(matches!(refused, Err((0, RuleError::Syntax(_)))), "{pattern}");
    }
    assert!(BodyRules::new(vec![rule("a"); 65], 64).is_err());
}

/// A replacement that is much longer than its match makes no more than is asked for, but for one.
#[test]
fn what_is_made_at_a_time_is_bounded() {
    for pattern in ["a", "~a"] {
        let rules = Arc::new(BodyRules::new(vec![rule(pattern)], 64).unwrap());
        let to = vec![vec![ReplacementPiece::Text(vec![b'x'; 1_000].into())]];
        let mut rewriter = BodyRewriter::new(rules, to);
        let body = vec![b'a'; 4_000];
        let (mut at, mut total) = (0, 0);
        let mut out = Vec::new();
        while at < body.len() {
            out.clear();
            at += rewriter.pass(&body[at..], &mut out, 8_192);
            assert!(out.len() < 8_192 + 1_000, "{}", out.len());
            total += out.len();
        }
        loop {
            out.clear();
            let is_done = rewriter.finish(&mut out, 8_192);
            assert!(out.len() < 8_192 + 1_000, "{}", out.len());
            total += out.len();
            if is_done {
                break;
            }
        }
        assert_eq!(total, 4_000 * 1_000, "{pattern}");
    }
}

/// A hostile body for an expression whose matches are nearly all too long: it is searched in turns.
#[test]
fn a_hostile_body_is_searched_in_turns() {
    let rules = rules(&["~a[^b]*b"], 1_024);
    let mut rewriter = BodyRewriter::new(Arc::clone(&rules.0), rules.1.clone());
    let (body, mut at, mut turns) = (vec![b'a'; 20_000], 0, 0);
    let mut out = Vec::new();
    while at < body.len() {
        at += rewriter.pass(&body[at..], &mut out, usize::MAX);
        turns += 1;
    }
    while !rewriter.finish(&mut out, usize::MAX) {
        turns += 1;
    }
    assert!(out == body && turns < 500, "{turns}");
}

const PATTERNS: [&str; 14] = [
    "a",
    "ab",
    "ba",
    "aab",
    "abb",
    "i:aB",
    "1:b",
    "1:ab",
    "~a(b+)",
    "~(a|ab)c?",
    "~[ab]{3}",
    r"~\ba",
    "~b.*?a",
    "~1:c",
];

proptest! {
    #[test]
    fn a_body_is_rewritten_the_same_however_it_comes(
        chosen in vec(0..PATTERNS.len(), 1..5),
        body in vec(prop_oneof![5 => b'a'..=b'c', 1 => Just(b'A'), 1 => Just(b'\n'), 1 => any::<u8>()], 0..200),
        cuts in vec(1..20_usize, 1..20),
        match_max in 4..16_usize,
        out_max in 1..40_usize,
    ) {
        let patterns: Vec<&str> = chosen.iter().map(|at| PATTERNS[*at]).collect();
        let rules = rules(&patterns, match_max);
        let (mut pieces, mut rest) = (Vec::new(), &body[..]);
        for cut in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (piece, behind) = rest.split_at(rest.len().min(*cut));
            pieces.push(piece);
            rest = behind;
        }
        let expected = whole(&rules, &body);
        prop_assert_eq!(stream(&rules, &pieces, out_max).escape_ascii().to_string(), expected.escape_ascii().to_string());
        prop_assert!(stream(&rules, &[&body], 8_192) == expected);
    }

    #[test]
    fn no_body_and_no_list_of_texts_breaks_it(
        texts in vec("[a-c]{1,6}", 1..6),
        body in vec(b'a'..=b'd', 0..300),
        step in 1..9_usize,
    ) {
        let patterns: Vec<&str> = texts.iter().map(String::as_str).collect();
        let rules = rules(&patterns, 64);
        let pieces: Vec<&[u8]> = body.chunks(step).collect();
        prop_assert!(stream(&rules, &pieces, 64) == whole(&rules, &body));
    }
}
