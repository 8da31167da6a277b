//! `weir kubernetes` and `weir ingress`, and the options that they share with `weir serve --kubernetes`.

pub(crate) mod controller;
pub(crate) mod ingress;
#[cfg(feature = "kubernetes")]
pub(crate) mod election;
pub(crate) mod arguments;
