//! Signed tokens (JWT, RFC 7519), as far as they prove who sends a request.
//!
//! Only signatures, no encryption. Which algorithms count is said by the caller, never by the token; a key fits the algorithms of its own kind
//! only; `none` is no algorithm here.

mod signed;
mod jwk;
mod claims;
mod algorithm;

pub use algorithm::{Algorithms, SignatureAlgorithm};
pub use claims::{Claims, TimeProblem};
pub use jwk::{KeyProblem, KeySet};
pub use signed::{SignedToken, TokenError};
