//! The slots of a Redis Cluster: the slot of a key, and the nodes that own slots.

use fred::types::Value;

use super::url::Address;

/// The number of slots of a cluster.
pub(crate) const SLOTS: u16 = 16384;

/// Hash tags in the first and the last slot. In a Redis Cluster, usually two different nodes own these slots.
pub(crate) const ENDS: [u128; 2] = [22_643, 38_340];

/// Returns the slot of a key. If the key has braces, only the text in them determines the slot.
pub(crate) fn slot_of(key: &str) -> u16 {
    fred::util::redis_keyslot(key.as_bytes())
}

/// Returns the slot of all keys of the client with this hash tag.
pub fn slot_of_tag(tag: &[u8; 16]) -> u16 {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut hex = [0; 32];
    for (pair, byte) in hex.chunks_exact_mut(2).zip(tag) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
    fred::util::redis_keyslot(&hex)
}

/// A primary, and the slots that it owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) address: Address,
    /// The host name that the cluster reports. The node's certificate contains this name.
    pub(crate) name: Option<String>,
    pub(crate) slots: Vec<(u16, u16)>,
}

/// Reads the answer of the node at `source` to CLUSTER SLOTS. Returns `None` if the answer has another form.
pub(crate) fn owners(answer: Value, source: &Address) -> Option<Vec<Owner>> {
    let mut owners: Vec<Owner> = Vec::new();
    for range in list(answer)? {
        // A range contains its first slot, its last slot, its primary and its replicas. The gateway does not call replicas.
        let mut parts = list(range)?.into_iter();
        let (first, last) = (number(&parts.next()?)?, number(&parts.next()?)?);
        if first > last || last >= SLOTS {
            return None;
        }
        let mut primary = list(parts.next()?)?.into_iter();
        let host = primary
            .next()?
            .into_string()
            .filter(|host| !host.is_empty() && host != "?");
        let address = Address {
            host: host.unwrap_or_else(|| source.host.clone()),
            port: number(&primary.next()?)?,
        };
        match owners.iter_mut().find(|owner| owner.address == address) {
            Some(owner) => owner.slots.push((first, last)),
            None => {
                // The primary's ID follows its port. Since Redis 7, a list of names and values follows the ID.
                let pairs = primary.nth(1).and_then(list).unwrap_or_default();
                let name = pairs
                    .chunks_exact(2)
                    .find(|pair| pair[0].as_str().as_deref() == Some("hostname"))
                    .and_then(|pair| pair[1].as_string())
                    .filter(|name| !name.is_empty());
                owners.push(Owner {
                    address,
                    name,
                    slots: vec![(first, last)],
                });
            }
        }
    }
    Some(owners)
}

fn list(value: Value) -> Option<Vec<Value>> {
    match value {
        Value::Array(items) => Some(items),
        _ => None,
    }
}

fn number(value: &Value) -> Option<u16> {
    u16::try_from(value.as_u64()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_has_the_slot_of_its_keys() {
        for seed in 0..200_u128 {
            let tag = seed
                .wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)
                .to_be_bytes();
            let hex = format!("{:032x}", u128::from_be_bytes(tag));
            assert_eq!(
                slot_of_tag(&tag),
                slot_of(&format!("tidegate:{{{hex}}}:limit:fixed_window/1"))
            );
        }
        let ends = ENDS.map(|tag| slot_of_tag(&tag.to_be_bytes()));
        assert_eq!(ends, [0, SLOTS - 1]);
        // From the specification of Redis Cluster: CRC16 of 123456789 is 0x31c3.
        assert_eq!(slot_of("123456789"), 0x31c3 % SLOTS);
    }

    #[test]
    fn owners_are_read_from_every_form_of_the_answer() {
        let text = |text: &str| Value::from(text);
        let list = Value::Array;
        let node = |host: Value, port: i64, names: Vec<Value>| {
            list(vec![host, port.into(), text("id"), list(names)])
        };
        let range = |first: i64, last: i64, nodes: Vec<Value>| {
            list([vec![first.into(), last.into()], nodes].concat())
        };
        let address = |host: &str, port| Address {
            host: host.into(),
            port,
        };
        let source = address("asked", 1);
        let (one, replica) = (text("10.0.0.1"), text("10.0.0.9"));
        let named = vec![text("hostname"), text("b.example")];
        let answer = list(vec![
            range(
                0,
                5,
                vec![node(one.clone(), 7000, vec![]), node(replica, 1, vec![])],
            ),
            range(6, 9, vec![node(Value::Null, 7001, named)]),
            range(10, 16383, vec![list(vec![one, 7000.into()])]),
        ]);
        let owners = owners(answer, &source).unwrap();
        assert_eq!(
            owners,
            [
                Owner {
                    address: address("10.0.0.1", 7000),
                    name: None,
                    slots: vec![(0, 5), (10, 16383)]
                },
                Owner {
                    address: address("asked", 7001),
                    name: Some("b.example".into()),
                    slots: vec![(6, 9)]
                },
            ]
        );
        for bad in [
            Value::Null,
            list(vec![range(5, 4, vec![node(text("a"), 1, vec![])])]),
        ] {
            assert_eq!(super::owners(bad, &source), None);
        }
    }
}
