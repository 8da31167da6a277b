//! The order in which features act on an exchange: one table for everything that depends on it.
//!
//! The data path walks it ([`RowSet`] says which rows a route has), `weir check` decides by it which placeholders have a value where, `weir explain`
//! and `docs/order.md` show it, and the matrix of tests is checked against that page. Must not know how a feature does its work.

mod decisions;

use std::fmt::Write as _;

pub use decisions::{ASKED, DECISIONS, KeyStage, order_markdown};

/// Declares an enum whose values have a name and a meaning.
macro_rules! named {
    ($(#[$doc:meta])* $name:ident { $($variant:ident $text:literal $meaning:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $(#[doc = $meaning] $variant,)+
        }

        impl $name {
            /// All of them, in their order.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// Its name in documents and messages.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }

            /// What it is, in a sentence.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $meaning,)+ }
            }
        }
    };
}

named! {
    /// The points of an exchange at which features act, in their order. At each, everything is known that was known at those before it.
    Stage {
        RequestHead "request head" "The head of the request is whole and well-formed, and no route has been chosen.",
        Route "route" "The request has its route, and the client is not authenticated.",
        Identity "after authentication" "`basic`, `jwt` and `forward_auth` of the route admit the client; then what depends on the user.",
        BeforeServer "before a server" "The request is admitted: Weir may have the response itself.",
        Upstream "upstream known" "The request goes to a server of this upstream, and none has been chosen.",
        Server "server chosen" "The head of the request is written to a server, once for each attempt.",
        ResponseHead "response head" "The head of a response has come from a server, and the client has nothing of it.",
        ResponseFields "response fields" "The head of the response is written to the client, be it of a server, stored, or Weir's own.",
        ResponseBody "response body" "The body of the response is on its way to the client.",
        Finish "finish" "The exchange is over.",
    }
}

named! {
    /// What may be known of an exchange.
    Fact {
        Connection "connection" "The listener, addresses and TLS of the connection of the client.",
        Request "request" "The head of the request: method, host, path, query, fields, cookies.",
        Call "call" "Whether the request is a call of gRPC.",
        ClientAddress "client address" "The address of the client, also behind trusted proxies.",
        RequestId "request id" "The id of the request.",
        Trace "trace" "The trace that the request belongs to.",
        Route "route" "The route, and the groups that its path has matched.",
        Tag "tag" "The text of the entry of a list that the request is in.",
        User "user" "The user that the client has proved to be.",
        Claims "claims" "The claims of the token of the client.",
        Upstream "upstream" "The upstream that the request goes to.",
        Server "server" "The server that the request goes to, and its place in the queue.",
        Response "response" "The response: status, fields, attempts, times, and the limit that has delayed or refused the request.",
        CacheResult "cache result" "What the cache has done.",
        BodyCoding "body coding" "Whether the body is compressed or decompressed for the client.",
        AffinityOutcome "affinity outcome" "Whether the client has stayed on its server.",
    }
}

