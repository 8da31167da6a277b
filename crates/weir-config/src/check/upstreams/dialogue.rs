//! The dialogue of a probe other than HTTP: a preset or a custom one, not both, and none that fills the log of a database.

use crate::config::Dialogue;
use crate::diagnostic::{Diagnostic, DiagnosticKind};
use crate::key::SpannedTable;
use crate::text::{HealthText, ProbeBytes, ProbeKind, ProbePreset};

/// Keys that only a conversation has.
const KEYS: [&str; 5] = ["preset", "user", "send", "expect", "quit"];

/// The longest name of a user: MariaDB takes 128 characters, PostgreSQL 63 bytes.
const USER_BYTES_MAX: usize = 128;

/// Whether a conversation is written at all.
pub(in crate::check) fn is_written(text: &SpannedTable<HealthText>) -> bool {
    KEYS.into_iter().any(|key| text.written(key).is_some())
}

pub(in crate::check) fn check(
    text: &SpannedTable<HealthText>,
    kind: ProbeKind,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Dialogue> {
    if kind == ProbeKind::Http {
        for (key, at) in KEYS.into_iter().filter_map(|key| Some((key, text.written(key)?))) {
            let message = format!("`{key}` has no effect: a probe of the kind `http` sends a request");
            let help = "leave out `path` and `kind` for a dialogue over TCP";
            diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, at, message).help(help));
        }
        return None;
    }
    match text.value.preset {
        Some(preset) => of_preset(text, preset, kind, diagnostics),
        None => script(text, diagnostics),
    }
}

fn of_preset(
    text: &SpannedTable<HealthText>,
    preset: ProbePreset,
    kind: ProbeKind,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Dialogue> {
    for (key, at) in ["send", "expect", "quit"].into_iter().filter_map(|key| Some((key, text.written(key)?)))
    {
        let message = format!("a probe has a `preset` or a `{key}` of its own");
        diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, at, message));
    }
    let preset_at = text.key_at("preset");
    let is_database = matches!(preset, ProbePreset::Mysql | ProbePreset::Postgresql);
    if is_database && kind == ProbeKind::Tls {
        let message = "this protocol begins without TLS, even if it is encrypted later";
        let help = "write `tls = false` or `kind = \"tcp\"` for the probes";
        diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, preset_at, message).help(help));
    }
    let user = text.value.user.as_ref();
    if let Some(user) = user {
        let message = match &*user.value {
            _ if !is_database => {
                Some("`user` has no effect: only `mysql` and `postgresql` have a login".to_owned())
            }
            "" => Some("`user` is empty".to_owned()),
            name if name.contains('\0') => Some("a user name cannot contain a NUL".to_owned()),
            name if name.len() > USER_BYTES_MAX => {
                Some(format!("a user name has at most {USER_BYTES_MAX} bytes"))
            }
            _ => None,
        };
        diagnostics
            .extend(message.map(|message| Diagnostic::new(DiagnosticKind::BadValue, user.span, message)));
    }
    let user = user.map(|user| user.value.clone());
    match (preset, user) {
        (ProbePreset::Redis, _) => Some(Dialogue::Redis),
        (ProbePreset::Smtp, _) => Some(Dialogue::Smtp),
        (ProbePreset::Postgresql, user) => Some(Dialogue::Postgresql { user }),
        (ProbePreset::Mysql, Some(user)) => Some(Dialogue::Mysql { user }),
        (ProbePreset::Mysql, None) => {
            if text.is_missing("user") {
                let message = "`preset = \"mysql\"` needs a `user`";
                let help = "create one without privileges, `CREATE USER \"weir\"@\"10.0.0.%\"`: a server logs connections without a login as \
                            aborted, and after 100 of them (`max_connect_errors`) takes no more from this host";
                diagnostics.push(Diagnostic::new(DiagnosticKind::MissingKey, preset_at, message).help(help));
            }
            None
        }
    }
}

fn script(text: &SpannedTable<HealthText>, diagnostics: &mut Vec<Diagnostic>) -> Option<Dialogue> {
    if let Some(at) = text.value.user.as_ref().map(|_| text.key_at("user")) {
        let message = "`user` has no effect without `preset = \"mysql\"` or `\"postgresql\"`";
        diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, at, message));
    }
    let HealthText { send, expect, quit, .. } = &text.value;
    for (key, value) in [("send", send), ("quit", quit)] {
        if value.is_some() && text.is_missing("expect") {
            let at = text.key_at(key);
            let message = format!("`{key}` without `expect`: the answer would not be checked");
            let help = "write the expected answer, for example `expect = \"+PONG\"`";
            diagnostics.push(Diagnostic::new(DiagnosticKind::MissingKey, at, message).help(help));
        }
    }
    let bytes =
        |value: &Option<ProbeBytes>| value.as_ref().map_or_else(Box::default, |value| value.bytes.clone());
    let expect = expect.as_ref()?.bytes.clone();
    Some(Dialogue::Script { send: bytes(send), expect, quit: bytes(quit) })
}
