//! Reading and writing of the basic types of value.

use std::net::SocketAddr;
use std::time::Duration;

use ipnet::IpNet;

use super::ConfigValue;
use super::bounds::OutOfBounds;
use super::reader::TreeReader;
use super::schema::{Bounds, OFF, TextFormat, ValueKind};
use crate::source::{Tree, TreeNode};
use crate::value::{
    ByteRate, FileMode, GroupTemplate, HeaderName, HeaderTemplate, HeaderValue, ListenAddress,
    MILLISECONDS_MAX, Percent, ServerAddress, Size, SourceAddress, Token, ValueError, WhenCondition,
    parse_duration, parse_network, print_duration,
};

impl ConfigValue for bool {
    fn kind(_: Bounds) -> ValueKind {
        ValueKind::Boolean
    }

    fn read(node: &TreeNode, bounds: Bounds, reader: &mut TreeReader<'_>) -> Option<Self> {
        match &node.tree {
            Tree::Bool(value) => Some(*value),
            Tree::Text(text) if text.is_substituted() && matches!(text.value.as_str(), "true" | "false") => {
                Some(text.value == "true")
            }
            _ => {
                reader.wrong_type(node, &Self::kind(bounds));
                None
            }
        }
    }

    fn write(&self) -> String {
        self.to_string()
    }
}

/// Reads an integer; a string counts as one when a variable was replaced in it.
fn read_integer(node: &TreeNode, bounds: Bounds, reader: &mut TreeReader<'_>) -> Option<u64> {
    let number = match &node.tree {
        Tree::Integer(number) => *number,
        Tree::Text(text) if text.is_substituted() && text.value.parse::<i128>().is_ok() => {
            text.value.parse().ok()
        }
        _ => {
            reader.wrong_type(node, &ValueKind::Integer(bounds));
            return None;
        }
    };
    let value = number.and_then(|number| u64::try_from(number).ok()).filter(|value| *value <= bounds.max);
    match value {
        Some(value) => reader.is_within(node, &value, bounds).then_some(value),
        None => {
            let found =
                number.map_or_else(|| "larger than any number".to_owned(), |number| number.to_string());
            reader.report_number(node, found, bounds);
            None
        }
    }
}

macro_rules! integers {
    ($($type:ty)+) => {$(
        impl ConfigValue for $type {
            fn kind(bounds: Bounds) -> ValueKind {
                ValueKind::Integer(bounds.intersect(Bounds { min: 0, max: <$type>::MAX as u64 }))
            }

            fn read(node: &TreeNode, bounds: Bounds, reader: &mut TreeReader<'_>) -> Option<Self> {
                let bounds = bounds.intersect(Bounds { min: 0, max: <$type>::MAX as u64 });
                read_integer(node, bounds, reader).and_then(|value| <$type>::try_from(value).ok())
            }

            fn write(&self) -> String {
                self.to_string()
            }

            fn check_bounds(&self, key: &str, bounds: Bounds, found: &mut Vec<OutOfBounds>) {
                if !bounds.contains(*self as u64) {
                    let max = (bounds.max < u64::MAX).then(|| bounds.max.to_string());
                    found.push(OutOfBounds::new(key, self.to_string(), &bounds.min.to_string(), max));
                }
            }
        }
    )+};
}

integers! { u16 u32 u64 usize }

/// Common attempts at [`OFF`].
const NOT_OFF: [&str; 8] = ["none", "no", "never", "disabled", "unlimited", "infinite", "infinity", "false"];

/// A limit that can be off.
impl<T: ConfigValue> ConfigValue for Option<T> {
    fn kind(bounds: Bounds) -> ValueKind {
        T::kind(bounds).or_off()
    }