named! {
    /// What acts on exchanges beside the phases that every exchange has: each has one folder in `weir-proxy`.
    Feature {
        Accel "accel" "`x_accel`, `x_sendfile`: what servers ask for in fields of their responses (`X-Accel-Redirect` and its like).",
        AccessLists "access lists" "`lists`: requests that are allowed, denied, put off or tagged.",
        AcmeChallenge "acme challenge" "`acme`: challenges of authorities over HTTP.",
        Affinity "affinity" "`affinity`: cookies and keys that keep a client on its server; `dynamic`: the server that a request names.",
        Authentication "authentication" "`basic`, `jwt`, `forward_auth`, `satisfy`: proof of who sends a request.",
        Buffering "buffering" "`buffer_requests`, `buffer_responses`: bodies that are taken in before they go on.",
        Cache "cache" "`cache`: stored responses.",
        Compression "compression" "`compression`: bodies that are compressed or decompressed for the client.",
        Cors "cors" "`cors`: what scripts of other origins may do.",
        ErrorPages "error pages" "`error_pages`: pages in place of responses.",
        Files "files" "`files`, `fastcgi`: files and scripts that a path names.",
        Forwarded "forwarded" "`client_address_header`, `forwarded`, `request_id`: who the client is, for Weir and for servers.",
        Grpc "grpc" "Calls of gRPC, and with `grpc_web` of gRPC-Web: deadline, status, framing.",
        Headers "headers" "`request_headers`, `response_headers`, `hsts`: fields that a route changes.",
        Limits "limits" "`limited_by`: limits on requests and bandwidth by key.",
        Mirror "mirror" "`mirror`: copies of requests for another upstream.",
        Retries "retries" "`retry`: other attempts in place of one that has failed.",
        Rewrite "rewrite" "`rewrite`, `then`, `internal`: another path, or another route of the listener.",
        Rewriting "rewriting" "`rewrite_body`, `rewrite_location`, `rewrite_cookies`: what servers send, rewritten for the client.",
        Tables "tables" "`track`: requests and connections counted by key, for conditions and placeholders.",
        Telemetry "telemetry" "`access_log`, `traces`, the recorder: what is kept and exported of an exchange.",
    }
}

/// One feature at one stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// When it acts.
    pub stage: Stage,
    /// What acts.
    pub feature: Feature,
    /// What has to be known by then.
    pub needs: &'static [Fact],
    /// What is known from then on.
    pub makes: &'static [Fact],
    /// What it does.
    pub action: &'static str,
}

const fn row(
    stage: Stage,
    feature: Feature,
    needs: &'static [Fact],
    makes: &'static [Fact],
    action: &'static str,
) -> Row {
    Row { stage, feature, needs, makes, action }
}

