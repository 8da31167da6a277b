//! Checks on the messages of commits: `area: imperative summary` in 72 characters, an empty line, and a body that says why.
//!
//! Only commits after a fixed moment are checked; history is as it is. Merges are left out. Where there is no git or no repository (sources of a
//! release), there is nothing to check. In a shallow clone, its oldest commits seem to have no parents: they are left out, since they may be
//! merges whose parents are missing.

use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

use regex::Regex;

use super::finding::Finding;
use super::rule::HouseRule;

/// Commits from this moment on follow the rule: 2026-11-29 05:00 UTC, in seconds since 1970.
const SINCE_SECONDS: u64 = 1_795_928_400;

/// More are not shown whole by `git log --oneline`, mails and web pages.
const SUBJECT_CHARS_MAX: usize = 72;

/// One area or several, as `http` or `weir-lab, docs`, then a summary.
static SUBJECT: LazyLock<Regex> = LazyLock::new(|| {
    let area = "[a-z0-9][a-z0-9_./-]*";
    Regex::new(&format!(r"^{area}(?:, {area})*: \S")).expect("the pattern is constant")
});

/// Lines such as `Signed-off-by: A <a@b>`: they say who, not why.
static TRAILER: LazyLock<Regex> =
    LazyLock::new(|| Regex::new("^[A-Z][A-Za-z]*(?:-[A-Za-z]+)+: ").expect("the pattern is constant"));

pub(super) fn check(root: &Path) -> Vec<Finding> {
    let Some(log) = log(root) else { return Vec::new() };
    commits(&log).iter().flat_map(faults).collect()
}

/// The commits since the moment, each as hash, parents, seconds and message with NUL between and behind them. `None` where git gives none.
fn log(root: &Path) -> Option<String> {
    let since = format!("--since=@{SINCE_SECONDS}");
    let format = "--format=%H%x00%P%x00%ct%x00%B%x00";
    let output = git(root).args(["log", "--no-merges", &since, format]).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Git in this folder, whatever repository a hook may have been started for.
fn git(folder: &Path) -> Command {
    let mut command = Command::new("git");
    command
        .arg("-C")
        .arg(folder)
        .env_remove("GIT_DIR")
        .env_remove("GIT_WORK_TREE")
        .env_remove("GIT_INDEX_FILE");
    command
}

/// A commit as `git log` prints it.
struct LoggedCommit<'a> {
    hash: &'a str,
    message: &'a str,
}

/// The commits of a log that the rule is for.
fn commits(log: &str) -> Vec<LoggedCommit<'_>> {
    let mut fields = log.split('\0');
    let mut commits = Vec::new();
    while let (Some(hash), Some(parents), Some(seconds), Some(message)) =
        (fields.next(), fields.next(), fields.next(), fields.next())
    {
        let is_recent = seconds.parse::<u64>().is_ok_and(|seconds| seconds >= SINCE_SECONDS);
        // More than one parent: a merge. None: the first commit of all, or the end of a shallow clone.
        let has_one_parent = parents.split_whitespace().count() == 1;
        if is_recent && has_one_parent {
            commits.push(LoggedCommit { hash: hash.trim(), message });
        }
    }
    commits
}

fn faults(commit: &LoggedCommit<'_>) -> Vec<Finding> {
    let mut lines = commit.message.lines();
    let subject = lines.next().unwrap_or_default();
    let mut faults = Vec::new();
    if !SUBJECT.is_match(subject) {
        faults.push("its subject is not `area: imperative summary`, with the area in lower case".to_owned());
    }
    let chars = subject.chars().count();
    if chars > SUBJECT_CHARS_MAX {
        faults.push(format!("its subject has {chars} characters, {SUBJECT_CHARS_MAX} are the most"));
    }
    if subject.ends_with('.') {
        faults.push("its subject ends with a full stop".to_owned());
    }
    if lines.next().is_some_and(|line| !line.is_empty()) {
        faults.push("its second line is not empty".to_owned());
    }
    if !lines.any(|line| !line.trim().is_empty() && !TRAILER.is_match(line)) {
        faults.push("it has no body that says why".to_owned());
    }
    let short = commit.hash.get(..10).unwrap_or(commit.hash);
    let place = format!("commit {short}");
    faults
        .into_iter()
        .map(|fault| {
            let message = format!("\"{subject}\": {fault}; `git rebase -i` with `reword` changes it");
            Finding::new(HouseRule::Commit, &place, 0, commit.hash, message)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn found(message: &str) -> usize {
        faults(&LoggedCommit { hash: "0123456789abcdef", message }).len()
    }

    #[test]
    fn subject_and_body() {
        let cases = [
            ("http: reject a bare LF\n\nServers take it for an end.\n", 0),
            ("weir-lab, docs: measure twice\n\nOnce is noise.\n\nReviewed-by: A B <a@b>\n", 0),
            ("xtask/tidy: check commits\n\nWhy.", 0),
            ("Reject a bare LF\n\nWhy.\n", 1),
            ("Http: reject a bare LF\n\nWhy.\n", 1),
            ("http:reject\n\nWhy.\n", 1),
            ("http: reject a bare LF.\n\nWhy.\n", 1),
            ("http: reject a bare LF\nWhy.\n\nWhy.\n", 1),
            ("http: reject a bare LF\n", 1),
            ("http: reject a bare LF\n\nSigned-off-by: A B <a@b>\n", 1),
            ("", 2),
        ];
        for (message, expected) in cases {
            assert_eq!(found(message), expected, "{message}");
        }
    }

    #[test]
    fn the_longest_subject() {
        let subject = |chars: usize| format!("docs: {}\n\nWhy.\n", "ä".repeat(chars - 6));
        assert_eq!((found(&subject(72)), found(&subject(73))), (0, 1));
    }

    #[test]
    fn merges_roots_and_older_commits_are_left_out() {
        let entry =
            |hash: &str, parents: &str, seconds: u64| format!("{hash}\0{parents}\0{seconds}\0x: y\n\0\n");
        let log = [
            entry("a", "p", SINCE_SECONDS),
            entry("b", "p q", SINCE_SECONDS),
            entry("c", "", SINCE_SECONDS),
            entry("d", "p", SINCE_SECONDS - 1),
        ]
        .concat();
        let hashes: Vec<&str> = commits(&log).iter().map(|commit| commit.hash).collect();
        assert_eq!(hashes, ["a"]);
        assert!(commits("").is_empty());
    }

    #[test]
    fn without_a_repository_there_is_nothing_to_check() {
        let folder = tempfile::tempdir().unwrap();
        // A damaged `.git` here keeps git from finding a repository above.
        fs::write(folder.path().join(".git"), "none\n").unwrap();
        assert_eq!(check(folder.path()), []);
    }

    #[test]
    fn a_repository_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let git = |args: &[&str]| {
            let mut command = git(folder.path());
            command
                .args(["-c", "user.name=A", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"])
                .args(args);
            let date = format!("@{} +0000", SINCE_SECONDS + 1);
            command.env("GIT_COMMITTER_DATE", &date).env("GIT_AUTHOR_DATE", &date).output()
        };
        if git(&["init"]).is_err() {
            return; // No git: nothing to read.
        }
        for message in ["First", "docs: say why\n\nIt was not said.", "Third"] {
            git(&["commit", "--allow-empty", "-m", message]).unwrap();
        }
        let findings = check(folder.path());
        assert_eq!(findings.len(), 2, "form and body of the third, not the root: {findings:?}");
        assert!(findings.iter().all(|finding| finding.message.starts_with("\"Third\"")));
    }
}
