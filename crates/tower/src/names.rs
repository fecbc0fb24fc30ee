//! Texts in a request's body, such as the names of models: prices and budgets of their own.

use std::fmt;
use std::sync::Arc;

use tidegate_usage::{JsonPath, NamePattern, Weight};

/// The prices of models. The price of a request's model multiplies the units that the request reserves and costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prices {
    /// The path to the name of the model, in the body of the request and of the answer.
    pub path: JsonPath,
    /// The price of each model, at least one. If several patterns match, the most exact one counts.
    pub prices: Box<[(NamePattern, Weight)]>,
}

impl Prices {
    /// Returns the price of a model. The price of a model that is not known or not listed is the highest one: otherwise clients could hide an
    /// expensive model.
    pub(crate) fn of(&self, model: Option<&str>) -> Weight {
        let price = model.and_then(|model| self.price(model));
        price.unwrap_or_else(|| self.highest())
    }

    /// Returns the price of a model. `None` if no pattern matches the model.
    fn price(&self, model: &str) -> Option<Weight> {
        let matching = self.prices.iter().filter(|(it, _)| it.matches(model));
        let best = matching.min_by_key(|(pattern, _)| pattern.rank())?;
        Some(best.1)
    }

    /// Returns the highest price.
    pub fn highest(&self) -> Weight {
        let prices = self.prices.iter().map(|(_, price)| *price);
        prices.max().unwrap_or(Weight::ONE)
    }
}

impl fmt::Display for Prices {
    /// Formats the prices, such as `large-* 15, small-* 1`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (pattern, price)) in self.prices.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{pattern} {price}")?;
        }
        Ok(())
    }
}

/// A text in the request's body that a limit is counted per, with the names that have budgets of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedBudgets {
    /// The path to the text.
    pub path: JsonPath,
    /// The names. All names that one pattern matches have one budget, and all names that no pattern matches have one budget.
    pub allow: Box<[NamePattern]>,
}

impl NamedBudgets {
    /// Returns the pattern whose budget a request with this text is charged. `None` for the budget of all other requests.
    pub(crate) fn pattern(&self, text: Option<&str>) -> Option<&NamePattern> {
        let text = text?;
        let matching = self.allow.iter().filter(|it| it.matches(text));
        matching.min_by_key(|pattern| pattern.rank())
    }
}

/// The texts in a request's body that a limit of its route needs, by path.
#[derive(Clone, Debug, Default)]
pub struct RequestTexts(Option<Arc<[PathText]>>);

/// A path and its text. `None` for an unknown text.
type PathText = (JsonPath, Option<Box<str>>);

impl RequestTexts {
    /// No text.
    pub const NONE: Self = Self(None);

    /// Returns the text at a path. `None` if the body has none, or if the text is not known.
    pub fn get(&self, path: &JsonPath) -> Option<&str> {
        let mut texts = self.0.iter().flat_map(|texts| texts.iter());
        let (_, text) = texts.find(|(other, _)| other == path)?;
        text.as_deref()
    }
}

impl FromIterator<PathText> for RequestTexts {
    fn from_iter<I: IntoIterator<Item = PathText>>(texts: I) -> Self {
        let texts: Arc<[_]> = texts.into_iter().collect();
        Self(Some(texts).filter(|texts| !texts.is_empty()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> NamePattern {
        text.parse().unwrap()
    }

    #[test]
    fn the_most_exact_pattern_has_the_price() {
        let prices = [
            ("*", "3"),
            ("large-*", "15"),
            ("large-2-mini", "0.5"),
            ("large-2-*", "20"),
        ];
        let prices = Prices {
            path: "model".parse().unwrap(),
            prices: prices
                .iter()
                .map(|(text, price)| (pattern(text), price.parse().unwrap()))
                .collect(),
        };
        for (model, price) in [
            ("large-1", "15"),
            ("large-2", "15"),
            ("large-2-", "20"),
            ("large-2-mini", "0.5"),
            ("large-2-mini-1", "20"),
            ("other", "3"),
            ("", "3"),
        ] {
            let found = prices.price(model).map(|price| price.to_string());
            assert_eq!(found.as_deref(), Some(price), "{model}");
        }
        assert_eq!(prices.highest().to_string(), "20");
    }

    #[test]
    fn names_that_are_not_listed_have_one_budget() {
        let budgets = NamedBudgets {
            path: "model".parse().unwrap(),
            allow: ["large-*", "small"].map(pattern).into(),
        };
        let found = |text| budgets.pattern(text).map(NamePattern::to_string);
        assert_eq!(found(Some("large-1")), found(Some("large-2")));
        assert_eq!(found(Some("small")).as_deref(), Some("small"));
        assert_eq!((found(Some("small-2")), found(None)), (None, None));
    }
}