/// The order. A feature is at most once at a stage, and acts there behind those above it.
#[rustfmt::skip]
pub const ORDER: &[Row] = {
    use Fact::{
        AffinityOutcome, BodyCoding, CacheResult, Call, Claims, ClientAddress, Connection, Request, RequestId, Response, Route, Server, Tag, Trace, Upstream, User,
    };
    use Feature as F;
    use Stage as S;
    &[
        row(S::RequestHead, F::Telemetry, &[Request], &[Trace], "begins or continues the trace"),
        row(S::RequestHead, F::Grpc, &[Request], &[Call], "recognizes a call"),
        row(S::RequestHead, F::Forwarded, &[Connection, Request], &[ClientAddress, RequestId], "finds out the address of the client, takes over or makes the id"),
        row(S::RequestHead, F::AcmeChallenge, &[Request], &[], "answers a challenge"),
        row(S::RequestHead, F::Rewrite, &[ClientAddress, Request], &[], "changes path and query by the list of the listener"),
        row(S::Route, F::Rewrite, &[ClientAddress, Request, Route], &[], "changes path and query, leads to another route, redirects"),
        row(S::Route, F::Grpc, &[Call, Route], &[], "recognizes a call of gRPC-Web, limits the time of a call"),
        row(S::Route, F::Cors, &[Request, Route], &[], "recognizes a preflight, which no server gets"),
        row(S::Route, F::Headers, &[Route], &[], "drops trailers that the route takes out of requests"),
        row(S::Route, F::Tables, &[ClientAddress, Request], &[], "counts the request"),
        row(S::Route, F::AccessLists, &[ClientAddress, Request], &[Tag], "refuses, puts off, or lets past the limits"),
        row(S::Route, F::Limits, &[ClientAddress, Request, Tag], &[], "refuses or delays"),
        row(S::Identity, F::Authentication, &[ClientAddress, Request], &[User, Claims], "admits or refuses the client, unless a list has let it in (`satisfy`)"),
        row(S::Identity, F::Tables, &[ClientAddress, Request, User, Claims], &[], "counts the request, by the user"),
        row(S::Identity, F::AccessLists, &[ClientAddress, Request, User, Claims], &[], "refuses, puts off, or lets past the limits, by the user"),
        row(S::Identity, F::Limits, &[ClientAddress, Request, Tag, User, Claims], &[], "refuses or delays, by the user"),
        row(S::BeforeServer, F::Files, &[Request], &[], "answers with a file, or finds the script"),
        row(S::BeforeServer, F::Mirror, &[Request], &[], "decides whether the request is copied"),
        row(S::BeforeServer, F::Cache, &[Request, User], &[], "answers with what is stored, or waits for what another request fetches"),
        row(S::Upstream, F::Grpc, &[Call, Upstream], &[], "limits the silence of a call"),
        row(S::Upstream, F::Affinity, &[Request, Tag, User, Claims, Upstream], &[], "finds the server of the client, by a cookie or a key, or the one that the request names, whose name is resolved"),
        row(S::Upstream, F::Retries, &[Request, Upstream], &[], "keeps the body for another attempt"),
        row(S::Upstream, F::Buffering, &[Request], &[], "takes the body of the request in"),
        row(S::Server, F::Affinity, &[Server], &[], "takes its cookies out of the request"),
        row(S::Server, F::Forwarded, &[ClientAddress, RequestId], &[], "writes the fields about the client"),
        row(S::Server, F::Telemetry, &[Trace], &[], "writes `traceparent`"),
        row(S::Server, F::Grpc, &[Call], &[], "writes the time that is left, translates gRPC-Web"),
        row(S::Server, F::Cache, &[Request], &[], "asks about the version that is stored"),
        row(S::Server, F::Rewriting, &[Request], &[], "asks for a body that is neither compressed nor a part"),
        row(S::Server, F::Authentication, &[User], &[], "writes what `forward_auth` has said of the client"),
        row(S::Server, F::Headers, &[ClientAddress, Request, User, Claims, Tag, Server], &[], "removes, sets and adds fields of the request"),
        row(S::ResponseHead, F::Retries, &[Response], &[], "sends the request to another server instead"),
        row(S::ResponseHead, F::Accel, &[Response], &[], "sends the request on to another route, slows the response down"),
        row(S::ResponseHead, F::Cache, &[Response], &[CacheResult], "stores the response, or uses it for what is stored"),
        row(S::ResponseHead, F::Mirror, &[Response], &[], "notes what the response of the mirror is compared with"),
        row(S::ResponseHead, F::ErrorPages, &[Response], &[], "sends a page instead"),
        row(S::ResponseHead, F::Buffering, &[Response], &[], "takes the response in as fast as it comes"),
        row(S::ResponseFields, F::Grpc, &[Call, Response], &[], "translates to gRPC-Web"),
        row(S::ResponseFields, F::Forwarded, &[RequestId], &[], "writes the id of the request"),
        row(S::ResponseFields, F::Limits, &[], &[], "writes what is left of the limits"),
        row(S::ResponseFields, F::Accel, &[], &[], "writes fields of the server that has sent the request on"),
        row(S::ResponseFields, F::Rewriting, &[Request, Response], &[], "writes places and cookies anew, drops what held for the body as it was"),
        row(S::ResponseFields, F::Compression, &[Request, Response], &[BodyCoding], "writes the coding of the body"),
        row(S::ResponseFields, F::Cors, &[Request], &[], "writes which origins may read the response"),
        row(S::ResponseFields, F::Affinity, &[Server, Response], &[AffinityOutcome], "writes the cookie of the server, learns or forgets the key of the session"),
        row(S::ResponseFields, F::Cache, &[CacheResult], &[], "writes `Age` and `Cache-Status`"),
        row(S::ResponseFields, F::Headers, &[Response, CacheResult, BodyCoding, AffinityOutcome], &[], "removes, sets and adds fields of the response"),
        row(S::ResponseBody, F::Mirror, &[Response], &[], "makes the digest of the body"),
        row(S::ResponseBody, F::Limits, &[], &[], "limits the bandwidth"),
        row(S::Finish, F::Grpc, &[Call, Response], &[], "reads the status of the call"),
        row(S::Finish, F::Mirror, &[Response], &[], "sends the copies"),
        row(S::Finish, F::Tables, &[Response], &[], "counts the response and its bytes"),
        row(S::Finish, F::Limits, &[Response], &[], "gives back places, counts the response"),
        row(S::Finish, F::Telemetry, &[Response], &[], "writes the line of the log, the record and the trace"),
    ]
};

