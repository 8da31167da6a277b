//! `acl` lines, and what stands behind `if` and `unless`.

use std::collections::{HashMap, HashSet};

use super::regex::regex_trouble;
use super::sample::sample;
use super::url::in_words_of_urls;
use super::value::{HaproxyMapEntries, MapUse, SampleForm, SampleKind, Surroundings};
use super::{AclCondition, AclSample, AclSubject, Atom, AtomTest};
use crate::haproxy::acl::atom::escaped;
use crate::haproxy::acl::map::map_subject;
use crate::haproxy::proxy::name_of;
use crate::report::{Ledger, StatementWords};
use crate::source::Statement;

/// Entries of a file that a condition takes over; more are a map.
const ENTRIES_MAX: usize = 64;
/// Entries that a map takes over.
const KEYS_MAX: usize = 20_000;

/// The named conditions of a section.
pub(in crate::haproxy) struct AclConditions<'s, 'c> {
    pub(in crate::haproxy) around: Surroundings<'c>,
    ledger: &'s Ledger,
    lines: HashMap<&'s str, Vec<&'s Statement>>,
}

impl<'s, 'c> AclConditions<'s, 'c> {
    pub(in crate::haproxy) fn new(
        ledger: &'s Ledger,
        acls: &[&'s Statement],
        around: Surroundings<'c>,
    ) -> Self {
        let mut lines: HashMap<&str, Vec<&Statement>> = HashMap::new();
        for acl in acls {
            if let Some(name) = acl.words.get(1) {
                lines.entry(&name.text).or_default().push(acl);
            }
        }
        AclConditions { around, ledger, lines }
    }

    /// Reads `if ...` or `unless ...` at the end of a statement; without either, it always holds.
    pub(in crate::haproxy) fn behind(&self, words: &mut StatementWords<'s>) -> AclCondition {
        let unless = match words.peek().map(|word| word.text.as_str()) {
            Some("if") => false,
            Some("unless") => true,
            _ => return AclCondition::Constant(true),
        };
        words.next();
        let texts: Vec<&str> = words.rest().iter().map(|word| word.text.as_str()).collect();
        let condition = self.read(&texts);
        let condition = AclCondition::All(vec![condition]).simplified(&|_| None);
        if unless { condition.negated() } else { condition }
    }

    /// Terms side by side, joined by "and", which binds closer than `or` and `||`.
    fn read(&self, texts: &[&str]) -> AclCondition {
        let (mut any, mut all, mut negated) = (Vec::new(), Vec::new(), false);
        let mut rest = texts;
        while let Some((first, behind)) = rest.split_first() {
            rest = behind;
            let mut text = *first;
            if matches!(text, "or" | "||") {
                any.push(AclCondition::All(std::mem::take(&mut all)));
                continue;
            }
            while let Some(inner) = text.strip_prefix('!') {
                negated = !negated;
                text = inner;
            }
            if text.is_empty() {
                continue;
            }
            let term = if text == "{" {
                let Some(end) = rest.iter().position(|word| *word == "}") else {
                    return AclCondition::Unknown("a `}` is missing".to_owned());
                };
                let (inside, behind) = rest.split_at(end);
                rest = &behind[1..];
                self.comparison(inside)
            } else {
                self.named(text)
            };
            all.push(if std::mem::take(&mut negated) { term.negated() } else { term });
        }
        any.push(AclCondition::All(all));
        AclCondition::Any(any)
    }

    fn named(&self, name: &str) -> AclCondition {
        let Some(lines) = self.lines.get(name) else {
            return predefined(name)
                .unwrap_or_else(|| AclCondition::Unknown(format!("there is no acl `{name}`")));
        };
        let parts = lines.iter().map(|line| {
            let texts: Vec<&str> =
                line.words[2.min(line.words.len())..].iter().map(|word| word.text.as_str()).collect();
            let condition = self.comparison(&texts);
            match condition.unknown() {
                Some(reason) => self.ledger.unsupported(line, reason),
                None => {
                    self.ledger.words(line).rest();
                    self.ledger.exact(line);
                    condition.notes().iter().for_each(|note| self.ledger.approximated(line, note));
                }
            }
            condition
        });
        AclCondition::Any(parts.collect())
    }

    /// A fetch, flags and what it is compared with.
    fn comparison(&self, texts: &[&str]) -> AclCondition {
        let Some((first, rest)) = texts.split_first() else {
            return AclCondition::Unknown("a condition is empty".to_owned());
        };
        let mut pattern = AclPattern::default();
        let mut value = sample(first, &self.around);
        if matches!(value.kind, SampleKind::Unknown(_))
            && let Some((plain, method)) = without_suffix(first)
        {
            value = sample(&plain, &self.around);
            pattern.method = Some(method.to_owned());
        }
        if let SampleKind::Unknown(reason) = value.kind {
            return AclCondition::Unknown(reason);
        }
        match pattern.read(rest, &self.around) {
            Err(reason) => AclCondition::Unknown(reason),
            Ok(()) => in_words_of_urls(pattern.compare(value, &self.around)),
        }
    }

    /// Says that acls that nothing has asked for mean nothing.
    pub(in crate::haproxy) fn settle_unused(&self) {
        for line in self.lines.values().flatten() {
            if !self.ledger.is_settled(line) {
                self.ledger.meaningless(line, "no rule asks for it");
            }
        }
    }
}

/// `path_beg` is `path` compared by `beg`; `hdr_reg(host)` likewise.
fn without_suffix(text: &str) -> Option<(String, &str)> {
    let length = text.find(['(', ',']).unwrap_or(text.len());
    let (name, behind) = text.split_at(length);
    let (plain, method) = name.rsplit_once('_')?;
    ["beg", "dir", "dom", "end", "len", "reg", "sub"]
        .contains(&method)
        .then(|| (format!("{plain}{behind}"), method))
}

#[derive(Default)]
struct AclPattern {
    method: Option<String>,
    ignore_case: bool,
    values: Vec<String>,
    /// The file that some of them are of.
    from_file: Option<String>,
}

impl AclPattern {
    fn read(&mut self, texts: &[&str], around: &Surroundings<'_>) -> Result<(), String> {
        let mut rest = texts.iter();
        while let Some(text) = rest.next() {
            match *text {
                "--" => break,
                "-i" => self.ignore_case = true,
                "-n" => {}
                "-m" => self.method = rest.next().map(|method| (*method).to_owned()),
                "-u" => {
                    rest.next();
                }
                "-f" => {
                    let file = rest.next().ok_or("a file is missing behind `-f`")?;
                    self.file(file, around)?;
                }
                "-M" => {
                    return Err(
                        "`-M` reads the keys of a map: put them in a list or a `[map.NAME]`".to_owned()
                    );
                }
                other => {
                    self.values.push(other.to_owned());
                    break;
                }
            }
        }
        self.values.extend(rest.map(|text| (*text).to_owned()));
        Ok(())
    }

