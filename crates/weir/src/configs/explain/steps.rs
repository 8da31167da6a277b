//! The way of a request to its route: each rewrite, and each route that leads to another one, as on the data path.

use weir_config::{DotSegments, Listener, REROUTINGS_MAX, RewriteRule, Route, RouteAction, TemplateValue};
use weir_http::{Rule, TargetForm};
use weir_observe::{Cause, Failure, Phase};
use weir_traffic::route::{RouteRequest as _, RouteTable};

use super::request::{ExplainedRequest, lossy};

/// Where the way of a request has led.
pub(super) struct Followed {
    /// The request as it is there.
    pub(super) request: ExplainedRequest,
    /// What has happened on the way.
    pub(super) steps: Vec<String>,
    pub(super) end: WayEnd,
}

/// How it has ended.
pub(super) enum WayEnd {
    /// On the route at this place; `None`: no route takes it.
    Route(Option<usize>),
    /// The client is redirected.
    Redirect(u16, String),
    Refused(Failure),
}

/// Follows a request to its route.
pub(super) fn follow(listener: &Listener, request: ExplainedRequest) -> Followed {
    let mut way = Way {
        listener,
        followed: Followed { request, steps: Vec::new(), end: WayEnd::Route(None) },
        count: 0,
    };
    let is_sound = way.followed.request.broken.is_none();
    way.followed.end = if is_sound { way.walk().unwrap_or_else(|end| end) } else { WayEnd::Route(None) };
    way.followed
}

struct Way<'a> {
    listener: &'a Listener,
    followed: Followed,
    /// Re-routings so far.
    count: u8,
}

/// What a list of rewrites has made of the request.
enum ListOutcome {
    Unchanged,
    Changed,
    Stays,
}

impl Way<'_> {
    /// The end; the error is one, too.
    fn walk(&mut self) -> Result<WayEnd, WayEnd> {
        let table = self.listener.route_table().expect("the config check has found every tie");
        self.rewrite(&self.listener.rewrites, "the listener")?;
        let (mut is_inside, mut named) = (false, None);
        loop {
            let Some(at) = named.take().or_else(|| self.look_up(&table)) else {
                return Ok(WayEnd::Route(None));
            };
            let route: &Route = &self.listener.routes[at];
            if route.internal && !is_inside {
                self.followed.steps.push(format!("{}: is for requests from inside only", route.name));
                return Err(WayEnd::Refused(Failure::client(Phase::Route, Cause::InternalRoute)));
            }
            match self.rewrite(&route.rewrites, &format!("route {}", route.name))? {
                ListOutcome::Changed => self.count()?,
                ListOutcome::Unchanged | ListOutcome::Stays => {
                    let RouteAction::Then(name) = &route.action else { return Ok(WayEnd::Route(Some(at))) };
                    self.count()?;
                    self.followed.steps.push(format!("route {}: goes on as the route {name}", route.name));
                    named = self.listener.routes.iter().position(|one| one.name == *name);
                }
            }
            is_inside = true;
        }
    }

    fn look_up(&self, table: &RouteTable) -> Option<usize> {
        table.lookup(&self.followed.request).map(|route| route.index())
    }

    fn count(&mut self) -> Result<(), WayEnd> {
        self.count += 1;
        if self.count > REROUTINGS_MAX {
            return Err(WayEnd::Refused(Failure::weir(Phase::Route, Cause::TooManyReroutings)));
        }
        Ok(())
    }

    fn rewrite(&mut self, rules: &[RewriteRule], whose: &str) -> Result<ListOutcome, WayEnd> {
        if matches!(self.followed.request.head().target_form(), TargetForm::Asterisk | TargetForm::Authority)
        {
            return Ok(ListOutcome::Unchanged);
        }
        let mut outcome = ListOutcome::Unchanged;
        for rule in rules {
            let request = &self.followed.request;
            let query = Some(request.query()).filter(|_| request.head().query().is_some());
            let write =
                |value: &TemplateValue, out: &mut Vec<u8>| out.extend_from_slice(&request.text_of(value));
            let target = rule.apply(request.path(), query, write).map_err(|DotSegments| {
                WayEnd::Refused(Failure::client(Phase::Request, Cause::Rule(Rule::BadTarget)))
            })?;
            let Some(target) = target else { continue };
            let (pattern, flag) = (rule.pattern.as_str(), rule.flag.name());
            let shown = lossy(&target);
            self.followed.steps.push(format!("{whose}: `{pattern}` makes {shown} ({flag})"));
            if let Some(status) = rule.flag.redirect_status() {
                return Err(WayEnd::Redirect(status, shown));
            }
            if self.followed.request.replace_target(&target, self.listener).is_err() {
                return Err(WayEnd::Refused(Failure::weir(Phase::Route, Cause::BadRewrite)));
            }
            match rule.flag {
                weir_config::RewriteFlag::Last => return Ok(ListOutcome::Changed),
                weir_config::RewriteFlag::Break => return Ok(ListOutcome::Stays),
                _ => outcome = ListOutcome::Changed,
            }
        }
        Ok(outcome)
    }
}