const _: () = assert!(ORDER.len() <= 64, "a set of rows has a bit for each");

impl Stage {
    /// What the phases of an exchange make known as this stage begins; all else is made known by a feature.
    pub const fn begins_with(self) -> &'static [Fact] {
        match self {
            Self::RequestHead => &[Fact::Connection, Fact::Request],
            Self::Route => &[Fact::Route],
            Self::Upstream => &[Fact::Upstream],
            Self::Server => &[Fact::Server],
            Self::ResponseHead => &[Fact::Response],
            Self::Identity
            | Self::BeforeServer
            | Self::ResponseFields
            | Self::ResponseBody
            | Self::Finish => &[],
        }
    }
}

impl Fact {
    /// The stage at which it becomes known.
    pub fn stage(self) -> Stage {
        let of_phase = Stage::ALL.iter().find(|stage| stage.begins_with().contains(&self));
        let of_feature = ORDER.iter().find(|row| row.makes.contains(&self)).map(|row| row.stage);
        of_phase.copied().or(of_feature).expect("each is made known once; a test checks it")
    }
}

impl Feature {
    /// The first stage from `known` on at which it acts.
    pub fn acts_from(self, known: Stage) -> Option<Stage> {
        ORDER.iter().filter(|row| row.feature == self).map(|row| row.stage).find(|stage| *stage >= known)
    }
}

/// Rows of [`ORDER`]: those that act on the requests of a route. One test says whether any acts at a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RowSet(u64);

impl RowSet {
    /// None.
    pub const EMPTY: Self = Self(0);

    /// The rows of a feature.
    pub const fn of_feature(feature: Feature) -> Self {
        let (mut bits, mut at) = (0, 0);
        while at < ORDER.len() {
            if ORDER[at].feature as u8 == feature as u8 {
                bits |= 1 << at;
            }
            at += 1;
        }
        Self(bits)
    }

    /// The rows from a stage to another one, both included.
    pub const fn between(first: Stage, last: Stage) -> Self {
        let (mut bits, mut at) = (0, 0);
        while at < ORDER.len() {
            let stage = ORDER[at].stage as u8;
            if stage >= first as u8 && stage <= last as u8 {
                bits |= 1 << at;
            }
            at += 1;
        }
        Self(bits)
    }

    /// The rows of a stage.
    pub const fn at(stage: Stage) -> Self {
        Self::between(stage, stage)
    }

    /// The row of a feature at a stage; none if it does not act there.
    pub const fn row(stage: Stage, feature: Feature) -> Self {
        Self::at(stage).and(Self::of_feature(feature))
    }

    /// Those that both have.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Those that either has.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Those that the other has not.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether there are none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether both have a row.
    #[inline(always)]
    pub const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

impl RowSet {
    /// Takes the first of them, in the order of the table.
    #[inline]
    pub fn take_first(&mut self) -> Option<&'static Row> {
        let row = ORDER.get(self.0.trailing_zeros() as usize)?;
        self.0 &= self.0 - 1;
        Some(row)
    }

    /// The rows, in the order of the table.
    pub fn rows(mut self) -> impl Iterator<Item = &'static Row> {
        std::iter::from_fn(move || self.take_first())
    }
}

