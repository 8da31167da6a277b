//! When the lists and limits of a route are asked: each at the first stage at which all placeholders of its key are known.
//!
//! The data path makes its plans by this, `weir check` its errors and `weir explain` its sentences. Must not know what a list or a limit does.

use std::sync::Arc;

use super::limit::KeyLimit;
use super::list::{AccessList, ListAction};
use crate::order::{Feature, Stage};
use crate::value::{Template, TemplateValue, WhenCondition};

/// The stages of the lists and limits of one route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuleOrder {
    /// The stage from which `{tag}` is known.
    tag: Stage,
}

impl RuleOrder {
    /// That of a route with these lists.
    pub fn new(lists: &[Arc<AccessList>]) -> Self {
        let tagging = lists.iter().filter(|list| list.action == ListAction::Tag);
        let stages = tagging.flat_map(|list| values(&list.key, list.when.as_ref())).map(TemplateValue::stage);
        Self { tag: asked_at(stages.max()) }
    }

    /// The stage at which a list is asked.
    pub fn of_list(&self, list: &AccessList) -> Stage {
        self.stage(&list.key, list.when.as_ref())
    }

    /// The stage at which a limit is asked.
    pub fn of_limit(&self, limit: &KeyLimit) -> Stage {
        self.stage(&limit.key, limit.when.as_ref())
    }

    /// The stage at which a list or a limit with this key and this condition is asked.
    fn stage(&self, key: &Template, when: Option<&WhenCondition>) -> Stage {
        let stages = values(key, when).map(|value| match value {
            TemplateValue::Tag => self.tag,
            value => value.stage(),
        });
        asked_at(stages.max())
    }
}

/// What they are made of in the end.
fn values<'a>(key: &'a Template, when: Option<&'a WhenCondition>) -> impl Iterator<Item = &'a TemplateValue> {
    key.leaves().chain(when.into_iter().flat_map(WhenCondition::values).flat_map(TemplateValue::leaves))
}

/// The first stage at which lists and limits are asked, once all that a key has is `known`.
fn asked_at(known: Option<Stage>) -> Stage {
    let known = known.unwrap_or(Stage::RequestHead);
    Feature::AccessLists.acts_from(known).unwrap_or(known)
}

#[cfg(test)]
mod tests {
    use crate::{Config, RuleOrder, Stage};

    #[test]
    fn a_rule_is_asked_as_soon_as_its_key_is_known() {
        let text = "list.team = { action = \"tag\", key = \"{user}\", entries = [\"ann x\"] }\n\
             list.net = { action = \"tag\", entries = [\"10.0.0.0/8 y\"] }\n\
             [listener.web]\naddress = \":0\"\n\
             [[listener.web.route]]\npath = \"/\"\nupstream = \"app\"\n\
             basic = { users = { ann = \"$$2y$$05$$Z6hikxcfC7bLKHcgLQ/PtOy78ejcxa.dCYIcARnkDT4yJpC/sdZfm\" } }\nlists = [\"team\", \"net\"]\n\
             [upstream.app]\nservers = [\"a:80\"]\n";
        let config = Config::parse(text, "weir.toml").expect("a good config");
        let (team, net) = (&config.lists[..1], &config.lists[1..]);
        for (key, by_net, by_team) in [
            ("{client_address}", Stage::Route, Stage::Route),
            ("all", Stage::Route, Stage::Route),
            ("{host} {header.x-key} {cookie.a} {query.a} {match.a}", Stage::Route, Stage::Route),
            ("{client_address} {user}", Stage::Identity, Stage::Identity),
            ("{jwt.sub}", Stage::Identity, Stage::Identity),
            ("{tag}", Stage::Route, Stage::Identity),
        ] {
            let key = key.parse().expect("it is a template");
            let stages = [net, team].map(|lists| RuleOrder::new(lists).stage(&key, None));
            assert_eq!(stages, [by_net, by_team], "{key}");
        }
    }
}
