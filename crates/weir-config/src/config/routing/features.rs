//! Which features act on the requests of a route, as rows of the table of their order.
//!
//! The data path makes its plan of a route by this, and `weir explain` shows it. What every listener has (telemetry, the fields about the client) is
//! not among them, nor what a request brings with it (a call of gRPC).

use std::sync::Arc;

use super::route::{Route, RouteAction, RouteSettings};
use crate::config::{AccelField, AccessList, ListAction, RuleOrder, Upstream};
use crate::order::{Feature, RowSet, Stage};

/// The rows of each feature that is on.
fn rows_of<const N: usize>(features: [(Feature, bool); N]) -> RowSet {
    let on = features.into_iter().filter(|(_, is_on)| *is_on);
    on.fold(RowSet::EMPTY, |rows, (feature, _)| rows.or(RowSet::of_feature(feature)))
}

/// The rows that are there without acting, where each is on only if something is to be done at its stage.
fn idle<const N: usize>(rows: [(Stage, Feature, bool); N]) -> RowSet {
    let off = rows.into_iter().filter(|(.., acts)| !*acts);
    off.fold(RowSet::EMPTY, |rows, (stage, feature, _)| rows.or(RowSet::row(stage, feature)))
}

impl Route {
    /// The rows of the table that act on its requests.
    pub fn rows(&self) -> RowSet {
        let access = self.access.as_deref();
        let forward = access.and_then(|access| access.forward.as_ref());
        let (requests, responses) = (&self.request_headers, &self.response_headers);
        let gives_fields = forward.is_some_and(|forward| !forward.response_headers.is_empty());
        let takes_out = requests.replaced().next().is_some() || gives_fields;
        let rewrites_fields = self.rewrite_location.is_some() || !self.rewrite_cookies.is_empty();
        let rewrites = self.rewrite_body.is_some() || rewrites_fields;
        let rows = rows_of([
            (Feature::Accel, !self.x_accel.is_empty() || self.x_sendfile.is_some()),
            (Feature::AccessLists, !self.lists.is_empty()),
            (Feature::Limits, !self.limited_by.is_empty()),
            (Feature::Tables, !self.tracked.is_empty()),
            (Feature::Authentication, access.is_some()),
            (Feature::Files, matches!(self.action, RouteAction::Files(_)) || self.fastcgi.is_some()),
            (Feature::Mirror, !self.mirrors.is_empty()),
            (Feature::Cache, self.cache.is_some()),
            (Feature::Grpc, self.grpc_web),
            (Feature::Cors, self.cors.is_some()),
            (Feature::Retries, self.retry.is_some()),
            (Feature::Rewrite, !self.rewrites.is_empty() || matches!(self.action, RouteAction::Then(_))),
            (Feature::Buffering, true),
            (Feature::ErrorPages, self.error_pages.iter().any(|page| page.of_servers)),
            (Feature::Compression, self.compression.is_some()),
            (Feature::Rewriting, rewrites),
            (Feature::Headers, true),
        ]);
        let order = RuleOrder::new(&self.lists);
        let lists = || self.lists.iter().map(|list| order.of_list(list));
        let limits = || self.limited_by.iter().map(|one| order.of_limit(&one.limit));
        let is_by_user = |stage: Stage| stage >= Stage::Identity;
        let tables = || self.tracked.iter().map(|table| table.stage());
        rows.without(idle([
            (Stage::Route, Feature::Tables, tables().any(|stage| !is_by_user(stage))),
            (Stage::Identity, Feature::Tables, tables().any(is_by_user)),
            // A limit that waits for the user asks the lists once more: one that allows a request lets it past.
            (Stage::Identity, Feature::AccessLists, lists().chain(limits()).any(is_by_user)),
            (Stage::Route, Feature::Limits, limits().any(|stage| !is_by_user(stage))),
            (Stage::Identity, Feature::Limits, limits().any(is_by_user)),
            (Stage::Server, Feature::Authentication, forward.is_some()),
            (Stage::Upstream, Feature::Buffering, self.buffer_requests.is_some()),
            (Stage::ResponseHead, Feature::Buffering, self.buffer_responses.is_some()),
            (Stage::ResponseHead, Feature::Accel, !self.x_accel.contains(&AccelField::Pass)),
            (Stage::Route, Feature::Headers, takes_out),
            (Stage::Server, Feature::Rewriting, self.rewrite_body.is_some()),
            (Stage::Server, Feature::Headers, !requests.is_empty()),
            (Stage::ResponseFields, Feature::Headers, !responses.is_empty()),
        ]))
    }
}

impl RouteSettings {
    /// Whether a list may allow a request before it is authenticated.
    pub fn may_be_allowed_by_list(&self) -> bool {
        let order = RuleOrder::new(&self.lists);
        let allows = |list: &Arc<AccessList>| {
            list.action == ListAction::Allow && order.of_list(list) < Stage::Identity
        };
        self.lists.iter().any(allows)
    }
}

impl Upstream {
    /// The rows of the table that act on requests to it, whatever their route. Retries are not among them: every upstream has them.
    pub fn rows(&self) -> RowSet {
        rows_of([(Feature::Affinity, self.affinity.is_some())])
    }
}

#[cfg(test)]
mod tests {
    use crate::{Config, Feature, Stage};

    #[test]
    fn a_plain_route_has_no_rows_and_others_have_what_they_ask_for() {
        let text = "list.team = { action = \"deny\", key = \"{user}\", entries = [\"ann\"] }\n\
             limit.all.rate = \"10/s\"\n\
             cache.pages.memory = \"16MiB\"\n\
             [listener.web]\naddress = \":0\"\nroute = [\n\
             { path = \"/plain\", upstream = \"app\" },\n\
             { path = \"/limited\", upstream = \"app\", limited_by = [\"all\"] },\n\
             { path = \"/team\", upstream = \"app\", lists = [\"team\"], cache = \"pages\", buffer_responses = {},\n\
               basic = { users = { ann = \"$$2y$$05$$Z6hikxcfC7bLKHcgLQ/PtOy78ejcxa.dCYIcARnkDT4yJpC/sdZfm\" } } },\n\
             ]\n[upstream.app]\nservers = [\"a:80\"]\n";
        let config = Config::parse(text, "weir.toml").expect("a good config");
        let rows = |at: usize| -> Vec<(Stage, Feature)> {
            let rows = config.listeners[0].routes[at].rows().rows();
            rows.filter(|row| row.stage < Stage::ResponseFields).map(|row| (row.stage, row.feature)).collect()
        };
        assert_eq!(rows(0), []);
        assert_eq!(rows(1), [(Stage::Route, Feature::Limits)]);
        assert_eq!(
            rows(2),
            [
                (Stage::Route, Feature::AccessLists),
                (Stage::Identity, Feature::Authentication),
                (Stage::Identity, Feature::AccessLists),
                (Stage::BeforeServer, Feature::Cache),
                (Stage::Server, Feature::Cache),
                (Stage::ResponseHead, Feature::Cache),
                (Stage::ResponseHead, Feature::Buffering),
            ]
        );
    }
}