    fn file(&mut self, file: &str, around: &Surroundings<'_>) -> Result<(), String> {
        let text = around.files.read(file).map_err(|error| {
            format!("cannot read {file} ({error}): import it with the file, or name it in `file` of a list")
        })?;
        let entries = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        self.values.extend(entries.map(str::to_owned));
        self.from_file.get_or_insert_with(|| file.to_owned());
        match self.values.len() > KEYS_MAX {
            true => Err(format!(
                "{file} has more than {KEYS_MAX} entries: name it in `file` of a list, and the list in `lists`"
            )),
            false => Ok(()),
        }
    }

    /// Looks a long file up in a map, by the way in which its entries are compared.
    fn listed(
        &mut self,
        value: &AclSample,
        ignore_case: bool,
        around: &Surroundings<'_>,
    ) -> Result<AclCondition, String> {
        let file = self.from_file.clone().unwrap_or_default();
        let is_address = matches!(value.kind, SampleKind::Address(_)) || self.method.as_deref() == Some("ip");
        let kind = match self.method.as_deref() {
            _ if is_address => "network",
            None | Some("str") => "exact",
            Some("beg") => "prefix",
            Some("end") => "suffix",
            Some("reg") => "regex",
            Some(_) => {
                return Err(format!(
                    "{file} has more than {ENTRIES_MAX} entries: compare whole texts, beginnings, ends, networks or expressions, by a `[map.NAME]`"
                ));
            }
        };
        if let Some(reason) =
            self.values.iter().filter(|_| kind == "regex").find_map(|regex| regex_trouble(regex))
        {
            return Err(reason.to_owned());
        }
        let keys = if is_address { self.networks()? } else { std::mem::take(&mut self.values) };
        let mut known = HashSet::new();
        let keys: Vec<String> = keys.into_iter().filter(|key| known.insert(key.clone())).collect();
        let source = match &value.kind {
            SampleKind::Text(AclSubject::Host) if !keys.iter().any(|key| key.contains(':')) => {
                Some("{host}".to_owned())
            }
            _ => value.placeholder.clone(),
        };
        let source = source.ok_or("Weir has no placeholder for what is looked up in the file")?;
        let ignore_case = ignore_case && source != "{host}" && !is_address;
        let keys = match source == "{host}" {
            // Hosts are in lower case.
            true => keys.iter().map(|key| key.to_ascii_lowercase()).collect(),
            false => keys,
        };
        let stem = file.rsplit('/').next().unwrap_or(&file);
        let name = name_of(stem.split('.').next().unwrap_or(stem)).replace('.', "-");
        let entries = HaproxyMapEntries::Listed { keys, kind };
        let used = MapUse { name, source, entries, default: None, ignore_case, written: file };
        let subject = AclSubject::Text(map_subject(&around.use_map(used)));
        let note = Some("entries of the file are those at the time of the import");
        Ok(AclCondition::Atom(Atom { note, ..Atom::new(subject, AtomTest::Found) }))
    }

