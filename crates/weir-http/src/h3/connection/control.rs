//! The frames of the peer's control stream (RFC 9114 section 7.2, RFC 9218 section 7.2).

use super::event::PeerEvent;
use super::{Http3Connection, REQUEST_STREAM_STEP};
use crate::h3::fault::{Http3Code, Http3Fault};
use crate::h3::frame::{FrameHeadReader, Http3FrameHead, frame_type, only_varint};
use crate::h3::settings::{Http3Settings, SETTINGS_BYTES_MAX};
use crate::h3::varint::{VARINT_BYTES_MAX, read_varint};
use crate::message::field_values::priority::Priority;
use crate::message::rule::Rule;
use crate::multiplexed::role::Role;

/// Bytes of a PRIORITY_UPDATE frame that is read; a longer one is skipped.
const PRIORITY_UPDATE_BYTES_MAX: u64 = 256;

/// Where the control stream stands.
#[derive(Debug)]
pub(super) struct ControlReader {
    header: FrameHeadReader,
    place: ControlPlace,
    /// The payload of a frame that did not come in one piece.
    payload: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
enum ControlPlace {
    Header,
    Payload { number: u64, left: usize },
    Skip { left: u64 },
}

impl ControlReader {
    pub(super) const fn new() -> Self {
        Self { header: FrameHeadReader::new(), place: ControlPlace::Header, payload: Vec::new() }
    }

    /// Gives back the memory that is not used.
    pub(super) fn shrink(&mut self) {
        self.payload.shrink_to_fit();
    }
}

impl Http3Connection {
    /// Takes frames off the front of `rest` up to the next event.
    pub(super) fn receive_control(
        &mut self,
        rest: &mut &[u8],
        now: u64,
    ) -> Result<Option<PeerEvent>, Http3Fault> {
        loop {
            match self.control.place {
                ControlPlace::Header => match self.control.header.read(rest) {
                    Some(head) => self.control.place = self.control_frame(head, now)?,
                    None => return Ok(None),
                },
                ControlPlace::Skip { left } => {
                    let len = left.min(rest.len() as u64);
                    *rest = &rest[len as usize..];
                    if len < left {
                        self.control.place = ControlPlace::Skip { left: left - len };
                        return Ok(None);
                    }
                    self.control.place = ControlPlace::Header;
                }
                ControlPlace::Payload { number, left } => {
                    let (bytes, behind) = rest.split_at(left.min(rest.len()));
                    *rest = behind;
                    if bytes.len() < left {
                        self.control.payload.extend_from_slice(bytes);
                        let left = left - bytes.len();
                        self.control.place = ControlPlace::Payload { number, left };
                        return Ok(None);
                    }
                    self.control.place = ControlPlace::Header;
                    let event = self.control_payload(number, bytes)?;
                    if event.is_some() {
                        return Ok(event);
                    }
                }
            }
        }
    }

    /// A frame begins.
    fn control_frame(&mut self, head: Http3FrameHead, now: u64) -> Result<ControlPlace, Http3Fault> {
        let Http3FrameHead { number, len } = head;
        if self.remote.is_none() && number != frame_type::SETTINGS {
            return Err(Http3Fault::connection(Http3Code::MISSING_SETTINGS, Rule::Http3SettingsMissing));
        }
        let is_for_server = match number {
            frame_type::MAX_PUSH_ID
            | frame_type::PRIORITY_UPDATE_REQUEST
            | frame_type::PRIORITY_UPDATE_PUSH => true,
            frame_type::DATA | frame_type::HEADERS | frame_type::PUSH_PROMISE => {
                return Err(Http3Fault::unexpected_frame());
            }
            frame_type::SETTINGS if self.remote.is_some() => return Err(Http3Fault::unexpected_frame()),
            _ if frame_type::is_of_http2(number) => return Err(Http3Fault::unexpected_frame()),
            _ => false,
        };
        if is_for_server && self.role == Role::Client {
            return Err(Http3Fault::unexpected_frame());
        }
        let len_max = match number {
            frame_type::SETTINGS if len > SETTINGS_BYTES_MAX => {
                return Err(Http3Fault::excessive_load(Rule::Http3TooManySettings));
            }
            frame_type::SETTINGS => SETTINGS_BYTES_MAX,
            frame_type::PRIORITY_UPDATE_REQUEST | frame_type::PRIORITY_UPDATE_PUSH => {
                self.charge(now, Rule::Http3PriorityFlood)?;
                PRIORITY_UPDATE_BYTES_MAX
            }
            frame_type::GOAWAY | frame_type::CANCEL_PUSH | frame_type::MAX_PUSH_ID => {
                self.charge(now, Rule::Http3ControlFlood)?;
                if len > VARINT_BYTES_MAX as u64 {
                    return Err(Http3Fault::bad_frame());
                }
                VARINT_BYTES_MAX as u64
            }
            _ => {
                self.charge(now, Rule::Http3UnknownFrameFlood)?;
                0
            }
        };
        self.control.payload.clear();
        Ok(match usize::try_from(len) {
            Ok(left) if len <= len_max => ControlPlace::Payload { number, left },
            _ => ControlPlace::Skip { left: len },
        })
    }

