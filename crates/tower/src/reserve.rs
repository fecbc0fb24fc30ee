//! The units that a request reserves until its answer names the cost: a fixed number, or a number that the request itself contains.

use http::{HeaderMap, HeaderName};
use tidegate_usage::{Weight, WeightedPath};

use crate::header_number::largest;
use crate::{Prices, RequestTexts};

/// The units that a request reserves until its answer comes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reserve {
    /// The same units for every request; at least 1.
    Fixed(u64),
    /// Units that depend on the request.
    Request(Box<RequestReserve>),
}

/// The parts of a request that determine the units to reserve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestReserve {
    /// The paths to numbers in the body, with the units for each 1.
    pub numbers: Box<[WeightedPath]>,
    /// The header with a number of units.
    pub header: Option<HeaderName>,
    /// The units for each byte of the body.
    pub byte: Option<Weight>,
    /// The units for a request without these numbers and without the header.
    pub default: u64,
    /// The most units that a request reserves.
    pub max: u64,
    /// The prices that the other units are multiplied by, by the model in the body.
    pub prices: Option<Prices>,
}

impl Reserve {
    /// Returns these units times the price of the request's model.
    #[must_use]
    pub fn priced(self, prices: Prices) -> Self {
        let mut reserve = match self {
            Self::Request(reserve) => reserve,
            Self::Fixed(units) => {
                let thousandths = units.saturating_mul(1_000);
                Box::new(RequestReserve {
                    numbers: Box::default(),
                    header: None,
                    byte: None,
                    default: units,
                    max: units_at(prices.highest(), thousandths).max(1),
                    prices: None,
                })
            }
        };
        reserve.prices = Some(prices);
        Self::Request(reserve)
    }

    /// Returns the units that a request without a body reserves.
    pub(crate) fn of(&self, headers: &HeaderMap) -> u64 {
        match self {
            Self::Fixed(units) => *units,
            Self::Request(reserve) => reserve.units(headers, &ReadBody::EMPTY, &RequestTexts::NONE),
        }
    }

    /// Returns the units that a request reserves if it names no number and no model.
    pub fn usual(&self) -> u64 {
        match self {
            Self::Fixed(units) => *units,
            Self::Request(reserve) => reserve.usual(),
        }
    }

    /// Returns the header that determines the units. `None` if no header does.
    pub(crate) const fn header(&self) -> Option<&HeaderName> {
        match self {
            Self::Request(reserve) => reserve.header.as_ref(),
            Self::Fixed(_) => None,
        }
    }

    /// Describes the parts of a request that determine the units, such as `max_tokens in the request's body, 1 to 100000 (2000 without it)`.
    /// `None` for a fixed number of units.
    pub fn described(&self) -> Option<String> {
        let Self::Request(reserve) = self else {
            return None;
        };
        let numbers = (!reserve.numbers.is_empty())
            .then(|| format!("{} in the request's body", sum(&reserve.numbers)));
        let header = reserve.header.as_ref();
        let header = header.map(|name| format!("{name} of the request"));
        let bytes = reserve.byte;
        let bytes = bytes.map(|weight| format!("{weight} for each byte of the body"));
        let parts: Vec<_> = [numbers, header, bytes].into_iter().flatten().collect();
        let RequestReserve { default, max, .. } = &**reserve;
        let parts = match parts.is_empty() {
            true => format!("{default}"),
            false => format!("{} ({default} without a number)", parts.join(" + ")),
        };
        let prices = reserve.prices.as_ref();
        let prices = prices.map(|it| format!(", times the price by {} ({it})", it.path));
        Some(format!(
            "{parts}{}, at most {max}",
            prices.unwrap_or_default()
        ))
    }

    /// Returns the parts of a request that determine the units. `None` if no part does, or only a header.
    pub(crate) fn in_body(&self) -> Option<&RequestReserve> {
        match self {
            Self::Request(reserve) if reserve.reads_body() => Some(reserve),
            Self::Request(_) | Self::Fixed(_) => None,
        }
    }
}

impl RequestReserve {
    fn reads_body(&self) -> bool {
        !self.numbers.is_empty() || self.byte.is_some() || self.prices.is_some()
    }

    fn usual(&self) -> u64 {
        let price = self.prices.as_ref().map_or(Weight::ONE, Prices::highest);
        let thousandths = self.default.saturating_mul(1_000);
        units_at(price, thousandths).clamp(1, self.max)
    }

    /// Returns the units of a request, from 1 to `max`. If the numbers or the length of the body are not known, these are `max`: otherwise
    /// clients could hide a large number.
    pub(crate) fn units(&self, headers: &HeaderMap, body: &ReadBody, texts: &RequestTexts) -> u64 {
        if !self.numbers.is_empty() && !body.is_known
            || self.byte.is_some() && body.length.is_none()
        {
            return self.max;
        }
        let header = self.header.as_ref();
        let units = header.and_then(|name| largest(headers, name));
        let named = units.map(|units| units.saturating_mul(1_000));
        let named = match (named, body.thousandths) {
            (None, None) => self.default.saturating_mul(1_000),
            (named, numbers) => named.unwrap_or(0).saturating_add(numbers.unwrap_or(0)),
        };
        let weight = self.byte.map_or(0, Weight::thousandths);
        let bytes = body.length.unwrap_or(0).saturating_mul(weight);
        let prices = self.prices.as_ref();
        let price = prices.map_or(Weight::ONE, |prices| prices.of(texts.get(&prices.path)));
        units_at(price, named.saturating_add(bytes)).clamp(1, self.max)
    }
}

/// The parts of a request's body that determine the units to reserve.
#[derive(Debug)]
pub(crate) struct ReadBody {
    /// The weighted sum of the numbers. `None` if there is none.
    pub(crate) thousandths: Option<u64>,
    /// Whether the rest of the body cannot have further numbers.
    pub(crate) is_known: bool,
    /// The length in bytes.
    pub(crate) length: Option<u64>,
}

impl ReadBody {
    const EMPTY: Self = Self {
        thousandths: None,
        is_known: true,
        length: Some(0),
    };
}

/// Returns the units of this many thousandths at a price, rounded up.
pub(crate) fn units_at(price: Weight, thousandths: u64) -> u64 {
    let product = u128::from(thousandths) * u128::from(price.thousandths());
    u64::try_from(product.div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// Formats a sum of weighted numbers, such as `usage.prompt_tokens + 4 * usage.completion_tokens`. The weight 1 is left out.
pub(crate) fn sum(numbers: &[WeightedPath]) -> String {
    let terms = numbers.iter().map(|WeightedPath { path, weight }| {
        let factor = (*weight != Weight::ONE).then(|| format!("{weight} * "));
        format!("{}{path}", factor.unwrap_or_default())
    });
    terms.collect::<Vec<_>>().join(" + ")
}
