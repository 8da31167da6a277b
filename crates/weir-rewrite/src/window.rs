//! Regular expressions, searched for in a stream: in a window that is longer than a match may be.
//!
//! A match begins at `start` if the expression matches within the next `match_max` bytes: that does not hang on the pieces in which a body comes.
//! So all places are decided behind which there are as many bytes, and the search waits for half as many more before it begins again: each byte is
//! searched a bounded number of times, also when bytes come one by one. Where an expression matches longer text than it may, the
//! search goes on one byte later, and each of those costs up to `match_max`; [`WORK_MAX`] bounds what is done at a time.

use regex_automata::meta::Regex;
use regex_automata::{Anchored, Input};

use crate::replacement::ReplacementPiece;

/// Bytes on either side of a place that look-around may see: a character, or an end of line.
const CONTEXT: usize = 4;

/// Bytes that are searched before others have their turn.
const WORK_MAX: usize = 256 * 1024;

/// Bytes that are added to a window at a time.
const ADDED_MAX: usize = 8 * 1024;

/// What is known of the next match of a rule, from the first byte on that has not gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// None begins before this place.
    NotBefore(usize),
    /// It is here.
    At(usize, usize),
    /// There is none any more.
    Over,
}

/// A search at work on one body.
#[derive(Debug)]
pub(crate) struct WindowSearch {
    window: Vec<u8>,
    /// What is before it has gone, and is context.
    from: usize,
    next: Vec<Next>,
    /// Whether the last turn has ended before all was done.
    is_busy: bool,
}

/// The rules of a search.
pub(crate) struct WindowRules<'a> {
    pub(crate) regexes: &'a [Regex],
    pub(crate) match_max: usize,
    pub(crate) to: &'a [Vec<ReplacementPiece>],
    pub(crate) once: &'a dyn Fn(usize) -> bool,
}

impl WindowSearch {
    pub(crate) fn new(rules: usize) -> Self {
        Self { window: Vec::new(), from: 0, next: vec![Next::NotBefore(0); rules], is_busy: false }
    }

    /// Whether there is work without more of the body.
    pub(crate) fn is_busy(&self) -> bool {
        self.is_busy
    }

    /// Takes some of `data`, and appends what becomes of the body until that are `out_max` bytes.
    pub(crate) fn pass(
        &mut self,
        rules: &WindowRules<'_>,
        data: &[u8],
        (out, out_max): (&mut Vec<u8>, usize),
    ) -> usize {
        let mut taken = 0;
        if !self.is_busy {
            taken = data.len().min(ADDED_MAX);
            self.window.extend_from_slice(&data[..taken]);
        }
        let wanted = rules.match_max + (rules.match_max / 2).max(CONTEXT) + CONTEXT;
        if self.is_busy || self.window.len() - self.from >= wanted {
            let end = self.window.len().saturating_sub(CONTEXT);
            self.is_busy = !self.search(rules, end, end.saturating_sub(rules.match_max), (out, out_max));
            self.forget();
        }
        taken
    }

    /// Appends what is left at the end of the body, until that are `out_max` bytes; whether that was all.
    pub(crate) fn finish(&mut self, rules: &WindowRules<'_>, (out, out_max): (&mut Vec<u8>, usize)) -> bool {
        let end = self.window.len();
        self.is_busy = !self.search(rules, end, end, (out, out_max));
        !self.is_busy
    }

    /// Decides about all places before `limit`; whether that is done.
    fn search(
        &mut self,
        rules: &WindowRules<'_>,
        end: usize,
        limit: usize,
        (out, out_max): (&mut Vec<u8>, usize),
    ) -> bool {
        let mut work = WORK_MAX;
        while self.from < limit {
            if out.len() >= out_max {
                return false;
            }
            for rule in 0..self.next.len() {
                if !self.find(rules, rule, (end, limit), &mut work) {
                    return false;
                }
            }
            let found = self.next.iter().enumerate().filter_map(|(rule, next)| match next {
                Next::At(start, end) if *start < limit => Some((*start, rule, *end)),
                Next::At(..) | Next::NotBefore(_) | Next::Over => None,
            });
            let Some((start, rule, match_end)) = found.min() else {
                out.extend_from_slice(&self.window[self.from..limit]);
                self.from = limit;
                break;
            };
            out.extend_from_slice(&self.window[self.from..start]);
            self.replace(rules, rule, (start, match_end), out);
            self.from = match_end;
            for (other, next) in self.next.iter_mut().enumerate() {
                match next {
                    Next::At(..) if other == rule && (rules.once)(rule) => *next = Next::Over,
                    Next::At(place, _) | Next::NotBefore(place) if *place < match_end => {
                        *next = Next::NotBefore(match_end);
                    }
                    Next::At(..) | Next::NotBefore(_) | Next::Over => {}
                }
            }
        }
        true
    }

    /// Finds the next match of a rule that begins before `limit`, if it is not known; `false`: it has had its share of the work.
    fn find(
        &mut self,
        rules: &WindowRules<'_>,
        rule: usize,
        (end, limit): (usize, usize),
        work: &mut usize,
    ) -> bool {
        let regex = &rules.regexes[rule];
        while let Next::NotBefore(place) = self.next[rule] {
            let place = place.max(self.from);
            if place >= limit {
                break;
            }
            if *work == 0 {
                return false;
            }
            let found = regex.search(&Input::new(&self.window).span(place..end));
            let found = found.map(|found| (found.start(), found.end())).filter(|(start, _)| *start < limit);
            *work = work.saturating_sub(found.map_or(end, |(_, end)| end) - place + 1);
            self.next[rule] = match found {
                None => Next::NotBefore(limit),
                Some((start, end)) if end - start <= rules.match_max => Next::At(start, end),
                Some((start, _)) => {
                    *work = work.saturating_sub(rules.match_max);
                    let short = Input::new(&self.window).span(start..start + rules.match_max);
                    match regex.search(&short.anchored(Anchored::Yes)) {
                        Some(found) => Next::At(found.start(), found.end()),
                        None => Next::NotBefore(start + 1),
                    }
                }
            };
        }
        true
    }

    /// Appends what a rule puts in place of a match.
    fn replace(&self, rules: &WindowRules<'_>, rule: usize, (start, end): (usize, usize), out: &mut Vec<u8>) {
        let pieces = &rules.to[rule];
        let mut groups = None;
        for piece in pieces {
            match piece {
                ReplacementPiece::Text(text) => out.extend_from_slice(text),
                ReplacementPiece::Group(0) => out.extend_from_slice(&self.window[start..end]),
                ReplacementPiece::Group(group) => {
                    let groups = groups.get_or_insert_with(|| {
                        let mut groups = rules.regexes[rule].create_captures();
                        // The same match: it is preferred among those that are as short.
                        let input = Input::new(&self.window).span(start..end).anchored(Anchored::Yes);
                        rules.regexes[rule].search_captures(&input, &mut groups);
                        groups
                    });
                    if let Some(span) = groups.get_group(*group) {
                        out.extend_from_slice(&self.window[span.range()]);
                    }
                }
            }
        }
    }

    /// Drops what has gone, but for the context of what is to come.
    fn forget(&mut self) {
        let gone = self.from.saturating_sub(CONTEXT);
        self.window.drain(..gone);
        self.from -= gone;
        for next in &mut self.next {
            match next {
                Next::NotBefore(place) => *place = place.saturating_sub(gone),
                Next::At(start, end) => {
                    *start -= gone;
                    *end -= gone;
                }
                Next::Over => {}
            }
        }
    }
}