    fn compare(mut self, mut value: AclSample, around: &Surroundings<'_>) -> AclCondition {
        if self.from_file.is_some() {
            value.note = Some("entries of the file are those at the time of the import");
        }
        let ignore_case = self.ignore_case || value.lower;
        if value.lower
            && !self.ignore_case
            && self.values.iter().any(|text| text.bytes().any(|b| b.is_ascii_uppercase()))
        {
            return AclCondition::Unknown(
                "what is in lower case never equals a text with capital letters".to_owned(),
            );
        }
        if self.from_file.is_some() && self.values.len() > ENTRIES_MAX {
            return self.listed(&value, ignore_case, around).unwrap_or_else(AclCondition::Unknown);
        }
        let note = value.note.or_else(|| self.difference(&value));
        let atom = |subject: AclSubject, test: AtomTest| {
            AclCondition::Atom(Atom { subject, test, ignore_case, note })
        };
        if self.method.as_deref() == Some("found") {
            return match value.kind {
                SampleKind::Text(subject) | SampleKind::Address(subject) => atom(subject, AtomTest::Found),
                SampleKind::Number(_) | SampleKind::Literal(_) => AclCondition::Constant(true),
                SampleKind::Chosen(list) => {
                    AclCondition::Any(list.into_iter().map(|(condition, _)| condition).collect())
                }
                _ => AclCondition::Unknown("`-m found` of this".to_owned()),
            };
        }
        self.compare_kind(value, &atom)
    }

