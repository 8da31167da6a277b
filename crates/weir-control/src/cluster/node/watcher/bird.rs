//! BIRD's control socket: enables and disables the protocol that announces this node's route.

use std::io::{self, BufRead, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_config::Bird;

use super::availability::Availability;

/// How long BIRD may take to answer.
const ANSWER_TIME: Duration = Duration::from_secs(1);

/// Lines of an answer that are read.
const LINES_MAX: usize = 20;

/// The socket, and the protocol.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct BirdProtocol {
    socket: PathBuf,
    pub(super) protocol: Box<str>,
}

impl BirdProtocol {
    pub(super) fn new(bird: &Bird) -> Option<Self> {
        Some(Self { socket: PathBuf::from(&*bird.socket), protocol: bird.protocol.clone()? })
    }

    /// Enables or disables the protocol; gives whether that was a change.
    pub(super) fn tell(&self, availability: Availability) -> io::Result<bool> {
        let verb = if availability == Availability::Available { "enable" } else { "disable" };
        let stream = UnixStream::connect(&self.socket)?;
        stream.set_read_timeout(Some(ANSWER_TIME))?;
        stream.set_write_timeout(Some(ANSWER_TIME))?;
        let mut answers = BufReader::new(&stream);
        answer(&mut answers)?;
        (&stream).write_all(format!("{verb} {}\n", self.protocol).as_bytes())?;
        let text = answer(&mut answers)?;
        Ok(!text.contains("already"))
    }
}

/// The text of an answer: lines with four digits before them, the last one with a space behind these. Codes from 8000 on are errors.
fn answer(answers: &mut impl BufRead) -> io::Result<String> {
    let mut whole = String::new();
    for _ in 0..LINES_MAX {
        let mut line = String::new();
        if answers.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let (code, text) = (line.get(..4).unwrap_or_default(), line.get(5..).unwrap_or_default().trim());
        if code.parse::<u16>().is_ok_and(|code| code >= 8000) {
            return Err(io::Error::other(format!("BIRD answers `{text}`")));
        }
        whole.push_str(text);
        if line.as_bytes().get(4) == Some(&b' ') && code.parse::<u16>().is_ok() {
            return Ok(whole);
        }
    }
    Err(io::Error::other("BIRD answers without an end"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_bird_are_understood() {
        let read = |text: &str| answer(&mut text.as_bytes());
        assert_eq!(read("0001 BIRD 2.0.12 ready.\n").unwrap(), "BIRD 2.0.12 ready.");
        assert_eq!(read("0010-anycast: already enabled\n0000 \n").unwrap(), "anycast: already enabled");
        assert_eq!(
            read("8003 No protocols match\n").unwrap_err().to_string(),
            "BIRD answers `No protocols match`"
        );
        assert_eq!(read("").unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert!(read(&" more\n".repeat(50)).is_err());
    }
}
