//! `[listener.NAME.tls.internal]` in the text, and its short form `tls = "internal"`.

use std::ops::Deref;
use std::time::Duration;

use weir_traffic::route::HostPattern;

use super::ListenerTlsText;
use crate::key::{Bounds, ConfigValue, Spanned, SpannedTable, TreeReader, ValueKind, choice, section};
use crate::source::{Tree, TreeNode};

section! {
    /// Certificates of an authority of Weir's own, for development: one certificate for all hosts of the listener. Clients trust it once they trust its
    /// root, `root.pem` in `directory`; the log has the command. Only for names that the public DNS does not have: `localhost`, names
    /// below `localhost`, `test`, `example`, `internal`, `local` and `home.arpa`, and private addresses; the root can sign no others.
    /// [docs/certificates.md](certificates.md#an-authority-for-development) says more.
    #[derive(Debug, Clone)]
    pub(crate) struct InternalText at "listener.NAME.tls.internal" {
        /// The names and addresses that the certificate is for. Without it, the hosts of the routes, `localhost`, `127.0.0.1` and `[::1]`.
        hosts: Vec<Spanned<HostPattern>> = optional;
        /// The folder for root and key; only the user of Weir may read the key. Without it, `internal` below `$STATE_DIRECTORY`, which systemd
        /// sets; else `~/.local/state/weir/internal`; for root `/var/lib/weir/internal`.
        directory: Spanned<Box<str>> = optional, like "Caddy `storage`";
        /// How long a certificate is valid. It is renewed after two thirds of that.
        lifetime: Duration = "24h", in 1_000..=604_800_000, like "Caddy `lifetime`";
    }
}

choice! {
    /// The word in place of a table.
    pub(crate) enum TlsWord {
        /// as `{ internal = {} }`: certificates of an authority of Weir's own, for development
        #[default]
        Internal = "internal",
    }
}

/// TLS of a listener: a table, or a word.
#[derive(Debug, Clone)]
pub(crate) struct TlsChoice(SpannedTable<ListenerTlsText>);

impl Deref for TlsChoice {
    type Target = SpannedTable<ListenerTlsText>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl ConfigValue for TlsChoice {
    fn kind(bounds: Bounds) -> ValueKind {
        ValueKind::Either(vec![TlsWord::kind(bounds), ListenerTlsText::kind(bounds)])
    }

    fn read(node: &TreeNode, bounds: Bounds, reader: &mut TreeReader<'_>) -> Option<Self> {
        match &node.tree {
            Tree::Table(_) => SpannedTable::read(node, bounds, reader).map(Self),
            Tree::Text(_) => {
                let TlsWord::Internal = TlsWord::read(node, bounds, reader)?;
                let internal = SpannedTable::unwritten(InternalText::default(), node.span);
                let text = ListenerTlsText { internal: Some(internal), ..ListenerTlsText::default() };
                Some(Self(SpannedTable::unwritten(text, node.span)))
            }
            _ => {
                reader.wrong_type(node, &Self::kind(bounds));
                None
            }
        }
    }

    fn write(&self) -> String {
        self.0.write()
    }

    fn lines(&self, path: &str, lines: &mut Vec<String>) {
        self.0.lines(path, lines);
    }
}
