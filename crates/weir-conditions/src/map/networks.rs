//! Networks, looked up by address: the longest one counts.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;

use ipnet::IpNet;

/// A map from networks. A lookup asks once for each length of prefix that occurs, which real lists have few of.
#[derive(Debug, Clone)]
pub struct NetworkMap<V> {
    v4: Vec<Networks<V>>,
    v6: Vec<Networks<V>>,
}

/// Those of one length, by their first address.
#[derive(Debug, Clone)]
struct Networks<V> {
    prefix_len: u8,
    by_start: HashMap<u128, V>,
}

impl<V> Default for NetworkMap<V> {
    fn default() -> Self {
        Self { v4: Vec::new(), v6: Vec::new() }
    }
}

impl<V> NetworkMap<V> {
    /// Adds a network; `false` when it is there already, and the first value stays.
    pub fn insert(&mut self, network: IpNet, value: V) -> bool {
        let (family, start) = match network.network() {
            IpAddr::V4(start) => (&mut self.v4, start.to_bits().into()),
            IpAddr::V6(start) => (&mut self.v6, start.to_bits()),
        };
        let prefix_len = network.prefix_len();
        let at = match family.binary_search_by(|networks| prefix_len.cmp(&networks.prefix_len)) {
            Ok(at) => at,
            Err(at) => {
                family.insert(at, Networks { prefix_len, by_start: HashMap::new() });
                at
            }
        };
        match family[at].by_start.entry(start) {
            Entry::Occupied(_) => false,
            Entry::Vacant(place) => {
                place.insert(value);
                true
            }
        }
    }

    /// The value of the longest network that an address is in. An IPv4 address that is written as one of IPv6 is one of IPv4.
    pub fn get(&self, address: IpAddr) -> Option<&V> {
        let (family, bits, len): (_, u128, u8) = match address.to_canonical() {
            IpAddr::V4(address) => (&self.v4, address.to_bits().into(), 32),
            IpAddr::V6(address) => (&self.v6, address.to_bits(), 128),
        };
        family.iter().find_map(|networks| {
            let unset = u32::from(len - networks.prefix_len);
            let start = bits.checked_shr(unset).unwrap_or(0).checked_shl(unset).unwrap_or(0);
            networks.by_start.get(&start)
        })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.v4.iter().chain(&self.v6).map(|networks| networks.by_start.len()).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.v4.is_empty() && self.v6.is_empty()
    }
}

impl<V> FromIterator<(IpNet, V)> for NetworkMap<V> {
    fn from_iter<I: IntoIterator<Item = (IpNet, V)>>(networks: I) -> Self {
        let mut map = Self::default();
        for (network, value) in networks {
            map.insert(network, value);
        }
        map
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn networks(texts: &[&str]) -> NetworkMap<String> {
        texts.iter().map(|text| (text.parse().expect("it is a network"), (*text).to_owned())).collect()
    }

    #[test]
    fn the_longest_network_counts() {
        let map = networks(&["10.0.0.0/8", "10.1.0.0/16", "10.1.2.3/32", "0.0.0.0/0", "2001:db8::/32"]);
        for (address, expected) in [
            ("10.2.3.4", Some("10.0.0.0/8")),
            ("10.1.9.9", Some("10.1.0.0/16")),
            ("10.1.2.3", Some("10.1.2.3/32")),
            ("::ffff:10.1.2.3", Some("10.1.2.3/32")),
            ("192.0.2.1", Some("0.0.0.0/0")),
            ("2001:db8::1", Some("2001:db8::/32")),
            ("2001:db9::1", None),
        ] {
            let address = address.parse().expect("it is an address");
            assert_eq!(map.get(address).map(String::as_str), expected, "{address}");
        }
        assert_eq!((map.len(), map.is_empty()), (5, false));
    }

    #[test]
    fn the_first_of_two_alike_stays() {
        let mut map = NetworkMap::default();
        let network = "192.0.2.0/24".parse().expect("it is a network");
        assert!(map.insert(network, 1) && !map.insert(network, 2));
        assert_eq!(map.get("192.0.2.7".parse().expect("it is an address")), Some(&1));
        assert!(NetworkMap::<()>::default().get("::1".parse().expect("it is an address")).is_none());
    }

    proptest! {
        #[test]
        fn it_finds_what_a_search_of_all_finds(
            all in vec((any::<u32>(), 0_u8..=32), 0..20),
            wanted in any::<u32>(),
            near in 0_usize..20,
        ) {
            let nets: Vec<IpNet> = all
                .iter()
                .map(|(bits, len)| IpNet::new(IpAddr::V4((*bits).into()), *len).expect("the length is one").trunc())
                .collect();
            let map: NetworkMap<usize> = nets.iter().enumerate().map(|(at, net)| (*net, at)).collect();
            let near = all.get(near).map_or(wanted, |(bits, _)| *bits);
            for address in [wanted, near, near ^ 1].map(|bits| IpAddr::V4(bits.into())) {
                let longest = nets.iter().filter(|net| net.contains(&address)).max_by_key(|net| net.prefix_len());
                let found = map.get(address).map(|at| nets[*at]);
                prop_assert_eq!(found, longest.copied());
            }
        }
    }
}