    /// The payload of a frame is complete: `last` is the piece of it that came last.
    fn control_payload(&mut self, number: u64, last: &[u8]) -> Result<Option<PeerEvent>, Http3Fault> {
        if self.control.payload.is_empty() {
            return self.control_message(number, last);
        }
        let mut payload = std::mem::take(&mut self.control.payload);
        payload.extend_from_slice(last);
        let event = self.control_message(number, &payload);
        payload.clear();
        self.control.payload = payload;
        event
    }

    fn control_message(&mut self, number: u64, payload: &[u8]) -> Result<Option<PeerEvent>, Http3Fault> {
        match number {
            frame_type::SETTINGS => {
                let settings = Http3Settings::read(payload)?;
                self.encoder.set_peer_capacity_max(settings.qpack_max_table_capacity);
                self.remote = Some(settings);
                Ok(Some(PeerEvent::Settings))
            }
            frame_type::GOAWAY => self.go_away_received(whole_id(payload)?).map(Some),
            frame_type::MAX_PUSH_ID => self.max_push_id_received(whole_id(payload)?),
            // Nothing was ever promised (RFC 9114 section 7.2.3).
            frame_type::CANCEL_PUSH => Err(whole_id(payload).err().unwrap_or(Http3Fault::bad_id())),
            frame_type::PRIORITY_UPDATE_REQUEST | frame_type::PRIORITY_UPDATE_PUSH => {
                let (id, len) = read_varint(payload).ok_or(Http3Fault::bad_frame())?;
                // Nothing was ever promised, either.
                if number == frame_type::PRIORITY_UPDATE_PUSH || !id.is_multiple_of(REQUEST_STREAM_STEP) {
                    return Err(Http3Fault::bad_id());
                }
                let priority = Priority::parse(&payload[len..]);
                Ok(Some(PeerEvent::Priority { stream: id, priority }))
            }
            _ => Ok(None),
        }
    }

    /// GOAWAY (RFC 9114 section 5.2): a server says the id of a request, a client that of a push.
    fn go_away_received(&mut self, id: u64) -> Result<PeerEvent, Http3Fault> {
        let cannot_be = self.role == Role::Client && !id.is_multiple_of(REQUEST_STREAM_STEP);
        if cannot_be || self.last_granted.is_some_and(|last| id > last) {
            return Err(Http3Fault::bad_id());
        }
        self.last_granted = Some(id);
        Ok(PeerEvent::GoAway { id })
    }

    /// MAX_PUSH_ID (RFC 9114 section 7.2.7). We push nothing, so it only has to be sound.
    fn max_push_id_received(&mut self, id: u64) -> Result<Option<PeerEvent>, Http3Fault> {
        if self.max_push_id.is_some_and(|max| id < max) {
            return Err(Http3Fault::bad_id());
        }
        self.max_push_id = Some(id);
        Ok(None)
    }
}

/// The id that is the whole payload of a frame.
fn whole_id(payload: &[u8]) -> Result<u64, Http3Fault> {
    only_varint(payload).ok_or(Http3Fault::bad_frame())
}
