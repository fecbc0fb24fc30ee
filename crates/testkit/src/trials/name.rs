//! Names of trials.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// The name of a trial: a seed, and the parts of the seed's case that are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Name {
    /// The seed.
    pub seed: u64,
    /// The indices of limits that are left out.
    pub limits: BTreeSet<usize>,
    /// The indices of pieces of work that are left out.
    pub work: BTreeSet<usize>,
    /// The indices of faults that are left out.
    pub faults: BTreeSet<usize>,
    /// The indices of extras that are left out.
    pub extras: BTreeSet<usize>,
}

impl Name {
    /// Returns the name of the whole trial of a seed.
    pub fn of(seed: u64) -> Self {
        Self {
            seed,
            ..Self::default()
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.seed)?;
        for (letter, parts) in [
            ('l', &self.limits),
            ('w', &self.work),
            ('f', &self.faults),
            ('e', &self.extras),
        ] {
            if !parts.is_empty() {
                let parts: Vec<String> = parts.iter().map(ToString::to_string).collect();
                write!(f, "-{letter}{}", parts.join("."))?;
            }
        }
        Ok(())
    }
}

impl FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split('-');
        let number = |text: &str| text.parse().map_err(|e| format!("{text:?}: {e}"));
        let mut name = Self::of(number(parts.next().unwrap_or_default())?);
        for part in parts {
            let (letter, list) = part.split_at(1);
            let mut numbers = BTreeSet::new();
            for text in list.split('.') {
                numbers.insert(number(text)? as usize);
            }
            match letter {
                "l" => name.limits = numbers,
                "w" => name.work = numbers,
                "f" => name.faults = numbers,
                "e" => name.extras = numbers,
                other => return Err(format!("{other:?} is none of l, w, f and e")),
            }
        }
        Ok(name)
    }
}

#[test]
fn a_name_is_read_as_it_is_written() {
    for text in ["7", "7-l1-w0.3-f2-e0", "18446744073709551615-f0.1"] {
        assert_eq!(text.parse::<Name>().unwrap().to_string(), text);
    }
    assert!("7-x1".parse::<Name>().is_err() && "".parse::<Name>().is_err());
}