    /// By what the value is.
    fn compare_kind(
        self,
        value: AclSample,
        atom: &dyn Fn(AclSubject, AtomTest) -> AclCondition,
    ) -> AclCondition {
        // The host has no port in Weir; the header has.
        let asks_port = |text: &String| text.replace("(?:", "").contains(':');
        let kind = match value.kind {
            SampleKind::Text(AclSubject::Host) if self.values.iter().any(asks_port) => {
                SampleKind::Text(AclSubject::Text("header[\"host\"]".to_owned()))
            }
            kind => kind,
        };
        match kind {
            SampleKind::Boolean(condition) if self.values.is_empty() => noted(condition, value.note),
            SampleKind::Boolean(condition) => match self.values.as_slice() {
                [one] if one == "1" || one == "true" => noted(condition, value.note),
                [one] if one == "0" || one == "false" => noted(condition.negated(), value.note),
                _ => AclCondition::Unknown("a condition is compared with a text".to_owned()),
            },
            SampleKind::Literal(text) => self.literal(&text),
            SampleKind::Chosen(list) => self.chosen(list),
            SampleKind::Text(AclSubject::User(list)) => match self.values.is_empty() {
                true => AclCondition::Unknown("a group is missing".to_owned()),
                false => atom(AclSubject::User(list), AtomTest::Equal(self.values)),
            },
            SampleKind::Address(subject) => match self.method.as_deref() {
                None | Some("ip") => self
                    .networks()
                    .map_or_else(AclCondition::Unknown, |list| atom(subject, AtomTest::Networks(list))),
                Some(method) => AclCondition::Unknown(format!("an address is not compared by `{method}`")),
            },
            SampleKind::Number(subject) => self.numbers(&subject, value.note),
            SampleKind::Text(AclSubject::Sni) if self.is_part_of_name() => self.labels(),
            SampleKind::Text(subject) => match self.method.as_deref() {
                Some("ip") => self
                    .networks()
                    .map_or_else(AclCondition::Unknown, |list| atom(subject, AtomTest::Networks(list))),
                Some("int") => self.numbers(&subject, value.note),
                Some("len") => {
                    let size = Atom::new(subject, AtomTest::Found).size();
                    self.numbers(&AclSubject::Number(size), value.note)
                }
                _ => self.text().map_or_else(AclCondition::Unknown, |test| atom(subject, test)),
            },
            SampleKind::Unknown(reason) => AclCondition::Unknown(reason),
        }
    }

    /// What would tell that a value is compared in another form.
    fn difference(&self, value: &AclSample) -> Option<&'static str> {
        let has = |signs: &[char]| self.values.iter().any(|text| text.contains(signs));
        let asks_whole = match self.method.as_deref() {
            Some("found") => false,
            Some("sub") => has(&[',']),
            Some("reg") => has(&['^', '$', ',']),
            _ => true,
        };
        match value.form {
            SampleForm::Parts if asks_whole => {
                Some("the header is compared as a whole, not each of its values between commas")
            }
            SampleForm::Encoded if has(&['%', '+']) => {
                Some("the parameter is compared decoded, and without regard to how a client has encoded it")
            }
            _ => None,
        }
    }

    /// Whether a server name is compared with a part of it that need not be whole labels.
    fn is_part_of_name(&self) -> bool {
        let is_end = || self.values.iter().any(|text| !text.starts_with('.'));
        self.method.as_deref() == Some("sub") || self.method.as_deref() == Some("end") && is_end()
    }

    fn labels(&self) -> AclCondition {
        let note = Some("a name is compared label by label: the text itself, and what is below it");
        let ends = |test: AtomTest| {
            AclCondition::Atom(Atom { subject: AclSubject::Sni, test, ignore_case: true, note })
        };
        let bare: Vec<String> =
            self.values.iter().map(|text| text.trim_start_matches('.').to_owned()).collect();
        let below = bare.iter().map(|text| format!(".{text}")).collect();
        AclCondition::Any(vec![ends(AtomTest::Equal(bare)), ends(AtomTest::Ends(below))])
    }

    fn text(&self) -> Result<AtomTest, String> {
        let values = self.values.clone();
        if values.is_empty() {
            return Err("there is nothing that it is compared with".to_owned());
        }
        Ok(match self.method.as_deref() {
            None | Some("str") => AtomTest::Equal(values),
            Some("beg") => AtomTest::Begins(values),
            Some("end") => AtomTest::Ends(values),
            Some("sub") => AtomTest::Contains(values),
            Some("reg") => {
                if let Some(reason) = values.iter().find_map(|regex| regex_trouble(regex)) {
                    return Err(reason.to_owned());
                }
                AtomTest::Regex(values)
            }
            Some("dir") => AtomTest::Regex(between(&values, "/?")),
            Some("dom") => AtomTest::Regex(between(&values, "/?.:")),
            Some(other) => return Err(format!("Weir does not compare texts by `{other}`")),
        })
    }

