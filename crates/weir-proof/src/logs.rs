//! Lines of access logs: both programs write them to the same files, or to syslog. What is of the moment is masked: times, durations, ports.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::compare::Difference;
use crate::original::OriginalFacts;
use crate::report::{DeclaredLosses, ProofReport};
use crate::rules::{DifferenceVerdict, has_unusual_path};
use crate::servers::ProofServers;

/// Lines by the place that they were written to.
pub(crate) type LogLines = BTreeMap<String, Vec<String>>;

/// Takes what was written since the last time.
pub(crate) fn take(facts: &OriginalFacts, servers: &ProofServers) -> LogLines {
    let mut found = LogLines::new();
    for path in facts
        .logs
        .iter()
        .filter(|path| path.starts_with('/') && !path.starts_with("/dev/") && !path.contains('$'))
    {
        if let Ok(text) = fs::read_to_string(path) {
            found.insert(
                path.clone(),
                text.lines().map(masked).map(|line| without_page_size(&without_echo_size(line))).collect(),
            );
            // The next program makes it anew.
            let _ = fs::remove_file(path);
        }
    }
    let messages = servers.take_messages();
    let requests = messages.iter().filter(|message| message.contains("HTTP/1")).map(|message| bare(message));
    let lines = requests.map(masked).map(|line| of_haproxy(&without_size(&line)));
    found.insert("syslog".to_owned(), lines.collect());
    found
}

/// A line of HAProxy without what is of the moment: times, connections, and which server of a backend had its turn. Of a request whose path is
/// not in its normal form, on which Weir matches its rules, the request is left. What no backend takes is Weir's own answer (`LR`), and none of a
/// server (`SC`) or of a rule that refuses (`PR`); states of the cookie for persistence are HAProxy's.
fn of_haproxy(line: &str) -> String {
    let target = quoted(line).split(' ').nth(1).unwrap_or_default().split('?').next().unwrap_or_default();
    if target.contains("//") || target.contains("/.") || target.contains('%') {
        return format!("[#] {} \"{}\"", section(line), quoted(line));
    }
    let is_of_moment = |word: &str| {
        word.contains('/') && word.bytes().all(|byte| byte.is_ascii_digit() || b"/-+".contains(&byte))
    };
    let words: Vec<&str> = line.split(' ').collect();
    let has_no_server = words.iter().any(|word| word.ends_with("/<NOSRV>"));
    let is_state = |word: &str| {
        word.len() == 4
            && word.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-')
            && word != "HTTP"
    };
    let word = |at: usize| match words[at] {
        word if is_of_moment(word) => "#".to_owned(),
        "SC--" | "PR--" | "PT--" if has_no_server => "LR--".to_owned(),
        word if word.ends_with("/<NOSRV>") => "<NOSRV>".to_owned(),
        word if is_state(word) => format!("{}--", &word[..2]),
        word if words.get(at + 1).is_some_and(|next| is_of_moment(next)) && !word.ends_with('>') => {
            word.split('/').next().unwrap_or_default().to_owned()
        }
        word => word.to_owned(),
    };
    (0..words.len()).map(word).collect::<Vec<_>>().join(" ")
}

/// The section that a line of HAProxy names.
fn section(line: &str) -> &str {
    let mut words = line.split(' ').skip_while(|word| *word != "[#]").skip(1);
    words.next().unwrap_or_default().trim_end_matches('~')
}

/// A message without what syslog puts before it: of RFC 3164, or of RFC 5424.
fn bare(message: &str) -> &str {
    let rest = message.split_once('>').map_or(message, |(_, rest)| rest);
    if let Some(rest) = rest.strip_prefix("1 ") {
        return rest.splitn(7, ' ').last().unwrap_or(rest);
    }
    rest.split_once("]: ").map_or(rest, |(_, rest)| rest)
}

/// HAProxy counts the bytes of heads, in which programs name themselves.
fn without_size(line: &str) -> String {
    let mut words: Vec<&str> = line.split(' ').collect();
    let is_number = |word: &&str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    let status = words.windows(2).position(|two| two[0].len() == 3 && two.iter().all(is_number));
    if let Some(at) = status {
        words[at + 1] = "#";
    }
    words.join(" ")
}

