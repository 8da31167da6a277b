//! The phases of an exchange: what happens to every request, whatever its route has. They name no feature: what those have to do in an attempt is
//! handed in ([`attempt::features`]).

pub(in crate::exchange) mod admit;
pub(in crate::exchange) mod respond;
pub(in crate::exchange) mod upgrade;
pub(in crate::exchange) mod queue;
pub(crate) mod attempt;
pub(in crate::exchange) mod choose;
pub(crate) mod retry;
pub(in crate::exchange) mod pause;
pub(in crate::exchange) mod pacing;
pub(in crate::exchange) mod attempt_response;
pub(in crate::exchange) mod end;
pub(crate) mod tunnel;
pub(crate) mod finish;
