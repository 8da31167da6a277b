//! Texts, searched for in a stream: the automaton of Aho and Corasick (1975), which goes through each byte once.
//!
//! Only what can still be the beginning of a match waits: the automaton knows of each state how many bytes that are. Tables are made when the
//! rules are compiled; the alphabet is that of the texts.

/// Texts of all rules together: with an alphabet of 256 bytes, the table has 4 MiB.
pub(crate) const TEXTS_MAX: usize = 8 * 1024;

/// The compiled texts of a list of rules.
#[derive(Debug)]
pub(crate) struct TextFinder {
    /// The letter of each byte in the alphabet of the texts: 0 is any that is in none.
    letters: Box<[u16; 256]>,
    letter_count: usize,
    /// The next state, by state and letter.
    next: Vec<u16>,
    /// How many of the last bytes each state stands for: they are the beginning of a text.
    depths: Vec<u16>,
    /// The first rule whose text goes on from each state.
    longer: Vec<u16>,
    /// The rules whose text ends in each state.
    ends: Vec<Box<[u16]>>,
    /// The texts, and whether case counts.
    texts: Vec<(Box<[u8]>, bool)>,
    /// The bytes that a text may begin with, when they are few.
    first: FirstBytes,
}

/// How the next byte is found at which a match may begin.
#[derive(Debug)]
enum FirstBytes {
    Few(Vec<u8>),
    Many(Box<[bool; 256]>),
}

impl TextFinder {
    /// The texts with whether their case is ignored. None is empty, and all together are at most [`TEXTS_MAX`].
    pub(crate) fn new(texts: &[(&[u8], bool)]) -> Self {
        let folds = texts.iter().any(|(_, ignore_case)| *ignore_case);
        let fold = |byte: u8| if folds { byte.to_ascii_lowercase() } else { byte };
        let (letters, letter_count) = alphabet(texts, fold);
        let mut trie = Trie::new(letter_count);
        for (rule, (text, _)) in texts.iter().enumerate() {
            trie.insert(text.iter().map(|byte| letters[usize::from(fold(*byte))]), rule as u16);
        }
        trie.link();
        let texts: Vec<(Box<[u8]>, bool)> =
            texts.iter().map(|(text, ignore_case)| ((*text).into(), !*ignore_case)).collect();
        let first = FirstBytes::new(
            (0..=255).filter(|byte| trie.next[usize::from(letters[usize::from(*byte)])] != 0),
        );
        let ends = trie.ends.into_iter().map(Vec::into_boxed_slice).collect();
        Self {
            letters,
            letter_count,
            next: trie.next,
            depths: trie.depths,
            longer: trie.longer,
            ends,
            texts,
            first,
        }
    }
}

/// Gives each byte of the texts a letter.
fn alphabet(texts: &[(&[u8], bool)], fold: impl Fn(u8) -> u8) -> (Box<[u16; 256]>, usize) {
    let mut letters = Box::new([0; 256]);
    let mut count = 1;
    for byte in texts.iter().flat_map(|(text, _)| text.iter()) {
        let letter = &mut letters[usize::from(fold(*byte))];
        if *letter == 0 {
            *letter = count;
            count += 1;
        }
    }
    for byte in 0..=255 {
        letters[usize::from(byte)] = letters[usize::from(fold(byte))];
    }
    (letters, usize::from(count))
}

/// The automaton while it is made.
struct Trie {
    letter_count: usize,
    next: Vec<u16>,
    depths: Vec<u16>,
    longer: Vec<u16>,
    ends: Vec<Vec<u16>>,
}

impl Trie {
    fn new(letter_count: usize) -> Self {
        Self {
            letter_count,
            next: vec![0; letter_count],
            depths: vec![0],
            longer: vec![u16::MAX],
            ends: vec![Vec::new()],
        }
    }

    fn insert(&mut self, letters: impl Iterator<Item = u16>, rule: u16) {
        let mut state = 0;
        for letter in letters {
            self.longer[state] = self.longer[state].min(rule);
            let at = state * self.letter_count + usize::from(letter);
            if self.next[at] == 0 {
                self.next[at] = self.depths.len() as u16;
                self.depths.push(self.depths[state] + 1);
                self.longer.push(u16::MAX);
                self.ends.push(Vec::new());
                self.next.extend(std::iter::repeat_n(0, self.letter_count));
            }
            state = usize::from(self.next[at]);
        }
        self.ends[state].push(rule);
    }

    /// Leads each state on where it has no child: to the longest end of it that is the beginning of a text.
    fn link(&mut self) {
        let mut fallback = vec![0_usize; self.depths.len()];
        let mut waiting: std::collections::VecDeque<usize> = self.next[..self.letter_count]
            .iter()
            .filter(|next| **next != 0)
            .map(|next| usize::from(*next))
            .collect();
        while let Some(state) = waiting.pop_front() {
            let back = fallback[state];
            let more = self.ends[back].clone();
            self.ends[state].extend(more);
            for letter in 0..self.letter_count {
                let of_back = self.next[back * self.letter_count + letter];
                let at = state * self.letter_count + letter;
                match self.next[at] {
                    0 => self.next[at] = of_back,
                    child => {
                        fallback[usize::from(child)] = usize::from(of_back);
                        waiting.push_back(usize::from(child));
                    }
                }
            }
        }
    }
}

