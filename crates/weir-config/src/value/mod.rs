//! The types of value, each with one notation: `"250ms"`, `"64KiB"`, `"500B/s"`, `"10.0.0.1:80"`.
//!
//! Each type parses from text and prints as text that parses to the same value. Knows no keys.

mod address;
mod certificate_name;
mod network;
mod condition;
mod template;
mod header;
mod status;
mod progress;
mod rate;
mod request_frequency;
mod size;
mod bucket;
mod duration;
mod path;
mod share_fraction;
mod percent;
mod fraction;
mod file_mode;
mod number;
mod ascii_host;

use std::fmt;
use std::ops::Range;

pub use address::{ListenAddress, ServerAddress, SourceAddress};
pub use certificate_name::CertificateName;
pub use condition::WhenCondition;
pub use duration::{parse_duration, print_duration};
pub use file_mode::FileMode;
pub use fraction::Fraction;
pub use header::{HeaderName, HeaderValue, Token};
pub use path::is_normal_path;
pub use percent::Percent;
pub use progress::ProgressLimit;
pub use rate::ByteRate;
pub use request_frequency::RequestFrequency;
pub use share_fraction::ShareFraction;
pub use size::Size;
pub use status::StatusRange;
pub use template::{
    GroupPiece, GroupTemplate, HeaderTemplate, LiveMap, MapDefinition, MapLookups, MapTable, OwnValue,
    ProxyValue, ReadMap, TableDefinition, Template, TemplateFacts, TemplatePart, TemplateValue,
};

pub(crate) use address::dns_name;
pub(crate) use ascii_host::ascii_help;
pub(crate) use bucket::{parse_bucket, print_bucket};
pub(crate) use duration::MILLISECONDS_MAX;
pub(crate) use header::{FRAMING, is_token};
pub(crate) use network::parse_network;
pub(crate) use number::{Scale, parse_scaled};
pub(crate) use status::{STATUS_MAX, STATUS_MIN};
pub(crate) use template::{
    AddressDatabase, DatabaseField, DatabaseReader, LOOKUPS_MAX, MapDatabase, MapEntry, MapParts, OwnNames,
    template_values,
};

/// Longest name of a listener, upstream, server, route or limit.
const NAME_LEN_MAX: usize = 64;

/// Whether a text can name a listener, an upstream, a server, a route or a limit: it appears in log lines, labels and URLs unchanged.
pub(crate) fn is_name(text: &str) -> bool {
    (1..=NAME_LEN_MAX).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

/// Why a text is not a value of its kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueError {
    /// The error, in one sentence without a full stop.
    pub message: String,
    /// The suggestion, if there is one.
    pub help: Option<String>,
    /// The bytes of the text that are wrong; `None` when it is the whole.
    pub range: Option<Range<usize>>,
}

impl ValueError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), help: None, range: None }
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// With this help, where there is one.
    pub(crate) fn help_if(self, help: Option<String>) -> Self {
        Self { help: help.or(self.help), ..self }
    }

    pub(crate) fn range(mut self, range: Range<usize>) -> Self {
        self.range = Some(range);
        self
    }
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.help {
            Some(help) => write!(f, " ({help})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ValueError {}
