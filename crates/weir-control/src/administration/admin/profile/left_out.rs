//! Profiles in a build without the feature `profiler`: a response that says so.

use std::future::{Ready, ready};
use std::sync::Arc;

use super::BELOW;
use crate::administration::admin::request::AdminRequest;
use crate::administration::admin::response::BufferedResponse;
use crate::administration::admin_operations::Operations;
use crate::features::{BUILD_HELP, PROFILER};

/// 501 for what is below [`BELOW`] with the feature; `None` when there is no such thing.
pub(in crate::administration::admin) fn answer(
    request: &AdminRequest,
    _: &Arc<Operations>,
) -> Ready<Option<BufferedResponse>> {
    let is_known = matches!(request.path().strip_prefix(BELOW), Some(b"cpu" | b"memory"));
    ready(is_known.then(|| {
        let text = format!("{}: {BUILD_HELP}\n", PROFILER.missing_for("a profile"));
        BufferedResponse::plain(501, text)
    }))
}
