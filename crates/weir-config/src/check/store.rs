//! Stores in which nodes share limits: an address that can be one, a password where there is a user.

use std::cell::Cell;
use std::sync::Arc;

use super::{Files, admin, check_name};
use crate::config::{LimitStore, StoreLogin};
use crate::diagnostic::{Diagnostic, DiagnosticKind, did_you_mean};
use crate::key::{Spanned, SpannedTable};
use crate::text::{Document, StoreText};
use crate::value::ServerAddress;

/// The usual port of Redis.
const PORT: u16 = 6379;

/// The longest prefix of names.
const PREFIX_LEN_MAX: usize = 64;

/// What a wrong address is told.
const ADDRESS_HELP: &str = "write one such as `\"redis://10.0.0.5\"`, `\"redis://cache.internal:6380/2\"` or `\"unix:/run/redis/redis.sock\"`";

/// The stores by their names, and which of them are used.
pub(super) struct StoreLookup {
    stores: Vec<Option<Arc<LimitStore>>>,
    names: Vec<Spanned<Box<str>>>,
    used: Vec<Cell<bool>>,
}

impl StoreLookup {
    pub(super) fn new(document: &Document, files: &Files<'_>, diagnostics: &mut Vec<Diagnostic>) -> Self {
        let (mut stores, mut names) = (Vec::new(), Vec::new());
        for (name, text) in &document.store.0 {
            check_name(name, "store", diagnostics);
            stores.push(check(name, text, files, diagnostics).map(Arc::new));
            names.push(name.clone());
        }
        let used = vec![Cell::new(false); stores.len()];
        Self { stores, names, used }
    }

    /// The store of this name.
    pub(super) fn find(
        &self,
        name: &Spanned<Box<str>>,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Option<Arc<LimitStore>> {
        let Some(place) = self.names.iter().position(|known| known.value == name.value) else {
            let help = did_you_mean(&name.value, self.names.iter().map(|known| &*known.value))
                .unwrap_or_else(|| format!("define it as `[store.{}]` with an `address`", name.value));
            let message = format!("there is no store `{}`", name.value);
            diagnostics.push(Diagnostic::new(DiagnosticKind::UnknownName, name.span, message).help(help));
            return None;
        };
        self.used[place].set(true);
        self.stores[place].clone()
    }

    /// Warns of stores that no limit names, unless a name that could not be found may have been meant for one.
    pub(super) fn warn_unused(&self, diagnostics: &mut Vec<Diagnostic>) {
        if diagnostics.iter().any(|diagnostic| diagnostic.kind == DiagnosticKind::UnknownName) {
            return;
        }
        for (name, _) in self.names.iter().zip(&self.used).filter(|(_, used)| !used.get()) {
            let message = format!("the store `{}` is not used: no `shared` of a limit names it", name.value);
            diagnostics.push(Diagnostic::new(DiagnosticKind::Unused, name.span, message));
        }
    }
}

fn check(
    name: &Spanned<Box<str>>,
    text: &SpannedTable<StoreText>,
    files: &Files<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<LimitStore> {
    let value = &text.value;
    let prefix = &value.prefix;
    if prefix.value.len() > PREFIX_LEN_MAX || !prefix.value.bytes().all(|byte| byte.is_ascii_graphic()) {
        let message = format!("`{}` cannot begin the names of keys", prefix.value.escape_debug());
        let help =
            format!("write at most {PREFIX_LEN_MAX} characters of ASCII without spaces, such as `\"weir:\"`");
        diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, prefix.span, message).help(help));
    }
    let login = login(text, files, diagnostics);
    let (address, database) = value.address.as_ref().and_then(|address| parse(address, diagnostics))?;
    Some(LimitStore {
        name: name.value.clone(),
        address,
        database,
        login,
        prefix: prefix.value.clone(),
        interval: value.interval,
        timeout: value.timeout,
    })
}

fn login(
    text: &SpannedTable<StoreText>,
    files: &Files<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<StoreLogin> {
    let value = &text.value;
    if let Some(file) = value.password_file.as_ref().filter(|_| value.password.is_some()) {
        // Without a label: its line has the password.
        let message = "`password` and `password_file` exclude each other";
        diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, file.span, message));
    }
    let written = value.password.as_ref().map(|password| password.0.clone());
    let from_file = || {
        let file = value.password_file.as_ref()?;
        admin::one_line(file, 1, files, diagnostics).map(Box::from)
    };
    let password = written.or_else(from_file);
    if let Some(user) = &value.user
        && text.is_missing("password")
        && text.is_missing("password_file")
    {
        let message = "`user` has no effect here: there is no `password`";
        let help = "write `password = \"${REDIS_PASSWORD}\"` or `password_file`";
        diagnostics.push(Diagnostic::new(DiagnosticKind::Unused, user.span, message).help(help));
    }
    let user = value.user.as_ref().map(|user| user.value.clone());
    password.map(|password| StoreLogin { user, password })
}

fn parse(text: &Spanned<Box<str>>, diagnostics: &mut Vec<Diagnostic>) -> Option<(ServerAddress, u32)> {
    let mut refuse = |message: String, help: &str| {
        diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, text.span, message).help(help));
        None
    };
    if text.value.starts_with("unix:") {
        return match text.value.parse::<ServerAddress>() {
            Ok(address) => Some((address, 0)),
            Err(error) => refuse(error.to_string(), ADDRESS_HELP),
        };
    }
    if text.value.starts_with("rediss://") {
        let help = "write `redis://` over a network that is trusted, or the address of a local program that adds TLS, such as stunnel";
        return refuse("connections to stores have no TLS".to_owned(), help);
    }
    let Some(rest) = text.value.strip_prefix("redis://") else {
        return refuse(format!("`{}` is not the address of a store", text.value), ADDRESS_HELP);
    };
    if rest.contains('@') {
        // The text may have a password.
        let help = "write the user as `user` and the password as `password` or `password_file`";
        return refuse("the address of a store has no user and no password".to_owned(), help);
    }
    let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
    let database = if database.is_empty() { Some(0) } else { database.parse().ok() };
    let has_port =
        authority.rsplit_once(':').is_some_and(|(host, _)| !host.contains(':') || host.ends_with(']'));
    let with_port = if has_port { authority.to_owned() } else { format!("{authority}:{PORT}") };
    let address = with_port.parse::<ServerAddress>().ok().filter(|it| !matches!(it, ServerAddress::Unix(_)));
    match (address, database) {
        (Some(address), Some(database)) => Some((address, database)),
        (None, _) => refuse(format!("`{}` is not the address of a store", text.value), ADDRESS_HELP),
        (_, None) => {
            refuse(format!("`{}` does not end with the number of a database", text.value), ADDRESS_HELP)
        }
    }
}
