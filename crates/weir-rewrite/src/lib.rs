//! What servers send, rewritten by rules: bodies as they stream, the URLs of `Location` and `Refresh`, cookies.
//!
//! Bytes in, bytes out. Must not know which responses are rewritten, where values of an exchange come from, or how bytes travel.

pub mod body;
pub mod location;
pub mod cookie;
mod text;
mod window;
mod replacement;
mod regexes;

pub use body::{BodyRewriter, BodyRules, BodySubstitution, Pattern};
pub use cookie::{AttributePattern, CookieAttribute, CookieChange, Flag};
pub use location::{LocationMatch, LocationPattern, LocationRules};
pub use regexes::RuleError;
pub use replacement::{MatchReplacement, ReplacementPiece};