    fn read(node: &TreeNode, bounds: Bounds, reader: &mut TreeReader<'_>) -> Option<Self> {
        match &node.tree {
            Tree::Text(text) if text.value == OFF[0].name => Some(None),
            Tree::Text(text) if NOT_OFF.contains(&text.value.as_str()) => {
                let error = ValueError::new(format!("`{}` is not valid here", text.value));
                reader.report_value(node, error.help("write `\"off\"` for no limit"));
                None
            }
            tree if T::kind(bounds).accepts(tree) => T::read(node, bounds, reader).map(Some),
            Tree::Text(text) => {
                reader.report_word(node, &text.value, &Self::kind(bounds));
                None
            }
            _ => {
                reader.wrong_type(node, &Self::kind(bounds));
                None
            }
        }
    }

    fn write(&self) -> String {
        match self {
            Some(value) => value.write(),
            None => Box::<str>::from(OFF[0].name).write(),
        }
    }

    fn check_bounds(&self, key: &str, bounds: Bounds, found: &mut Vec<OutOfBounds>) {
        if let Some(value) = self {
            value.check_bounds(key, bounds, found);
        }
    }
}

/// Writes a TOML string in which no variable is replaced.
pub(crate) fn quoted(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        escaped.push(c);
        if c == '$' && matches!(rest.peek(), Some('{' | '$')) {
            escaped.push('$');
        }
    }
    toml::Value::String(escaped).to_string()
}

/// Any string.
const ANY_TEXT: TextFormat =
    TextFormat { name: "string", article: "a string", examples: &["text"], pattern: "", about: "Any text." };

impl ConfigValue for Box<str> {
    fn kind(bounds: Bounds) -> ValueKind {
        ValueKind::Text(&ANY_TEXT, bounds)
    }

    fn read(node: &TreeNode, bounds: Bounds, reader: &mut TreeReader<'_>) -> Option<Self> {
        reader.text(node, &Self::kind(bounds)).map(|text| text.value.as_str().into())
    }

    fn write(&self) -> String {
        quoted(self)
    }
}

/// Implements [`ConfigValue`] for types that are written as a string of a certain form.
macro_rules! text_values {
    ($($type:ty, $parse:expr, $print:expr, $kind:expr;)+) => {$(
        impl $crate::key::ConfigValue for $type {
            fn kind(bounds: $crate::key::Bounds) -> $crate::key::ValueKind {
                static KIND: $crate::key::TextFormat = $kind;
                $crate::key::ValueKind::Text(&KIND, bounds)
            }

            fn read(
                node: &$crate::source::TreeNode,
                bounds: $crate::key::Bounds,
                reader: &mut $crate::key::TreeReader<'_>,
            ) -> Option<Self> {
                reader.parsed(node, &Self::kind(bounds), $parse)
            }

            fn write(&self) -> String {
                Box::<str>::from($print(self)).write()
            }
        }
    )+};
}
pub(crate) use text_values;

