//! What messages say about caching: `Cache-Control` (RFC 9111 section 5.2), `CDN-Cache-Control` (RFC 9213), `Expires`, `Date`, `Age` and `Pragma`.
//!
//! Says what is written there, in a form in which what is malformed is never more permissive than what is missing. What follows from
//! it is decided in `rules`.

mod response;
mod accel;
mod request;
mod dates;
mod targeted;
mod list;
mod seconds;

pub(crate) use accel::AccelExpires;
pub use dates::MessageTimes;
pub use request::RequestDirectives;
pub use response::{FieldScope, ResponseDirectives};