    fn literal(&self, text: &str) -> AclCondition {
        let relations = ["gt", "ge", "lt", "le", "eq"];
        let asks_number = self.method.as_deref() == Some("int")
            || self.values.iter().any(|value| relations.contains(&value.as_str()) || value.contains(':'));
        if let Some(number) = text.parse::<i64>().ok().filter(|_| asks_number) {
            let unknown = || AclCondition::Unknown("a number is compared with something else".to_owned());
            return match self.number_tests() {
                Some(tests) => AclCondition::Constant(tests.iter().any(|test| test.holds(number))),
                None => unknown(),
            };
        }
        let same = |value: &String| match self.ignore_case {
            true => value.eq_ignore_ascii_case(text),
            false => value == text,
        };
        match self.method.as_deref() {
            None | Some("str") => AclCondition::Constant(self.values.iter().any(same)),
            Some("bool") => AclCondition::Constant(!matches!(text, "" | "0" | "false")),
            Some(other) => AclCondition::Unknown(format!("a constant is compared by `{other}`")),
        }
    }

    /// A variable with one of several texts: it has this one where its condition holds, and none of those behind it.
    fn chosen(&self, list: Vec<(AclCondition, String)>) -> AclCondition {
        let (mut any, mut later) = (Vec::new(), AclCondition::Constant(true));
        for (condition, text) in list.into_iter().rev() {
            let same = self.literal(&text);
            if matches!(same, AclCondition::Unknown(_)) {
                return same;
            }
            any.push(AclCondition::All(vec![same, condition.clone(), later.clone()]));
            later = later.and(condition.negated());
        }
        AclCondition::All(vec![AclCondition::Any(any)]).simplified(&|_| None)
    }

    fn networks(&self) -> Result<Vec<String>, String> {
        let network = |text: &String| {
            let (address, bits) = text.split_once('/').map_or((text.as_str(), None), |(a, b)| (a, Some(b)));
            let address = if address.eq_ignore_ascii_case("localhost") { "127.0.0.1" } else { address };
            let address: std::net::IpAddr = address.parse().ok()?;
            Some(match bits {
                None => address.to_string(),
                Some(bits) => match bits.parse::<u8>() {
                    Ok(bits) => format!("{}/{bits}", masked(address, bits)?),
                    // 255.255.255.0
                    Err(_) => {
                        let mask: std::net::Ipv4Addr = bits.parse().ok()?;
                        let ones = u32::from(mask).leading_ones();
                        let bits =
                            u8::try_from(ones).ok().filter(|_| u32::from(mask).count_ones() == ones)?;
                        format!("{}/{bits}", masked(address, bits)?)
                    }
                },
            })
        };
        let list: Option<Vec<String>> = self.values.iter().map(network).collect();
        list.filter(|list| !list.is_empty())
            .ok_or_else(|| "an address or network of it cannot be read".to_owned())
    }

    /// What numbers are compared with; nothing if that is not only numbers.
    fn number_tests(&self) -> Option<Vec<AtomTest>> {
        let mut relation = "==";
        let mut tests = Vec::new();
        for text in &self.values {
            relation = match text.as_str() {
                "gt" => ">",
                "ge" => ">=",
                "lt" => "<",
                "le" => "<=",
                "eq" => "==",
                number => {
                    tests.push(number_test(number, relation)?);
                    relation
                }
            };
        }
        Some(tests).filter(|tests| !tests.is_empty())
    }

    fn numbers(&self, subject: &AclSubject, note: Option<&'static str>) -> AclCondition {
        let Some(tests) = self.number_tests() else {
            return AclCondition::Unknown("a number is compared with something else".to_owned());
        };
        let all_plain = tests.iter().all(|test| matches!(test, AtomTest::Numbers(_)));
        let tests = if all_plain {
            let numbers = tests
                .into_iter()
                .flat_map(|test| if let AtomTest::Numbers(list) = test { list } else { Vec::new() });
            vec![AtomTest::Numbers(numbers.collect())]
        } else {
            tests
        };
        let parts = tests.into_iter().map(|test| count(subject.clone(), test, note));
        AclCondition::Any(parts.collect())
    }
}