text_values! {
    ListenAddress, str::parse, |value: &ListenAddress| value.to_string(), TextFormat {
        name: "listen address",
        article: "an address to listen on",
        examples: &[":8080", "127.0.0.1:8080", "[::1]:8080", "unix:/run/weir.sock"],
        pattern: r"^(unix:/.+|.*:[0-9]{1,5})$",
        about: "`address:port`, IPv6 in brackets; `:port` for all addresses, IPv6 and IPv4; `unix:/path` for a Unix socket. \
                `[::]:80` means IPv6 only. Port 0 lets the system choose.",
    };
    ServerAddress, str::parse, |value: &ServerAddress| value.to_string(), TextFormat {
        name: "server address",
        article: "the address of a server",
        examples: &["10.0.0.1:80", "[2001:db8::1]:80", "app.internal:8080", "unix:/run/app.sock"],
        pattern: r"^(unix:/.+|[^/]+:[0-9]{1,5})$",
        about: "`address:port` or `name:port`, IPv6 in brackets, or `unix:/path` for a Unix socket. Names are resolved in the \
                background, again and again.",
    };
    SourceAddress, str::parse, |value: &SourceAddress| value.to_string(), TextFormat {
        name: "source address",
        article: "a source address",
        examples: &["10.0.0.5", "2001:db8::5", "{client_address}"],
        pattern: r"^([0-9a-fA-F.:]+|[{]client_address[}])$",
        about: "An IPv4 or IPv6 address of this machine, without a port, or `{client_address}`: the address of the client, \
                see [source-address.md](source-address.md).",
    };
    IpNet, parse_network, |value: &IpNet| value.to_string(), TextFormat {
        name: "network",
        article: "a network",
        examples: &["10.0.0.0/8", "127.0.0.1", "2001:db8::/32"],
        pattern: r"^[0-9a-fA-F.:]+(/[0-9]{1,3})?$",
        about: "An IPv4 or IPv6 network as `address/bits`, or one address.",
    };
    SocketAddr, parse_socket_addr, |value: &SocketAddr| value.to_string(), TextFormat {
        name: "socket address",
        article: "an IP address with its port",
        examples: &["127.0.0.1:53", "[::1]:53"],
        pattern: r"^[0-9a-fA-F.:\[\]]+:[0-9]{1,5}$",
        about: "`address:port`, IPv6 in brackets.",
    };
    FileMode, str::parse, |value: &FileMode| value.to_string(), TextFormat {
        name: "file mode",
        article: "a file mode",
        examples: &["0600", "0660"],
        pattern: r"^0?[0-7]{3}$",
        about: "Three octal digits as `chmod` takes them, for owner, group and others.",
    };
    HeaderName, str::parse, |value: &HeaderName| value.to_string(), TextFormat {
        name: "header name",
        article: "a header name",
        examples: &["x-request-id"],
        pattern: r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$",
        about: "A token (RFC 9110 section 5.1); case-insensitive.",
    };
    Token, str::parse, |value: &Token| value.to_string(), TextFormat {
        name: "token",
        article: "a token",
        examples: &["websocket"],
        pattern: r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$",
        about: "Letters, digits and a few signs (RFC 9110 section 5.6.2).",
    };
    HeaderTemplate, str::parse, |value: &HeaderTemplate| value.to_string(), TextFormat {
        name: "header value with placeholders",
        article: "a header value",
        examples: &["no-store", "{client_address}", "{header.x-user}"],
        pattern: "",
        about: "Text without control characters, and without white space at its ends (RFC 9110 section 5.5). [Placeholders](#placeholders) \
                in braces stand for values of the exchange; `{{` and `}}` are braces. A header whose values come out empty is left out.",
    };
    GroupTemplate, str::parse, |value: &GroupTemplate| value.to_string(), TextFormat {
        name: "text with placeholders and groups",
        article: "a text",
        examples: &["/{1}", "{host}"],
        pattern: "",
        about: "Text in which [placeholders](#placeholders) in braces stand for values of the exchange, and numbers for groups of a regular expression: \
                `{1}` is the first, `{0}` the whole match; `{{` and `}}` are braces.",
    };
    WhenCondition, str::parse, |value: &WhenCondition| value.to_string(), TextFormat {
        name: "condition",
        article: "a condition",
        examples: &["method == 'GET'", "path.startsWith('/api/') && !(client_address in ['10.0.0.0/8'])", "has(header['x-debug'])"],
        pattern: "",
        about: "Comparisons of values, joined by `&&`, `||`, `!` and parentheses: see [Conditions](#conditions).",
    };
    HeaderValue, str::parse, |value: &HeaderValue| value.to_string(), TextFormat {
        name: "header value",
        article: "a header value",
        examples: &["no-store"],
        pattern: "",
        about: "Text without control characters, and without white space at its ends (RFC 9110 section 5.5).",
    };
}

fn parse_socket_addr(text: &str) -> Result<SocketAddr, ValueError> {
    text.parse().map_err(|_| {
        let error = ValueError::new(format!("`{text}` is not an IP address with its port"));
        match text.strip_prefix(':') {
            Some(port) => {
                error.help(format!("write `127.0.0.1:{port}`, or `0.0.0.0:{port}` for all addresses"))
            }
            None => error.help("write for example `127.0.0.1:53` or `[::1]:53`"),
        }
    })
}

