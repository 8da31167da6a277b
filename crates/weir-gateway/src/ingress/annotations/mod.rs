//! The annotations of ingress-nginx: one table of what each means, what it comes to in Weir, or why it comes to nothing.
//!
//! No annotation is ignored in silence. One that restricts access and cannot be applied closes its Ingress: its paths are answered 503.

mod table;
mod paths;
mod limits;
mod access;
mod servers;
mod messages;
mod canary;
mod values;
mod draft;

use crate::api::{Annotations, NGINX_PREFIX, WEIR_PREFIX};
use crate::refusal::excerpt;

pub(crate) use draft::{BackendProtocol, CanaryDraft, IngressDraft};
pub(crate) use messages::header;
pub(crate) use table::table;
pub(crate) use values::boolean;

/// The annotation that names others, which this Ingress is to be served without.
pub const WITHOUT_ANNOTATION: &str = "weir.dev/serve-without";

/// What becomes of an annotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnnotationHandling {
    /// It is translated.
    Translated,
    /// Weir does so in any case, or needs nothing of the kind.
    Needless,
    /// The Ingress is served without it, and told so.
    LeftOut,
    /// The Ingress is not served: without the annotation it would do something else, or admit requests that it has to refuse.
    Refused,
}

impl AnnotationHandling {
    /// The word of reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Translated => "translated",
            Self::Needless => "not needed",
            Self::LeftOut => "not applied",
            Self::Refused => "refused",
        }
    }
}

/// Reads a value into the draft; or says why it cannot be applied, with nothing where the row of the table says that.
type ReadAnnotation = fn(&mut IngressDraft, &str) -> Result<(), String>;

/// A row of the table: an annotation of ingress-nginx.
#[derive(Debug, Clone, Copy)]
pub struct IngressAnnotation {
    /// The name behind `nginx.ingress.kubernetes.io/`.
    pub name: &'static str,
    /// What it means to ingress-nginx.
    pub meaning: &'static str,
    /// The equivalent in the config of Weir and what differs, or what is missing.
    pub weir: &'static str,
    /// What becomes of it.
    pub handling: AnnotationHandling,
    /// Whether it restricts access: a value that cannot be used refuses the Ingress.
    pub guards: bool,
    read: ReadAnnotation,
}

impl IngressAnnotation {
    const fn translated(
        name: &'static str,
        meaning: &'static str,
        weir: &'static str,
        read: ReadAnnotation,
    ) -> Self {
        Self { name, meaning, weir, handling: AnnotationHandling::Translated, guards: false, read }
    }

    /// One that is translated and restricts access.
    const fn guard(
        name: &'static str,
        meaning: &'static str,
        weir: &'static str,
        read: ReadAnnotation,
    ) -> Self {
        Self { name, meaning, weir, handling: AnnotationHandling::Translated, guards: true, read }
    }

    const fn needless(name: &'static str, meaning: &'static str, weir: &'static str) -> Self {
        Self {
            name,
            meaning,
            weir,
            handling: AnnotationHandling::Needless,
            guards: false,
            read: |_, _| Ok(()),
        }
    }

    /// One that is not applied, unless its value asks for nothing.
    const fn left_out(name: &'static str, meaning: &'static str, weir: &'static str) -> Self {
        Self { name, meaning, weir, handling: AnnotationHandling::LeftOut, guards: false, read: unless_off }
    }

    /// One that refuses the Ingress, unless its value asks for nothing.
    const fn refused(name: &'static str, meaning: &'static str, weir: &'static str) -> Self {
        Self { name, meaning, weir, handling: AnnotationHandling::Refused, guards: true, read: unless_off }
    }

    /// Whether the Ingress is refused when it cannot be applied.
    const fn closes(&self) -> bool {
        self.guards || matches!(self.handling, AnnotationHandling::Refused)
    }
}

fn unless_off(_: &mut IngressDraft, value: &str) -> Result<(), String> {
    if matches!(value, "" | "false" | "off") { Ok(()) } else { Err(String::new()) }
}

