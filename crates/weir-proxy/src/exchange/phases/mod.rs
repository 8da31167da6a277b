//! The phases of an exchange: what happens to every request, whatever its route has.

pub(in crate::exchange) mod admit;
pub(in crate::exchange) mod respond;
pub(in crate::exchange) mod upgrade;
pub(in crate::exchange) mod queue;
pub(crate) mod attempt;
pub(in crate::exchange) mod choose;
pub(crate) mod retry;
pub(in crate::exchange) mod pause;
pub(in crate::exchange) mod answer;
pub(in crate::exchange) mod pacing;
pub(in crate::exchange) mod error_page;
pub(in crate::exchange) mod attempt_response;
pub(in crate::exchange) mod end;
pub(crate) mod tunnel;
pub(crate) mod finish;
