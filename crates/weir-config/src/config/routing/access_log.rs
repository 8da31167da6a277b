//! `[access_log]` and `listener.NAME.access_log`: one line per exchange.

use std::fmt;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::PathBuf;
use std::str::FromStr;

use crate::key::{TextFormat, section, text_values};
use crate::value::{Fraction, TemplateValue, ValueError, WhenCondition};

section! {
    /// One line per exchange. The table of a listener replaces this one as a whole, not key by key.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct AccessLog at "access_log" {
        /// The format of a line: `"common"`, `"combined"`, `"json"`, `"httplog"` (HAProxy's; on TCP listeners its `tcplog`), a text with
        /// `{placeholders}`, or `json` and a list of placeholders. `"off"` writes none.
        format: Option<AccessLogFormat> = "off", like "nginx `log_format`, HAProxy `option httplog`, `log-format`";
        /// A condition: only exchanges for which it holds have a line. Everything is known then, `status` and times included. See
        /// [Conditions](#conditions).
        when: WhenCondition = optional, like "nginx `access_log ... if=`, HAProxy `http-request set-log-level silent if`, Envoy `access_log_filter`";
        /// The share of the exchanges that have a line, of those for which `when` holds. It is drawn once for each exchange.
        sample: Fraction = "100%", like "HAProxy `log ... sample`, nginx `split_clients` with `if=`, Envoy `runtime_filter`";
        /// Whether exchanges that have failed, or have a status from 500 on, have their line whatever `sample` says.
        sample_errors: bool = false;
        /// The destination of the lines. A file is opened again on SIGUSR1 and SIGHUP; syslog is RFC 5424.
        output: AccessLogOutput = "stdout", like "nginx `access_log`, HAProxy `log`";
        /// Lines that may wait for the writer; further ones are dropped and counted, since a full disk must not stop traffic. The default
        /// is two seconds of 30 000 requests/s, about 20 MB.
        lines_max: usize = 65_536, in 16..=16_777_216;
    }
}

impl AccessLog {
    /// Whether some exchanges have no line, by a condition or by chance.
    pub fn selects(&self) -> bool {
        self.when.is_some() || self.sample < Fraction::WHOLE
    }

    /// How many of a million exchanges have a line.
    pub fn share(&self) -> u32 {
        self.sample.of_million()
    }
}

/// The format of a line of the access log: a text that has been parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessLogFormat {
    text: Box<str>,
    format: weir_observe::access_log::LogTemplate,
    own: Box<[TemplateValue]>,
}

impl AccessLogFormat {
    /// The format itself, ready to render lines.
    pub fn format(&self) -> &weir_observe::access_log::LogTemplate {
        &self.format
    }

    /// The maps and variables in it.
    pub fn own_values(&self) -> &[TemplateValue] {
        &self.own
    }

    /// Whether it shows fields of responses, be it through maps and variables.
    pub fn shows_response_fields(&self) -> bool {
        let is_field = |leaf: &TemplateValue| matches!(leaf, TemplateValue::ResponseHeader(_));
        self.format.response_fields().next().is_some()
            || self.own.iter().flat_map(TemplateValue::leaves).any(is_field)
    }
}

impl FromStr for AccessLogFormat {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        match weir_observe::access_log::LogTemplate::parse(text) {
            Ok(format) => {
                let value = |name: &str| {
                    TemplateValue::named(name).map_err(|error| match text.find(&format!("{{{name}}}")) {
                        Some(start) => error.range(start..start + name.len() + 2),
                        None => error,
                    })
                };
                let own = format.named_values().map(value).collect::<Result<_, _>>()?;
                Ok(Self { text: text.into(), format, own })
            }
            Err(error) => Err(ValueError {
                range: diagnostic_range(text, error.column),
                message: error.what,
                help: error.hint,
            }),
        }
    }
}

/// The bytes of the item at a column of a format: a placeholder or one character; the whole format at its first column.
fn diagnostic_range(text: &str, column: usize) -> Option<Range<usize>> {
    let leading = text.len() - text.trim_start_matches(' ').len();
    let (offset, first) = text[leading..].char_indices().nth(column.saturating_sub(1))?;
    let start = leading + offset;
    match text[start..].find('}') {
        Some(length) if first == '{' => Some(start..start + length + 1),
        _ if column <= 1 => None,
        _ => Some(start..start + first.len_utf8()),
    }
}