/// Servers say the path that they got, which may be the normal form of that in the line.
fn without_echo_size(line: String) -> String {
    let target = quoted(&line).split(' ').nth(1).unwrap_or_default();
    if has_unusual_path(target) { without_size(&line) } else { line }
}

/// Pages that no server has written have sizes of their own.
fn without_page_size(line: &str) -> String {
    let mut words: Vec<&str> = line.split(' ').collect();
    let is_refusal =
        |word: &str| word.len() == 3 && word.starts_with(['3', '4', '5']) && word.parse::<u16>().is_ok();
    if let Some(at) = words.windows(2).position(|two| is_refusal(two[0]) && two[1].parse::<u32>().is_ok()) {
        words[at + 1] = "#";
    }
    // Times, and connections of the moment.
    let is_times = |word: &str| {
        word.split('/').count() > 1
            && word.bytes().any(|byte| byte.is_ascii_digit())
            && word.bytes().all(|byte| byte.is_ascii_digit() || b"/-".contains(&byte))
    };
    words.iter_mut().filter(|word| is_times(word)).for_each(|word| *word = "#");
    words.join(" ")
}

/// Digits become `#` where they are of the moment: in brackets, behind a dot, and in long numbers.
fn masked(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut depth = 0_u32;
    let chars: Vec<char> = line.chars().collect();
    let is_number = |at: usize| chars.get(at).is_some_and(char::is_ascii_digit);
    let mut at = 0;
    while at < chars.len() {
        let next = chars[at];
        depth = match next {
            '[' => depth + 1,
            ']' => depth.saturating_sub(1),
            _ => depth,
        };
        if !next.is_ascii_digit() {
            out.push(next);
            at += 1;
            continue;
        }
        let end = (at..).find(|at| !is_number(*at)).unwrap_or(at);
        let fraction = (end + 1..).find(|at| !is_number(*at)).unwrap_or(end);
        let is_part = (at > 0 && chars[at - 1] == '.') || chars.get(fraction) == Some(&'.');
        let is_fraction = !is_part && chars.get(end) == Some(&'.') && fraction > end + 3;
        let is_port = at > 0 && chars[at - 1] == ':' && end - at >= 4;
        if depth > 0 || is_port || end - at > 9 {
            out.push('#');
        } else if is_fraction {
            out.push('#');
            at = fraction;
            continue;
        } else {
            out.extend(&chars[at..end]);
        }
        at = end;
    }
    // Months and days of the week in brackets.
    match (out.find('['), out.find(']')) {
        (Some(open), Some(close)) if open < close && out[open..close].contains('#') => {
            format!("{}[#{}", &out[..open], &out[close..])
        }
        _ => out,
    }
}