/// How many headers there are is only asked as whether there is one.
fn count(subject: AclSubject, test: AtomTest, note: Option<&'static str>) -> AclCondition {
    let AclSubject::Number(name) = &subject else {
        return AclCondition::Atom(Atom { subject, test, ignore_case: false, note });
    };
    if name == "ssl hello" {
        return AclCondition::Atom(Atom {
            subject: AclSubject::Number("ssl hello".to_owned()),
            test,
            ignore_case: false,
            note,
        });
    }
    let Some(name) = name.strip_prefix("count of ") else {
        return AclCondition::Atom(Atom { subject, test, ignore_case: false, note });
    };
    let found = AclCondition::Atom(Atom::new(AclSubject::Text(name.to_owned()), AtomTest::Found));
    match test {
        AtomTest::Numbers(list) => match list.as_slice() {
            [(">", 0) | (">=", 1)] => found,
            [("==" | "<=", 0) | ("<", 1)] => found.negated(),
            _ => AclCondition::Unknown("Weir asks whether there is a header, not how many".to_owned()),
        },
        _ => AclCondition::Unknown("Weir asks whether there is a header, not how many".to_owned()),
    }
}

fn noted(condition: AclCondition, note: Option<&'static str>) -> AclCondition {
    match condition {
        AclCondition::Atom(atom) if note.is_some() => AclCondition::Atom(Atom { note, ..atom }),
        other => other,
    }
}

fn number_test(text: &str, relation: &'static str) -> Option<AtomTest> {
    let Some((low, high)) = text.split_once(':') else {
        return Some(AtomTest::Numbers(vec![(relation, text.parse().ok()?)]));
    };
    let bound = |text: &str| if text.is_empty() { Some(None) } else { text.parse::<i64>().ok().map(Some) };
    Some(match (bound(low)?, bound(high)?) {
        (Some(low), Some(high)) => AtomTest::Between(low, high),
        (Some(low), None) => AtomTest::Numbers(vec![(">=", low)]),
        (None, Some(high)) => AtomTest::Numbers(vec![("<=", high)]),
        (None, None) => return None,
    })
}

/// With the bits behind the prefix cleared, as a network is written.
fn masked(address: std::net::IpAddr, bits: u8) -> Option<std::net::IpAddr> {
    Some(match address {
        std::net::IpAddr::V4(address) if bits <= 32 => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            std::net::Ipv4Addr::from(u32::from(address) & mask).into()
        }
        std::net::IpAddr::V6(address) if bits <= 128 => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
            std::net::Ipv6Addr::from(u128::from(address) & mask).into()
        }
        _ => return None,
    })
}

/// Texts between signs, or at the ends.
fn between(values: &[String], signs: &str) -> Vec<String> {
    let class = if signs.contains('.') { "[/?.:]" } else { "[/?]" };
    values
        .iter()
        .map(|value| format!("(^|{class}){}({class}|$)", escaped(value.trim_matches(|c| signs.contains(c)))))
        .collect()
}

fn predefined(name: &str) -> Option<AclCondition> {
    let atom = |subject, test| AclCondition::Atom(Atom::new(subject, test));
    let methods = |list: &[&str]| {
        atom(AclSubject::Method, AtomTest::Equal(list.iter().map(|m| (*m).to_owned()).collect()))
    };
    Some(match name {
        "TRUE" | "HTTP" | "WAIT_END" | "REQ_CONTENT" => AclCondition::Constant(true),
        "FALSE" => AclCondition::Constant(false),
        "METH_GET" => methods(&["GET", "HEAD"]),
        "METH_CONNECT" => methods(&["CONNECT"]),
        "METH_DELETE" => methods(&["DELETE"]),
        "METH_HEAD" => methods(&["HEAD"]),
        "METH_OPTIONS" => methods(&["OPTIONS"]),
        "METH_POST" => methods(&["POST"]),
        "METH_PUT" => methods(&["PUT"]),
        "METH_TRACE" => methods(&["TRACE"]),
        "LOCALHOST" => {
            atom(AclSubject::Source, AtomTest::Networks(vec!["127.0.0.0/8".to_owned(), "::1".to_owned()]))
        }
        "HTTP_URL_SLASH" => atom(AclSubject::Path, AtomTest::Begins(vec!["/".to_owned()])),
        "HTTP_CONTENT" => AclCondition::Atom(Atom::new(
            AclSubject::Number("content_length".to_owned()),
            AtomTest::Numbers(vec![(">", 0)]),
        )),
        _ => return None,
    })
}