impl fmt::Display for AccessLogFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The destination of the access log.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum AccessLogOutput {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// A file that lines are appended to; opened again on SIGUSR1 and SIGHUP.
    File(PathBuf),
    /// A Unix datagram socket that speaks syslog (RFC 5424).
    SyslogUnix(PathBuf),
    /// A syslog server over UDP (RFC 5426).
    SyslogUdp(SocketAddr),
}

impl FromStr for AccessLogOutput {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let help =
            "write `stdout`, `stderr`, `file:/path`, `syslog:/dev/log` or `syslog+udp://127.0.0.1:514`";
        let path = |path: &str| match path {
            "" => Err(ValueError::new(format!("`{text}` has no path")).help(help)),
            path if path.contains('\0') => Err(ValueError::new("a path cannot contain a NUL")),
            path => Ok(PathBuf::from(path)),
        };
        if let Some(rest) = text.strip_prefix("file:") {
            return path(rest).map(Self::File);
        }
        if let Some(rest) = text.strip_prefix("syslog:") {
            // As in other products, and in addresses of Weir's own.
            if let Some(socket) = rest.strip_prefix("unix:") {
                return Err(ValueError::new(format!("`{text}` is not an output"))
                    .help(format!("write `syslog:{socket}`")));
            }
            return path(rest).map(Self::SyslogUnix);
        }
        if let Some(rest) = text.strip_prefix("syslog+udp://") {
            let error = || ValueError::new(format!("`{rest}` is not an IP address with its port")).help(help);
            return rest
                .parse()
                .map(Self::SyslogUdp)
                .map_err(|_| error().range(text.len() - rest.len()..text.len()));
        }
        match text {
            "stdout" => Ok(Self::Stdout),
            "stderr" => Ok(Self::Stderr),
            path if path.starts_with(['/', '.']) => {
                Err(ValueError::new(format!("`{text}` is not an output"))
                    .help(format!("write `file:{path}`")))
            }
            _ => Err(ValueError::new(format!("`{text}` is not an output")).help(help)),
        }
    }
}

impl fmt::Display for AccessLogOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdout => f.write_str("stdout"),
            Self::Stderr => f.write_str("stderr"),
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::SyslogUnix(path) => write!(f, "syslog:{}", path.display()),
            Self::SyslogUdp(address) => write!(f, "syslog+udp://{address}"),
        }
    }
}

text_values! {
    AccessLogFormat, str::parse, |value: &AccessLogFormat| value.to_string(), TextFormat {
        name: "log format",
        article: "a log format",
        examples: &["combined", "{client_address} {method} {target} {status}", "json {time} {status}"],
        pattern: "",
        about: "One of `common`, `combined`, `json` and `httplog`; or a text with `{placeholders}`, in which `{{` and `}}` are literal \
                braces; or `json` and a list of placeholders, which gives a JSON object with these keys. A placeholder may hide a part of its \
                value: `{client_address|network:24}` shows a network (of IPv6 with 48 bits, or as in `network:24,56`), and \
                `{target|without:token,password}` no values of these parameters of the query.",
    };
    AccessLogOutput, str::parse, |value: &AccessLogOutput| value.to_string(), TextFormat {
        name: "log output",
        article: "an output",
        examples: &["stdout", "stderr", "file:/var/log/weir/access.log", "syslog:/dev/log", "syslog+udp://127.0.0.1:514"],
        pattern: r"^(stdout|stderr|file:.+|syslog:.+|syslog\+udp://.+:[0-9]{1,5})$",
        about: "`stdout`, `stderr`, `file:/path`, `syslog:/path` (a Unix socket) or `syslog+udp://address:port`.",
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_are_read_and_printed() {
        for text in ["stdout", "stderr", "file:/var/log/a", "syslog:/dev/log", "syslog+udp://[::1]:514"] {
            assert_eq!(text.parse::<AccessLogOutput>().unwrap().to_string(), text);
        }
        for text in ["", "file:", "syslog:", "syslog:unix:/dev/log", "syslog+udp://x:1", "/var/log/a", "udp"]
        {
            assert!(text.parse::<AccessLogOutput>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_diagnostic_in_a_format_is_pointed_at() {
        for (text, range) in [("{status} {nonsense}", Some(9..19)), (" {x}", Some(1..4)), ("plain", None)] {
            assert_eq!(text.parse::<AccessLogFormat>().unwrap_err().range, range, "{text}");
        }
    }
}