/// The table as a part of `docs/order.md`.
fn stages_markdown() -> String {
    let names = |facts: &[Fact]| facts.iter().map(|fact| fact.name()).collect::<Vec<_>>().join(", ");
    let mut page = String::new();
    for stage in Stage::ALL {
        let _infallible = write!(page, "### {}\n\n{}", capitalized(stage.name()), stage.meaning());
        if !stage.begins_with().is_empty() {
            let _infallible = write!(page, " Known from here on: {}.", names(stage.begins_with()));
        }
        page.push_str("\n\n| feature | what it does | needs | makes known |\n|---|---|---|---|\n");
        for row in RowSet::at(*stage).rows() {
            let (needs, makes) = (names(row.needs), names(row.makes));
            let _infallible =
                writeln!(page, "| {} | {} | {needs} | {makes} |", row.feature.name(), row.action);
        }
        page.push('\n');
    }
    page.push_str("### Facts\n\n| fact | what it is | known from |\n|---|---|---|\n");
    for fact in Fact::ALL {
        let _infallible =
            writeln!(page, "| {} | {} | {} |", fact.name(), fact.meaning(), fact.stage().name());
    }
    page.push_str("\n### Features\n\n| feature | keys |\n|---|---|\n");
    for feature in Feature::ALL {
        let _infallible = writeln!(page, "| {} | {} |", feature.name(), feature.meaning());
    }
    page
}

fn capitalized(name: &str) -> String {
    name.chars().take(1).flat_map(char::to_uppercase).chain(name.chars().skip(1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_finds_what_it_needs() {
        let (mut known, mut begun) = (Vec::new(), None);
        for row in ORDER {
            assert!(begun <= Some(row.stage), "{} is behind a later stage", row.stage.name());
            let entered = Stage::ALL.iter().filter(|stage| begun < Some(**stage) && **stage <= row.stage);
            known.extend(entered.flat_map(|stage| stage.begins_with()));
            begun = Some(row.stage);
            for fact in row.needs {
                let (feature, stage) = (row.feature.name(), row.stage.name());
                assert!(known.contains(&fact), "{feature} at {stage}: {} is not known yet", fact.name());
            }
            known.extend(row.makes);
        }
        let unknown: Vec<&Fact> = Fact::ALL.iter().filter(|fact| !known.contains(fact)).collect();
        assert!(unknown.is_empty(), "never known: {unknown:?}");
        let mut once = known.clone();
        once.sort();
        once.dedup();
        assert_eq!(once.len(), known.len(), "a fact is made known twice");
    }

    #[test]
    fn a_feature_is_once_at_a_stage_and_each_is_somewhere() {
        for feature in Feature::ALL {
            assert!(!RowSet::of_feature(*feature).is_empty(), "{} never acts", feature.name());
            for stage in Stage::ALL {
                let count = RowSet::row(*stage, *feature).rows().count();
                assert!(count <= 1, "{} is {count} times at {}", feature.name(), stage.name());
            }
        }
    }

    #[test]
    fn a_set_walks_its_rows_in_their_order() {
        let set = RowSet::of_feature(Feature::Limits).or(RowSet::row(Stage::Route, Feature::AccessLists));
        let stages: Vec<_> = set.rows().map(|row| (row.stage, row.feature)).collect();
        assert_eq!(
            stages,
            [
                (Stage::Route, Feature::AccessLists),
                (Stage::Route, Feature::Limits),
                (Stage::Identity, Feature::Limits),
                (Stage::ResponseFields, Feature::Limits),
                (Stage::ResponseBody, Feature::Limits),
                (Stage::Finish, Feature::Limits),
            ]
        );
        assert!(set.meets(RowSet::at(Stage::Route)) && !set.meets(RowSet::at(Stage::BeforeServer)));
        assert!(
            set.without(RowSet::of_feature(Feature::Limits)).without(RowSet::at(Stage::Route)).is_empty()
        );
    }

    #[test]
    fn a_feature_acts_at_the_first_stage_at_which_all_is_known() {
        assert_eq!(Feature::Limits.acts_from(Fact::ClientAddress.stage()), Some(Stage::Route));
        assert_eq!(Feature::Limits.acts_from(Fact::User.stage()), Some(Stage::Identity));
        assert_eq!(Feature::Cors.acts_from(Stage::Finish), None);
    }
}