static DURATION: TextFormat = TextFormat {
    name: "duration",
    article: "a duration",
    examples: &["10s", "250ms", "1m30s", "1.5h"],
    pattern: r"^([0-9]+(\.[0-9]+)?(ms|s|m|h|d))+$",
    about: "A number with its unit: `ms`, `s`, `m`, `h` or `d`; several may follow each other, the larger first. At most `366d`.",
};

impl ConfigValue for Duration {
    fn kind(bounds: Bounds) -> ValueKind {
        ValueKind::Text(&DURATION, bounds)
    }

    fn read(node: &TreeNode, bounds: Bounds, reader: &mut TreeReader<'_>) -> Option<Self> {
        let value = reader.parsed(node, &Self::kind(bounds), parse_duration)?;
        reader.is_within(node, &value, bounds).then_some(value)
    }

    fn write(&self) -> String {
        quoted(&print_duration(*self))
    }

    fn check_bounds(&self, key: &str, bounds: Bounds, found: &mut Vec<OutOfBounds>) {
        let least = if bounds == Bounds::NONE { 1 } else { 0 };
        let bounds = bounds.intersect(Bounds { min: least, max: MILLISECONDS_MAX });
        let print = |milliseconds| print_duration(Duration::from_millis(milliseconds));
        if !u64::try_from(self.as_millis()).is_ok_and(|milliseconds| bounds.contains(milliseconds)) {
            let max = (bounds.max < MILLISECONDS_MAX).then(|| print(bounds.max));
            found.push(OutOfBounds::new(key, print_duration(*self), &print(bounds.min), max));
        }
    }
}

static SIZE: TextFormat = TextFormat {
    name: "size",
    article: "a size",
    examples: &["64KiB", "10MB", "512B"],
    pattern: r"^[0-9]+(\.[0-9]+)?([KMGT]iB|[kMGT]?B)$",
    about: "A number with its unit: `B`; `KiB`, `MiB`, `GiB`, `TiB` (powers of 1024); `kB`, `MB`, `GB`, `TB` (powers of 1000).",
};

static PERCENT: TextFormat = TextFormat {
    name: "percentage",
    article: "a percentage",
    examples: &["20%"],
    pattern: r"^[0-9]+%$",
    about: "A whole number with `%`.",
};

static RATE: TextFormat = TextFormat {
    name: "rate",
    article: "a rate",
    examples: &["500B/s", "1MiB/s"],
    pattern: r"^[0-9]+(\.[0-9]+)?([KMGT]iB|[kMGT]?B)/s$",
    about: "A size per second.",
};

macro_rules! scaled_values {
    ($($type:ty, $kind:expr, $number:expr, $from:expr;)+) => {$(
        impl ConfigValue for $type {
            fn kind(bounds: Bounds) -> ValueKind {
                ValueKind::Text(&$kind, bounds)
            }

            fn read(node: &TreeNode, bounds: Bounds, reader: &mut TreeReader<'_>) -> Option<Self> {
                let value: $type = reader.parsed(node, &Self::kind(bounds), str::parse)?;
                reader.is_within(node, &value, bounds).then_some(value)
            }

            fn write(&self) -> String {
                quoted(&self.to_string())
            }

            fn check_bounds(&self, key: &str, bounds: Bounds, found: &mut Vec<OutOfBounds>) {
                if !bounds.contains($number(*self)) {
                    let print = |number| $from(number).to_string();
                    let max = (bounds.max < u64::MAX).then(|| print(bounds.max));
                    found.push(OutOfBounds::new(key, self.to_string(), &print(bounds.min), max));
                }
            }
        }
    )+};
}

scaled_values! {
    Percent, PERCENT, |value: Percent| u64::from(value.percent()), |percent| Percent::new(percent as u32);
    Size, SIZE, Size::bytes, Size::from_bytes;
    ByteRate, RATE, ByteRate::bytes_per_second, ByteRate::from_bytes_per_second;
}