impl IngressDraft {
    /// What annotations make of each other.
    fn finish(&mut self, problems: &mut Vec<IngressProblem>) {
        self.finish_access(problems);
        self.finish_servers(problems);
        self.finish_messages(problems);
        self.finish_canary(problems);
    }
}

/// Something about an Ingress that its author has to know.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct IngressProblem {
    /// The annotation, by its full name; empty: it is about something else.
    pub annotation: Box<str>,
    /// Whether the Ingress is not served for that reason.
    pub refuses: bool,
    /// What is wrong, in one line.
    pub message: Box<str>,
}

impl IngressProblem {
    pub(crate) fn new(annotation: &str, refuses: bool, message: impl Into<String>) -> Self {
        let message: String = message.into();
        let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
        Self { annotation: annotation.into(), refuses, message: message.into() }
    }

    /// The same in one sentence.
    pub fn sentence(&self) -> String {
        match &*self.annotation {
            "" => self.message.to_string(),
            name => format!("{name}: {}", self.message),
        }
    }
}

/// Reads all annotations of an Ingress.
pub(crate) fn read(namespace: &str, annotations: &Annotations) -> (IngressDraft, Vec<IngressProblem>) {
    let mut draft = IngressDraft::new(namespace);
    let mut problems = Vec::new();
    let without: Vec<&str> = annotations.get(WITHOUT_ANNOTATION).map_or_else(Vec::new, |names| {
        values::items(names).map(|name| name.strip_prefix(NGINX_PREFIX).unwrap_or(name)).collect()
    });
    for name in &without {
        if !annotations.contains_key(format!("{NGINX_PREFIX}{name}").as_str()) {
            let message = format!("it names `{}`, which this Ingress does not have", excerpt(name));
            problems.push(IngressProblem::new(WITHOUT_ANNOTATION, false, message));
        }
    }
    for (full, value) in annotations {
        if let Some(name) = full.strip_prefix(NGINX_PREFIX) {
            problems.extend(read_one(&mut draft, (full, name), value.trim(), without.contains(&name)));
        } else if full.starts_with(WEIR_PREFIX) && **full != *WITHOUT_ANNOTATION {
            let message = format!("there is no such annotation; {WITHOUT_ANNOTATION} is the only one");
            problems.push(IngressProblem::new(full, false, message));
        }
    }
    draft.finish(&mut problems);
    (draft, problems)
}

fn read_one(
    draft: &mut IngressDraft,
    (full, name): (&str, &str),
    value: &str,
    is_left_out: bool,
) -> Option<IngressProblem> {
    let Some(row) = table().find(|row| row.name == name) else {
        let (refuses, similar) = match similar(name) {
            Some(row) => (row.closes(), format!("; did you mean `{}`?", row.name)),
            None => (false, String::new()),
        };
        let message = format!("ingress-nginx has no such annotation{similar}");
        return Some(IngressProblem::new(full, refuses && !is_left_out, message));
    };
    if is_left_out {
        return Some(IngressProblem::new(
            full,
            false,
            format!("served without it, as {WITHOUT_ANNOTATION} asks"),
        ));
    }
    let why = (row.read)(draft, value).err()?;
    let why = if why.is_empty() { row.weir } else { &why };
    Some(IngressProblem::new(full, row.closes(), why))
}

/// The annotation that a name was meant to be: at most two letters differ.
fn similar(name: &str) -> Option<&'static IngressAnnotation> {
    let distance = |row: &&IngressAnnotation| edit_distance(name, row.name);
    table().min_by_key(distance).filter(|row| name.len() > 4 && distance(row) <= 2)
}

fn edit_distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, left) in one.bytes().enumerate() {
        let (mut diagonal, mut last) = (at, at + 1);
        row[0] = last;
        for (place, right) in other.bytes().enumerate() {
            let best = (diagonal + usize::from(left != right)).min(last + 1).min(row[place + 1] + 1);
            (diagonal, last) = (row[place + 1], best);
            row[place + 1] = best;
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests;