/// Compares the lines, whatever their order: threads write them when they have them.
/// Lines of requests whose other status was judged already are left out.
pub(crate) fn compare(
    theirs: &LogLines,
    ours: &LogLines,
    (declared, judged): (&DeclaredLosses, &BTreeSet<String>),
    report: &mut ProofReport,
) {
    let nothing = Vec::new();
    for (place, their) in theirs.iter().filter(|(_, lines)| !lines.is_empty()) {
        let our = ours.get(place).unwrap_or(&nothing);
        let line = report.line_naming(place);
        let verdict = if declared.lines.contains(&line) {
            DifferenceVerdict::Declared
        } else {
            DifferenceVerdict::Defect
        };
        let rule = if declared.lines.contains(&line) { "report" } else { "no rule" };
        let aspect = format!("log {place}");
        let difference = |original: &str, weir: &str| Difference {
            aspect: aspect.clone(),
            original: original.to_owned(),
            weir: weir.to_owned(),
        };
        let (mut their, mut our) = (comparable(their, judged), comparable(our, judged));
        let of_page = take_page_lines(&mut their, &mut our, &report.page_sections());
        if of_page > 0 {
            let lines = difference(&format!("{of_page} lines"), "0 lines");
            report.add(DifferenceVerdict::Deliberate, "stats", line, "requests of the status page", &lines);
        }
        let counts = (their.len(), our.len());
        their.retain(|line| {
            our.iter().position(|other| other == line).map(|at| our.swap_remove(at)).is_none()
        });
        let known = their.len() + our.len();
        their.retain(|line| !adds_slash(line) && !is_index(line, &mut our));
        our.retain(|line| !adds_slash(line));
        if known > their.len() + our.len() {
            let known =
                difference("redirects that add a slash, and index files", "as the listener, or the folder");
            report.add(DifferenceVerdict::Deliberate, "slashes", line, "all requests", &known);
        }
        // Failures that have no line at all in nginx.
        let is_more =
            |line: &String| is_failure(line) && !their.iter().any(|their| quoted(their) == quoted(line));
        if let Some(first) = our.iter().find(|line| is_more(line)) {
            let more = difference("no line", first);
            report.add(DifferenceVerdict::Deliberate, "failures", line, "all requests", &more);
        }
        our.retain(|line| !is_more(line));
        if their.len() != our.len() {
            let missing = their.first().map_or("", String::as_str);
            let counts =
                difference(&format!("{} lines, as {missing}", counts.0), &format!("{} lines", counts.1));
            let counts = Difference { aspect: format!("{aspect}, lines"), ..counts };
            report.add(verdict, rule, line, "all requests", &counts);
        }
        for their in &their {
            // The line of the same request, else any.
            let is_same = |our: &String| quoted(our) == quoted(their);
            let same = our
                .iter()
                .position(|our| is_same(our) && is_unproved_user(their, our))
                .or_else(|| our.iter().position(is_same))
                .or((!our.is_empty()).then_some(0));
            let Some(our) = same.map(|at| our.swap_remove(at)) else { break };
            let our = &our;
            let (verdict, rule) = if is_unproved_user(their, our) {
                (DifferenceVerdict::Deliberate, "user")
            } else if without_size(their) == without_size(our) {
                (DifferenceVerdict::Deliberate, "sizes")
            } else if is_closed(their, our) {
                (DifferenceVerdict::Deliberate, "closed")
            } else if declared.closes && [" 501 ", " 508 "].iter().any(|status| our.contains(status)) {
                (DifferenceVerdict::Declared, "report")
            } else {
                (verdict, rule)
            };
            report.add(verdict, rule, line, "a line of the log", &difference(their, our));
        }
    }
}

/// Lines about paths in their normal form: of others, requests are compared alone.
fn comparable(lines: &[String], judged: &BTreeSet<String>) -> Vec<String> {
    let is_usual = |line: &&String| {
        let request = quoted(line).rsplit_once(' ').map_or("", |(request, _)| request);
        !has_unusual_path(target_of(line)) && !judged.contains(request)
    };
    lines.iter().filter(is_usual).cloned().collect()
}

/// The target of the request in a line.
fn target_of(line: &str) -> &str {
    quoted(line).split(' ').nth(1).unwrap_or_default()
}

/// Whether a line has the status of a failure.
fn is_failure(line: &str) -> bool {
    let is_status =
        |word: &str| word.len() == 3 && word.starts_with(['4', '5']) && word.parse::<u16>().is_ok();
    line.split(|c: char| !c.is_ascii_alphanumeric()).any(is_status)
}

/// Whether a connection was closed without an answer, which Weir logs as the refusal that it is.
fn is_closed(their: &str, our: &str) -> bool {
    their.contains("444") && their.replace("444", "403") == our
}

/// Redirects that add a slash are logged by nginx as their location says, by Weir as its listener does.
fn adds_slash(line: &str) -> bool {
    let path = target_of(line).split('?').next().unwrap_or_default();
    line.contains("301") && !path.ends_with('/')
}

/// Whether a line is that of an index file, which is another request in nginx; the line of the same request in `our` goes with it.
fn is_index(their: &str, our: &mut Vec<String>) -> bool {
    let is_of_folder = target_of(their).split('?').next().is_some_and(|path| path.ends_with('/'));
    let same = our.iter().position(|our| quoted(our) == quoted(their));
    match same {
        Some(at) if is_of_folder && (their.contains("/index.") || our[at].contains("404")) => {
            our.swap_remove(at);
            true
        }
        _ => false,
    }
}

/// Takes out the lines of requests of the status page, which is an address of its own with Weir, and has no lines; how many they are.
fn take_page_lines(their: &mut Vec<String>, our: &mut Vec<String>, sections: &[String]) -> usize {
    let is_of_page =
        |line: &String| line.contains("/<STATS>") || sections.iter().any(|name| name == section(line));
    let before = their.len();
    their.retain(|line| {
        let is_of_page = is_of_page(line);
        let is_same = |other: &String| quoted(other) == quoted(line) && section(other) == section(line);
        if is_of_page && let Some(at) = our.iter().position(is_same) {
            our.swap_remove(at);
        }
        !is_of_page
    });
    before - their.len()
}

