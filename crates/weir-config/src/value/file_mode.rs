//! Permissions of a file: `"0660"`.

use std::fmt;
use std::str::FromStr;

use super::ValueError;

/// The permissions of a file, as for `chmod(1)`: three octal digits, for owner, group and others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileMode(u32);

/// Write permission for group and others, which connecting to a socket requires.
const OTHERS_CONNECT: u32 = 0o022;

impl FileMode {
    /// The bits of `chmod(2)`.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Whether, as the mode of a socket, it restricts connections to its owner and root.
    pub const fn is_for_its_owner(self) -> bool {
        self.0 & OTHERS_CONNECT == 0
    }
}

impl FromStr for FileMode {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let is_octal =
            (3..=4).contains(&text.len()) && text.bytes().all(|byte| (b'0'..=b'7').contains(&byte));
        match u32::from_str_radix(text, 8) {
            Ok(bits) if is_octal && bits <= 0o777 => Ok(Self(bits)),
            _ => Err(ValueError::new(format!("`{text}` is not a file mode"))
                .help("write a zero and three octal digits, for owner, group and others: `0600`, `0660`")),
        }
    }
}

impl fmt::Display for FileMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04o}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_read_and_printed() {
        for (text, bits, is_private) in
            [("0600", 0o600, true), ("660", 0o660, false), ("0644", 0o644, true), ("0602", 0o602, false)]
        {
            let mode: FileMode = text.parse().unwrap();
            assert_eq!((mode.bits(), mode.is_for_its_owner()), (bits, is_private), "{text}");
            assert_eq!(mode.to_string().parse(), Ok(mode));
        }
        for text in ["", "6", "0680", "01777", "-600", "+600", "rw-", "06000"] {
            assert!(text.parse::<FileMode>().is_err(), "{text}");
        }
    }
}
