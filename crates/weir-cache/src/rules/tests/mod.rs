//! Tables of what RFC 9111, RFC 5861 and RFC 9213 say, and of what the operator adds.

mod freshening;
mod reusing;
mod storing;

use weir_http::{Method, date};

use super::*;
use crate::directives::RequestDirectives;
use crate::head::StoredHead;
use crate::time::CacheTime;

/// When responses are received.
const NOW: CacheTime = CacheTime::from_seconds(1_000_000_000);

/// A head from lines; `{+5}` and `{-5}` are dates so many seconds from now.
fn head(lines: &str) -> StoredHead {
    let mut head = StoredHead::default();
    for line in lines.split('|').filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':').expect("each line has a name");
        let mut value = value.trim().to_owned();
        while let Some((before, rest)) = value.split_once('{') {
            let (seconds, behind) = rest.split_once('}').expect("a date ends");
            let seconds: i64 = seconds.parse().expect("it is a number of seconds");
            let date = date(NOW.seconds().checked_add_signed(seconds).expect("it is a date"));
            value = format!("{before}{}{behind}", str::from_utf8(&date).expect("dates are ASCII"));
        }
        head.append(name.as_bytes(), value.as_bytes());
    }
    head
}

fn plan_with(rules: &StoreRules, request: &str, status: u16, response: &str) -> Result<StorePlan, NotStored> {
    let (request, response) = (head(request), head(response));
    let request = StoredRequest { method: Method::Get, head: request.view(), sent: NOW, is_proven: false };
    plan_storing(&request, status, response.view(), rules, NOW)
}

fn plan(request: &str, status: u16, response: &str) -> Result<StorePlan, NotStored> {
    plan_with(&StoreRules::default(), request, status, response)
}

/// What becomes of a response, some seconds after it was received, when a second request comes.
fn story(response: &str, seconds: u64, second_request: &str) -> String {
    match plan("", 200, response) {
        Err(reason) => reason.as_str().to_owned(),
        Ok(plan) => {
            let second = RequestDirectives::new(head(second_request).view());
            format!(
                "{:?}",
                reuse(&plan.lifetime, &second, ClientRules::default(), NOW.after(seconds * 1_000))
            )
        }
    }
}
