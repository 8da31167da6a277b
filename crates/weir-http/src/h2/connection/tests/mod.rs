//! The connection: each rule by exact bytes, then properties over random traffic.

mod wire;
mod faults;
mod streams;
mod flow;
mod budgets;
mod cuts;
mod pair;