/// Whether lines differ in nothing but a user that the client names and that none of the programs has admitted.
fn is_unproved_user(their: &str, our: &str) -> bool {
    let (their, our): (Vec<&str>, Vec<&str>) = (their.split(' ').collect(), our.split(' ').collect());
    let mut others = their.iter().zip(&our).filter(|(one, other)| one != other);
    their.len() == our.len() && others.next() == Some((&"proof", &"-")) && others.next().is_none()
}

/// The request in a line.
fn quoted(line: &str) -> &str {
    line.split('"').nth(1).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{bare, is_unproved_user, masked, of_haproxy, take_page_lines, without_echo_size};

    #[test]
    fn requests_of_the_status_page_have_no_lines() {
        let mut theirs = vec![
            "a [#] web stats/<STATS> # 200 \"GET /s H\"".to_owned(),
            "a [#] page page/<NOSRV> # 503 \"GET /x H\"".to_owned(),
            "a [#] web app # 200 \"GET /x H\"".to_owned(),
        ];
        let mut ours = vec!["a [#] web <NOSRV> # 503 \"GET /s H\"".to_owned(), theirs[2].clone()];
        assert_eq!(take_page_lines(&mut theirs, &mut ours, &["page".to_owned()]), 2);
        assert_eq!((theirs.len(), ours.len()), (1, 1));
    }

    #[test]
    fn what_is_of_the_moment_is_masked() {
        let line = r#"127.0.0.1 - - [29/Nov/2026:10:00:00 +0000] "GET / HTTP/1.1" 200 99 0.012"#;
        assert_eq!(masked(line), r#"127.0.0.1 - - [#] "GET / HTTP/1.1" 200 99 #"#);
        assert_eq!(masked("10.0.0.1:34567 web"), "10.0.0.1:# web");
    }

    #[test]
    fn times_and_turns_of_haproxy_are_of_the_moment() {
        let line = r#"a:# [#] main app/s1 0/0/1/25/26 200 # - - ---- 1/1/0/0/0 0/0 "GET /x HTTP/1.1""#;
        assert_eq!(of_haproxy(line), r##"a:# [#] main app # 200 # - - ---- # # "GET /x HTTP/1.1""##);
        assert_eq!(of_haproxy(r#"a b/s 0/0/0 --NI "GET /x H""#), r##"a b # ---- "GET /x H""##);
        let line = r#"a w/<NOSRV> -1/-1/-1 503 # SC-- 1/1 "GET /x H""#;
        assert_eq!(of_haproxy(line), r##"a <NOSRV> # 503 # LR-- # "GET /x H""##);
        assert_eq!(of_haproxy(r#"a [#] w~ b/s 0/0/0 "GET /x/../y H""#), r#"[#] w "GET /x/../y H""#);
    }

    #[test]
    fn sizes_of_what_servers_say_of_a_path_are_masked() {
        let sized =
            |target: &str| without_echo_size(format!(r#"a - - [#] "GET {target} HTTP/1.1" 200 81 "-""#));
        assert!(sized("/x/../y").contains("200 #"));
        assert!(sized("/x?a=//").contains("200 81"));
    }

    #[test]
    fn a_user_that_nobody_admitted_is_told_apart() {
        assert!(is_unproved_user("a - proof [#] 200", "a - - [#] 200"));
        assert!(!is_unproved_user("a - - [#] 200", "a - proof [#] 200"));
        assert!(!is_unproved_user("a - proof [#] 200", "a - - [#] 404"));
        assert!(!is_unproved_user("a - proof [#] 200", "a - [#] 200"));
    }

    #[test]
    fn both_forms_of_syslog_have_a_message() {
        assert_eq!(bare("<134>Nov 29 10:00:00 haproxy[12]: 127.0.0.1 a"), "127.0.0.1 a");
        assert_eq!(bare("<134>1 2026-11-29T10:00:00Z host weir 12 - - 127.0.0.1 a"), "127.0.0.1 a");
    }
}
