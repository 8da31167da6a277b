//! The door into the configuration: values that were checked as a whole, whatever they come from.
//!
//! A [`Checked`] value is read like the struct of its [`CheckedParts`], with plain loads, and nothing outside this crate can write to it. For another value, take the parts,
//! change them, and have them checked again. The check of a text reports the same faults with their places.

use std::collections::HashSet;
use std::fmt;
use std::ops::{Deref, RangeInclusive};

use super::faults::{ConfigFault, ValueFault};
use crate::key::{Bounds, ConfigValue};

/// The parts of a value that is checked as a whole: plain data, of which anything may be said.
pub trait CheckedParts {
    /// What it is, with its name, as faults name it.
    fn place(&self) -> String;

    /// Everything that does not hold of them.
    fn check(&self, faults: &mut FoundFaults);
}

/// What was found in the parts of one value.
#[derive(Debug, Default)]
pub struct FoundFaults(Vec<(Option<String>, ValueFault)>);

impl FoundFaults {
    /// About the value itself.
    pub(crate) fn add(&mut self, fault: impl Into<ValueFault>) {
        self.0.push((None, fault.into()));
    }

    /// The same of a key, or of a part that has a name of its own.
    pub(crate) fn add_at(&mut self, place: impl Into<String>, fault: impl Into<ValueFault>) {
        self.0.push((Some(place.into()), fault.into()));
    }

    pub(crate) fn extend<F: Into<ValueFault>>(&mut self, faults: impl IntoIterator<Item = F>) {
        self.0.extend(faults.into_iter().map(|fault| (None, fault.into())));
    }

    /// About names of parts of a kind that occur twice.
    pub(super) fn check_unique<'a>(&mut self, kind: &str, names: impl Iterator<Item = &'a str>) {
        let mut known = HashSet::new();
        for name in names {
            if !known.insert(name) {
                self.add_at(format!("{kind} `{name}`"), ValueFault::NameTakenTwice);
            }
        }
    }

    /// About values of a section that exceed the bounds of their keys.
    pub(crate) fn check_section(&mut self, section: &impl ConfigValue) {
        let mut found = Vec::new();
        section.check_bounds("", Bounds::NONE, &mut found);
        self.extend(found);
    }

    /// The same of the value of a key of another section.
    pub(crate) fn check_key(&mut self, key: &str, value: &impl ConfigValue, range: RangeInclusive<u64>) {
        let mut found = Vec::new();
        value.check_bounds(key, Bounds::from_range(range), &mut found);
        self.extend(found);
    }
}

/// Parts of which everything holds that is said of them.
///
/// No code outside of this crate makes one in another way than [`Checked::from_parts`], or changes one:
///
/// ```compile_fail,E0423
/// let parts = weir_config::UpstreamParts::new("app", Vec::new());
/// let upstream = weir_config::Checked(parts);
/// ```
///
/// ```compile_fail,E0594
/// let mut config = weir_config::Config::default();
/// config.listeners = Vec::new();
/// ```
///
/// ```compile_fail,E0596
/// let mut upstream = weir_config::Upstream::without_servers("app");
/// upstream.servers.clear();
/// ```
///
/// Nor are there literals of parts and of other types of the configuration:
///
/// ```compile_fail,E0639
/// let name = "app".into();
/// let parts = weir_config::UpstreamParts { name, ..weir_config::UpstreamParts::new("", Vec::new()) };
/// ```
///
/// ```compile_fail,E0639
/// let streams_max = 0;
/// let http2 = weir_config::UpstreamHttp2 { streams_max, ..weir_config::UpstreamHttp2::default() };
/// ```
///
/// Parts are checked:
///
/// ```
/// use weir_config::{Upstream, UpstreamParts};
///
/// let mut parts = UpstreamParts::new("app", Vec::new());
/// parts.http2.streams_max = 0;
/// let faults = Upstream::from_parts(parts).expect_err("no stream could be opened");
/// assert_eq!(faults[0].to_string(), "upstream `app`: `streams_max` has to be from 1 to 10000; this is 0");
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Checked<T>(T);

impl<T: CheckedParts> Checked<T> {
    /// Checks the parts.
    ///
    /// # Errors
    /// What does not hold of them.
    pub fn from_parts(parts: T) -> Result<Self, Vec<ConfigFault>> {
        let faults = faults(&parts);
        if faults.is_empty() { Ok(Self(parts)) } else { Err(faults) }
    }

    /// What does not hold, all the same: nothing, unless it is a placeholder.
    pub(crate) fn faults(&self) -> Vec<ConfigFault> {
        faults(&self.0)
    }
}

fn faults(parts: &impl CheckedParts) -> Vec<ConfigFault> {
    let mut found = FoundFaults::default();
    parts.check(&mut found);
    let name = |(place, fault): (Option<String>, ValueFault)| ConfigFault {
        place: place.unwrap_or_else(|| parts.place()),
        fault,
    };
    found.0.into_iter().map(name).collect()
}

impl<T> Checked<T> {
    /// Parts whose faults are reported in another way, or that hold because of what they are made from.
    pub(crate) const fn assume(parts: T) -> Self {
        Self(parts)
    }

    /// The parts, to be changed and checked again.
    pub fn into_parts(self) -> T {
        self.0
    }

    /// A copy of the parts, to be changed and checked again.
    pub fn to_parts(&self) -> T
    where
        T: Clone,
    {
        self.0.clone()
    }

    /// For changes that keep everything true.
    pub(crate) fn parts_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T> Deref for Checked<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: fmt::Debug> fmt::Debug for Checked<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
