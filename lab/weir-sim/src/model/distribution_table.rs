//! How a distribution of times is written: `"20ms"`, or a table that names one.

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use weir_stats::distribution::{DRAW_MAX_NS, Distribution};

use super::value::{FromValue, ModelValueError, TimeValue};
use crate::model::error::one_of;

const HINT: &str = "write a length of time, or one of `{ uniform = [\"10ms\", \"30ms\"] }`, \
    `{ exponential = \"20ms\" }`, `{ log_normal = \"20ms\", sigma = 0.5 }`, `{ pareto = \"5ms\", shape = 1.5 }`, \
    `{ one_of = [\"10ms\", \"200ms\"] }`";

/// The keys of each distribution; the first names it.
const KINDS: &[&[&str]] =
    &[&["uniform"], &["exponential"], &["log_normal", "sigma"], &["pareto", "shape"], &["one_of"]];

impl FromValue for Distribution {
    fn from_value(value: &DeValue<'_>) -> Result<Self, ModelValueError> {
        let DeValue::Table(table) = value else {
            return TimeValue::from_value(value).map(|time| Self::Constant(time.0));
        };
        let parts = DistributionTable(table);
        let keys = KINDS.iter().find(|keys| parts.find(keys[0]).is_some());
        let keys = keys.ok_or_else(|| wrong("this names no distribution"))?;
        if let Some(key) = table.keys().find(|key| !keys.contains(&key.get_ref().as_ref())) {
            let what = format!("`{}` has no place beside {}", key.get_ref(), one_of(keys));
            return Err(ModelValueError { at: Some(key.span()), ..wrong(&what) });
        }
        match keys[0] {
            "uniform" => match parts.times("uniform")?[..] {
                [min, max] if min <= max => Ok(Self::Uniform { min, max }),
                _ => Err(parts.wrong("uniform", "`uniform` is the least and the largest")),
            },
            "exponential" => Ok(Self::Exponential { mean: parts.time("exponential")? }),
            "log_normal" => {
                Ok(Self::LogNormal { median: parts.time("log_normal")?, sigma: parts.above_zero("sigma")? })
            }
            "pareto" => Ok(Self::Pareto { min: parts.time("pareto")?, shape: parts.above_zero("shape")? }),
            _ => match parts.times("one_of")? {
                list if list.is_empty() => Err(parts.wrong("one_of", "`one_of` is empty")),
                list => Ok(Self::OneOf(list)),
            },
        }
    }

    fn example(key: &str) -> String {
        format!("write for example `{key} = \"20ms\"` or `{key} = {{ exponential = \"20ms\" }}`")
    }
}

fn wrong(what: &str) -> ModelValueError {
    ModelValueError::new(what.to_owned(), HINT)
}

/// The table that describes a distribution.
struct DistributionTable<'a>(&'a DeTable<'a>);

impl<'a> DistributionTable<'a> {
    fn find(&self, name: &str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.0.iter().find(|(key, _)| key.get_ref() == name).map(|(_, value)| value)
    }

    fn needed(&self, name: &str) -> Result<&'a Spanned<DeValue<'a>>, ModelValueError> {
        self.find(name).ok_or_else(|| wrong(&format!("`{name}` is missing")))
    }

    fn wrong(&self, name: &str, what: &str) -> ModelValueError {
        ModelValueError { at: self.find(name).map(Spanned::span), ..wrong(what) }
    }

    fn time(&self, name: &str) -> Result<u64, ModelValueError> {
        time(self.needed(name)?)
    }

    fn above_zero(&self, name: &str) -> Result<f64, ModelValueError> {
        let number = f64::from_value(self.needed(name)?.get_ref()).ok().filter(|number| *number > 0.0);
        number.ok_or_else(|| self.wrong(name, &format!("`{name}` is a number above 0")))
    }

    fn times(&self, name: &str) -> Result<Vec<u64>, ModelValueError> {
        match self.needed(name)?.get_ref() {
            DeValue::Array(items) => items.iter().map(time).collect(),
            _ => Err(self.wrong(name, &format!("`{name}` is a list of lengths of time"))),
        }
    }
}

fn time(value: &Spanned<DeValue<'_>>) -> Result<u64, ModelValueError> {
    let time = TimeValue::from_value(value.get_ref());
    time.map(|time| time.0).map_err(|wrong| ModelValueError { at: Some(value.span()), ..wrong })
}

/// Why this is no time that work takes; `None` when all is well.
pub(super) fn objection_to_service(service: &Distribution) -> Option<&'static str> {
    use Distribution as D;
    let typical = match service {
        D::Constant(time) | D::Exponential { mean: time } | D::LogNormal { median: time, .. } => *time,
        D::Uniform { max: time, .. } | D::Pareto { min: time, .. } => *time,
        D::Bimodal { fast, slow, .. } => *fast.max(slow),
        D::OneOf(times) => times.iter().copied().max().unwrap_or(0),
    };
    if typical == 0 {
        return Some("with a service time of 0 time does not pass");
    }
    (typical > DRAW_MAX_NS).then_some("a service time is at most an hour")
}
