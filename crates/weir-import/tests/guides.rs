//! The guides for those who come from other products, `docs/from-*.md`: the part with small originals, each beside what the import makes of it and
//! what the report says.
//!
//! `tests/guide/PRODUCT/NN-NAME` is one original. Its first line is a comment with the title, the comments behind it are the text; the rest is
//! shown and imported. `UPDATE=1` writes the pages.

#![expect(clippy::unwrap_used, reason = "a test that cannot read its files has failed")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use weir_config::CheckedConfig;
use weir_import::{ImportOutcome, ImportReport, ResultFault, SourceFiles, SourceFormat, import};

const BEGIN: &str = "<!-- begin of the generated examples -->\n";
const END: &str = "<!-- end of the generated examples -->\n";

/// A page, and the folder of its originals.
struct GuidePage {
    format: SourceFormat,
    folder: &'static str,
    page: &'static str,
    /// Of blocks of code with an original.
    language: &'static str,
    /// What the report says of nearly every original, since they are cut to what they show: it is told once, above them.
    common: &'static [&'static str],
}

/// An original without its leading comments, and files that each machine has.
struct ShownOriginal<'t>(&'t str);

impl SourceFiles for ShownOriginal<'_> {
    fn read(&self, path: &str) -> io::Result<String> {
        match path {
            "original" => Ok(self.0.to_owned()),
            // It says nothing that an import has to know.
            "fastcgi_params" => Ok(String::new()),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn matching(&self, _: &str) -> Vec<String> {
        Vec::new()
    }

    fn variable(&self, _: &str) -> Option<String> {
        None
    }

    fn faults(&self, toml: &str) -> Vec<ResultFault> {
        CheckedConfig::faults(toml).into_iter().map(ResultFault::from).collect()
    }
}

impl GuidePage {
    /// The originals in their order.
    fn originals(&self) -> Vec<PathBuf> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guide").join(self.folder);
        let mut paths: Vec<PathBuf> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths
    }

    /// The part of the page.
    fn part(&self) -> String {
        let mut part = String::new();
        if !self.common.is_empty() {
            part.push_str("\nThe originals are cut to what they show. What the report says of nearly all of them is left out of the tables:\n\n");
            self.common.iter().for_each(|note| writeln!(part, "- {note}").unwrap());
        }
        for path in self.originals() {
            let text = fs::read_to_string(&path).unwrap();
            part.push('\n');
            part.push_str(&self.section(&path.display().to_string(), &text));
        }
        part.push('\n');
        part
    }

    fn section(&self, name: &str, text: &str) -> String {
        let comments: Vec<&str> = text.lines().map_while(|line| line.strip_prefix("# ")).collect();
        let (title, words) = comments.split_first().unwrap_or_else(|| panic!("{name} has no title"));
        assert!(!words.is_empty(), "{name} has no text");
        let original: Vec<&str> = text.lines().skip(comments.len()).collect();
        let original = original.join("\n") + "\n";
        let imported = import(self.format, &["original"], &ShownOriginal(&original))
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        if let Err(diagnostics) = CheckedConfig::parse_shown(&imported.toml, "weir.toml").into_result() {
            panic!("{name} became no sound config:\n{diagnostics}\n{}", imported.toml);
        }
        let mut section = format!("### {title}\n\n{}\n", words.join("\n"));
        write!(
            section,
            "\n```{}\n{original}```\n\nbecomes\n\n```toml\n{}```\n",
            self.language, imported.toml
        )
        .unwrap();
        section + &self.remarks(&imported.report)
    }

    /// What the report says of statements that are not exact, as a table; nothing where all are.
    fn remarks(&self, report: &ImportReport) -> String {
        let mut rows: Vec<String> = Vec::new();
        let told = report.findings().iter().filter(|finding| finding.outcome != ImportOutcome::Exact);
        for finding in told {
            let notes = finding.notes.iter().filter(|note| !self.common.contains(&note.as_str()));
            let notes: Vec<&str> = notes.map(String::as_str).collect();
            if notes.is_empty() && !finding.notes.is_empty() {
                continue;
            }
            let statement = finding.statement.replace('|', "\\|");
            let notes = notes.join("; ").replace('|', "\\|");
            let row = format!("| `{statement}` | {} | {notes} |\n", finding.outcome.title());
            if !rows.contains(&row) {
                rows.push(row);
            }
        }
        if rows.is_empty() {
            return String::new();
        }
        format!("\n| the report | | |\n|---|---|---|\n{}", rows.concat())
    }
}

/// `UPDATE=1` writes it.
fn is_current(guide: &GuidePage) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(guide.page);
    let page = fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("the page says where the part begins");
    let (_, after) = rest.split_once(END).expect("the page says where the part ends");
    let expected = format!("{before}{BEGIN}{}{END}{after}", guide.part());
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, &expected).unwrap();
        return;
    }
    assert!(
        page == expected,
        "docs/{} is out of date: UPDATE=1 cargo test -p weir-import --test guides",
        guide.page
    );
}

#[test]
fn the_guide_from_nginx_is_current() {
    is_current(&GuidePage {
        format: SourceFormat::Nginx,
        folder: "nginx",
        page: "from-nginx.md",
        language: "nginx",
        common: &[],
    });
}

#[test]
fn the_guide_from_haproxy_is_current() {
    is_current(&GuidePage {
        format: SourceFormat::Haproxy,
        folder: "haproxy",
        page: "from-haproxy.md",
        language: "haproxy",
        common: &[
            "without `timeout client`, HAProxy waits for ever: Weir has `timeouts` of its own",
            "without `timeout server`, HAProxy waits for ever: Weir has `timeouts` of its own",
            "servers get `X-Forwarded-For` and its like as with `option forwardfor`; what proxies in front send in them is dropped, unless \
             `trusted_proxies` names them",
        ],
    });
}