impl FirstBytes {
    fn new(bytes: impl Iterator<Item = u8>) -> Self {
        let bytes: Vec<u8> = bytes.collect();
        if bytes.len() <= 3 {
            return Self::Few(bytes);
        }
        let mut all = Box::new([false; 256]);
        bytes.iter().for_each(|byte| all[usize::from(*byte)] = true);
        Self::Many(all)
    }

    /// Where the first of them is.
    fn find(&self, data: &[u8]) -> Option<usize> {
        match self {
            Self::Few(bytes) => match bytes[..] {
                [] => None,
                [one] => memchr::memchr(one, data),
                [one, two] => memchr::memchr2(one, two, data),
                [one, two, three, ..] => memchr::memchr3(one, two, three, data),
            },
            Self::Many(all) => data.iter().position(|byte| all[usize::from(*byte)]),
        }
    }
}

/// A match: its place in what waits, and the rule.
#[derive(Debug, Clone, Copy)]
struct FoundText {
    start: usize,
    end: usize,
    rule: usize,
}

/// A search at work on one body.
#[derive(Debug, Default)]
pub(crate) struct TextSearch {
    /// What can still be part of a match, from `from` on.
    held: Vec<u8>,
    from: usize,
    /// How far the automaton has read it.
    read: usize,
    state: usize,
    /// The match that counts unless one begins before it, or with it and by an earlier rule.
    best: Option<FoundText>,
}

impl TextSearch {
    /// Takes some of `data`, and appends what becomes of it until that are `out_max` bytes. `replace` appends what a rule puts in place of its
    /// match; `is_over` says whether a rule has no more matches. Gives how much was taken.
    pub(crate) fn pass(
        &mut self,
        finder: &TextFinder,
        data: &[u8],
        (out, out_max): (&mut Vec<u8>, usize),
        rules: &mut impl TextRules,
    ) -> usize {
        let mut taken = 0;
        while out.len() < out_max {
            if self.read == self.held.len() {
                if self.from == self.held.len() {
                    (self.from, self.read) = (0, 0);
                    self.held.clear();
                    let skipped = finder.first.find(&data[taken..]).unwrap_or(data.len() - taken);
                    // No more than was asked for, but for one match.
                    let skipped = skipped.min(out_max - out.len());
                    out.extend_from_slice(&data[taken..taken + skipped]);
                    taken += skipped;
                    if out.len() >= out_max {
                        break;
                    }
                }
                let Some(byte) = data.get(taken) else { break };
                self.held.push(*byte);
                taken += 1;
            }
            self.step(finder, rules);
            self.settle(finder, out, rules);
        }
        taken
    }

    /// Appends what is left at the end of the body, until that are `out_max` bytes; whether that was all.
    pub(crate) fn finish(
        &mut self,
        finder: &TextFinder,
        (out, out_max): (&mut Vec<u8>, usize),
        rules: &mut impl TextRules,
    ) -> bool {
        while out.len() < out_max {
            if self.read < self.held.len() {
                self.step(finder, rules);
                self.settle(finder, out, rules);
            } else if let Some(best) = self.best.take() {
                self.replace(best, out, rules);
            } else {
                out.extend_from_slice(&self.held[self.from..]);
                self.held.clear();
                (self.from, self.read, self.state) = (0, 0, 0);
                return true;
            }
        }
        false
    }

    /// Bytes that wait.
    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.held.len() - self.from
    }

    /// Reads the next byte, and notes the best match that ends with it.
    fn step(&mut self, finder: &TextFinder, rules: &impl TextRules) {
        let letter = usize::from(finder.letters[usize::from(self.held[self.read])]);
        self.state = usize::from(finder.next[self.state * finder.letter_count + letter]);
        self.read += 1;
        for rule in &finder.ends[self.state] {
            let rule = usize::from(*rule);
            let (text, counts_case) = &finder.texts[rule];
            let start = self.read - text.len();
            let is_better = self.best.is_none_or(|best| (start, rule) < (best.start, best.rule));
            if is_better && !rules.is_over(rule) && (!counts_case || self.held[start..self.read] == **text) {
                self.best = Some(FoundText { start, end: self.read, rule });
            }
        }
    }

    /// Lets go what is decided.
    fn settle(&mut self, finder: &TextFinder, out: &mut Vec<u8>, rules: &mut impl TextRules) {
        let open = self.read - usize::from(finder.depths[self.state]);
        let may_grow = |best: FoundText| usize::from(finder.longer[self.state]) < best.rule;
        match self.best {
            Some(best) if open > best.start || open == best.start && !may_grow(best) => {
                self.replace(best, out, rules);
            }
            Some(_) => {}
            None => {
                out.extend_from_slice(&self.held[self.from..open]);
                self.from = open;
                if self.from >= TEXTS_MAX && self.from * 2 > self.held.len() {
                    self.held.drain(..self.from);
                    self.read -= self.from;
                    self.from = 0;
                }
            }
        }
    }

    /// Replaces a match; what is behind it is read again.
    fn replace(&mut self, found: FoundText, out: &mut Vec<u8>, rules: &mut impl TextRules) {
        out.extend_from_slice(&self.held[self.from..found.start]);
        rules.replace(found.rule, out);
        self.best = None;
        self.state = 0;
        self.from = found.end;
        self.read = found.end;
    }
}

/// What the rules say of their matches.
pub(crate) trait TextRules {
    /// Whether a rule has had its only match.
    fn is_over(&self, rule: usize) -> bool;

    /// Appends what replaces a match.
    fn replace(&mut self, rule: usize, out: &mut Vec<u8>);
}
