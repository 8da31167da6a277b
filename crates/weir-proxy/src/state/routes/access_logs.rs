//! The access logs of a listener, and what is asked at the end of an exchange.

use weir_config::{AccessLog, AccessLogFormat, Listener, TemplateValue, WhenCondition};

/// The conditions of the logs of a listener and its routes.
pub(super) fn log_conditions(listener: &Listener) -> impl Iterator<Item = &WhenCondition> {
    access_logs(listener).filter_map(|log| log.when.as_ref())
}

/// The logs of a listener and its routes.
pub(super) fn access_logs(listener: &Listener) -> impl Iterator<Item = &AccessLog> {
    let own = listener.routes.iter().filter_map(|route| route.access_log.own());
    std::iter::once(&listener.access_log).chain(own)
}

/// Whether something is asked at the end of an exchange: which lines a log has, and what raises a counter of a table.
pub(super) fn asks_at_end(listener: &Listener) -> bool {
    access_logs(listener).any(AccessLog::selects) || counts_at_end(listener)
}

/// Whether a table raises a counter at the end of an exchange.
fn counts_at_end(listener: &Listener) -> bool {
    let of_routes = listener.routes.iter().flat_map(|route| &route.tracked);
    listener.tracked.iter().chain(of_routes).any(|table| table.asks_at_end())
}

/// Whether a value is one of the response.
pub(super) fn is_of_response(value: &TemplateValue) -> bool {
    matches!(value, TemplateValue::ResponseHeader(_))
}

/// The formats of the logs of a listener and its routes.
pub(super) fn logs(listener: &Listener) -> impl Iterator<Item = &AccessLogFormat> {
    access_logs(listener).filter_map(|log| log.format.as_ref())
}
