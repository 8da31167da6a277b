//! Stores in which nodes share limits: an address that can be one, a password where there is a user, TLS where an address wants it.

use std::cell::Cell;
use std::sync::Arc;

use super::store_address;
use super::store_address::{SentinelAddress, StoreAddress};
use crate::certificate::Authorities;
use crate::check::admin;
use crate::check::certificate_files;
use crate::check::files::Files;
use crate::check::names::check_name;
use crate::config::{LimitStore, Sentinel, StoreLogin, StorePlace, StoreTls};
use crate::diagnostic::SourceSpan;
use crate::diagnostic::{Diagnostic, DiagnosticKind, did_you_mean};
use crate::key::{Spanned, SpannedTable};
use crate::text::{Document, StorePasswordText, StoreText, TlsServerName};

/// The longest prefix of names.
const PREFIX_LEN_MAX: usize = 64;

/// The stores by their names, and which of them are used.
pub(in crate::check) struct StoreLookup {
    stores: Vec<Option<Arc<LimitStore>>>,
    names: Vec<Spanned<Box<str>>>,
    used: Vec<Cell<bool>>,
}

impl StoreLookup {
    pub(in crate::check) fn new(
        document: &Document,
        files: &Files<'_>,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Self {
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
    pub(in crate::check) fn find(
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
    pub(in crate::check) fn warn_unused(&self, diagnostics: &mut Vec<Diagnostic>) {
        if diagnostics.iter().any(|diagnostic| diagnostic.kind == DiagnosticKind::UnknownName) {
            return;
        }
        for (name, _) in self.names.iter().zip(&self.used).filter(|(_, used)| !used.get()) {
            let message = format!(
                "the store `{}` is not used: no `shared` of a limit, a table or an affinity names it",
                name.value
            );
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
    let password = (&value.password, &value.password_file);
    let login = login(text, &value.user, password, files, diagnostics);
    let address = value.address.as_ref().and_then(|address| match &value.sentinel {
        None => store_address::of_server(address, diagnostics),
        Some(_) => store_address::of_master(address, diagnostics),
    });
    let written = value.sentinel.iter().filter_map(|sentinel| sentinel.value.addresses.as_ref());
    let parsed = written.flat_map(|addresses| &addresses.0);
    let sentinels: Vec<SentinelAddress> =
        parsed.filter_map(|address| store_address::of_sentinel(address, diagnostics)).collect();
    let tls_at = value.address.as_ref().filter(|_| address.as_ref().is_some_and(|address| address.is_tls));
    let tls_at = tls_at.map(|address| address.span);
    let sentinel_tls_at = sentinels.iter().find(|sentinel| sentinel.is_tls).map(|sentinel| sentinel.span);
    warn_server_names(text, tls_at, sentinel_tls_at, diagnostics);
    let tls = tls(text, tls_at.or(sentinel_tls_at), files, diagnostics);
    let with_name = |name: &Option<TlsServerName>| {
        let server_name = name.as_ref().map(|name| name.0.clone());
        tls.clone().map(|tls| StoreTls { server_name, ..tls })
    };
    let sentinel = value.sentinel.as_ref().map(|text| {
        let names = &text.value.server_name;
        let sentinels = sentinels
            .into_iter()
            .map(|it| Sentinel { address: it.server, tls: with_name(names).filter(|_| it.is_tls) });
        let password = (&text.value.password, &text.value.password_file);
        (sentinels.collect(), self::login(text, &text.value.user, password, files, diagnostics))
    });
    let mut address = address?;
    warn_in_the_clear(text, &address, diagnostics);
    if let (StorePlace::Master(master), Some(sentinel)) = (&mut address.place, sentinel) {
        (master.sentinels, master.login) = sentinel;
    }
    Some(LimitStore {
        name: name.value.clone(),
        tls: with_name(&value.server_name).filter(|_| address.is_tls),
        place: address.place,
        database: address.database,
        login,
        prefix: prefix.value.clone(),
        interval: value.interval,
        timeout: value.timeout,
    })
}

/// A password and who has it, of a store or of its sentinels.
fn login<T>(
    text: &SpannedTable<T>,
    user: &Option<Spanned<Box<str>>>,
    (password, password_file): (&Option<StorePasswordText>, &Option<Spanned<Box<str>>>),
    files: &Files<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<StoreLogin> {
    if let Some(file) = password_file.as_ref().filter(|_| password.is_some()) {
        // Without a label: its line has the password.
        let message = "`password` and `password_file` exclude each other";
        diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, file.span, message));
    }
    let written = password.as_ref().map(|password| password.0.clone());
    let from_file = || admin::one_line(password_file.as_ref()?, 1, files, diagnostics).map(Box::from);
    let password = written.or_else(from_file);
    if let Some(user) = user
        && text.is_missing("password")
        && text.is_missing("password_file")
    {
        let message = "`user` has no effect here: there is no `password`";
        let help = "write `password = \"${REDIS_PASSWORD}\"` or `password_file`";
        diagnostics.push(Diagnostic::new(DiagnosticKind::Unused, user.span, message).help(help));
    }
    let user = user.as_ref().map(|user| user.value.clone());
    password.map(|password| StoreLogin { user, password })
}

/// TLS, where an address at `at` has it.
fn tls(
    text: &SpannedTable<StoreText>,
    at: Option<SourceSpan>,
    files: &Files<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<StoreTls> {
    let StoreText { ca, certificate, key, .. } = &text.value;
    let Some(at) = at else {
        for (name, file) in [("ca", ca), ("certificate", certificate), ("key", key)] {
            if let Some(file) = file {
                let message = format!("`{name}` has no effect: no address begins with `rediss://`");
                diagnostics.push(Diagnostic::new(DiagnosticKind::Unused, file.span, message));
            }
        }
        return None;
    };
    let certificate = certificate_files::load_presented(text, [certificate, key], files, diagnostics);
    let authorities = certificate_files::load_authorities(ca.as_ref(), at, files, diagnostics);
    // Without any, no certificate is taken.
    let none = || Arc::new(Authorities { file: None, certificates: Vec::new() });
    Some(StoreTls { authorities: authorities.unwrap_or_else(none), certificate, server_name: None })
}

/// Warns of names for certificates that no connection asks for.
fn warn_server_names(
    text: &SpannedTable<StoreText>,
    tls_at: Option<SourceSpan>,
    sentinel_tls_at: Option<SourceSpan>,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let mut warn = |name: &Option<TlsServerName>, at: Option<SourceSpan>, what: &str| {
        if let (Some(_), Some(at)) = (name, at) {
            let message = format!("`server_name` has no effect: {what} with `rediss://`");
            diagnostics.push(Diagnostic::new(DiagnosticKind::Unused, at, message));
        }
    };
    if tls_at.is_none() {
        warn(&text.value.server_name, text.written("server_name"), "the address does not begin");
    }
    if let Some(sentinel) = text.value.sentinel.as_ref().filter(|_| sentinel_tls_at.is_none()) {
        let at = sentinel.written("server_name");
        warn(&sentinel.value.server_name, at, "no address of a sentinel begins");
    }
}

/// Warns when the password of the store is sent over a network unencrypted.
fn warn_in_the_clear(
    text: &SpannedTable<StoreText>,
    address: &StoreAddress,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let is_safe = match &address.place {
        StorePlace::Address(server) => address.is_tls || server.is_this_machine(),
        // Where it is is known later.
        StorePlace::Master(_) => address.is_tls,
    };
    let has_password = text.value.password.is_some() || text.value.password_file.is_some();
    if let Some(written) = text.value.address.as_ref().filter(|_| has_password && !is_safe) {
        // Without a label: the line of the password has it.
        let message = "the password is sent unencrypted";
        let diagnostic = Diagnostic::new(DiagnosticKind::Suspicious, written.span, message);
        diagnostics.push(diagnostic.help("use `rediss://` where the store has TLS"));
    }
}
