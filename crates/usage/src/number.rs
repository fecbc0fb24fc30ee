//! A JSON number of any length, read byte by byte into a struct of fixed size.

/// A mantissa below this bound has room for another digit, so 18 digits fit. Numbers up to 2^53 have at most 16 digits.
const MANTISSA: u64 = 100_000_000_000_000_000;
/// The largest exponent. Larger exponents are read as this value.
const MAX_EXPONENT: i64 = 1_000_000_000_000;

/// The state of a number that is being read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Number {
    part: Part,
    is_negative: bool,
    /// The first 18 digits, without leading zeros.
    mantissa: u64,
    /// The power of ten by which the mantissa is multiplied, without the number's own exponent.
    scale: i64,
    /// Whether any digit after the mantissa's digits is not 0.
    has_more: bool,
    exponent: i64,
    is_exponent_negative: bool,
}

#[derive(Clone, Copy, Debug)]
enum Part {
    Start,
    Minus,
    /// After a leading 0, which no other digit before the point may follow.
    Zero,
    Whole,
    Point,
    Fraction,
    E,
    Sign,
    Exponent,
}

impl Number {
    /// The state before the first byte.
    pub(crate) const NONE: Self = Self {
        part: Part::Start,
        is_negative: false,
        mantissa: 0,
        scale: 0,
        has_more: false,
        exponent: 0,
        is_exponent_negative: false,
    };

    /// Processes a byte. Returns false if the byte does not continue the number.
    pub(crate) fn read(&mut self, byte: u8) -> bool {
        let next = match (self.part, byte) {
            (Part::Start, b'-') => {
                self.is_negative = true;
                Part::Minus
            }
            (Part::Start | Part::Minus, b'0') => Part::Zero,
            (Part::Start | Part::Minus, b'1'..=b'9') | (Part::Whole, b'0'..=b'9') => {
                self.digit(byte, 0);
                Part::Whole
            }
            (Part::Zero | Part::Whole, b'.') => Part::Point,
            (Part::Point | Part::Fraction, b'0'..=b'9') => {
                self.digit(byte, -1);
                Part::Fraction
            }
            (Part::Zero | Part::Whole | Part::Fraction, b'e' | b'E') => Part::E,
            (Part::E, b'+' | b'-') => {
                self.is_exponent_negative = byte == b'-';
                Part::Sign
            }
            (Part::E | Part::Sign | Part::Exponent, b'0'..=b'9') => {
                let digit = i64::from(byte - b'0');
                self.exponent = (self.exponent * 10 + digit).min(MAX_EXPONENT);
                Part::Exponent
            }
            _ => return false,
        };
        self.part = next;
        true
    }

    /// Adds a digit. `place` is -1 for a digit after the point, else 0.
    const fn digit(&mut self, byte: u8, place: i64) {
        let digit = byte - b'0';
        if self.mantissa < MANTISSA {
            self.mantissa = self.mantissa * 10 + digit as u64;
            self.scale += place;
        } else {
            self.has_more |= digit != 0;
            self.scale += place + 1;
        }
    }

    /// Whether the number may end here.
    pub(crate) const fn is_complete(&self) -> bool {
        matches!(
            self.part,
            Part::Zero | Part::Whole | Part::Fraction | Part::Exponent
        )
    }

    /// Returns the product of the number and `factor`, rounded up to an integer, at most [`u64::MAX`]. Returns `None` for a negative number.
    /// Uses only the first 18 digits. `factor` is at most 10^9, so the product of the digits and `factor` fits.
    pub(crate) fn times(&self, factor: u64) -> Option<u64> {
        if self.is_negative || !self.is_complete() {
            return None;
        }
        let product = u128::from(self.mantissa) * u128::from(factor);
        if product == 0 {
            return Some(0);
        }
        let exponent = match self.is_exponent_negative {
            true => -self.exponent,
            false => self.exponent,
        };
        let scale = self.scale + exponent;
        let places = u32::try_from(scale.unsigned_abs()).unwrap_or(u32::MAX);
        let power = 10_u128.checked_pow(places);
        let rounded = match (scale < 0, power) {
            (false, Some(power)) => product.saturating_mul(power),
            (false, None) => u128::MAX,
            (true, Some(power)) => {
                let has_rest = self.has_more || !product.is_multiple_of(power);
                product / power + u128::from(has_rest)
            }
            (true, None) => 1,
        };
        Some(u64::try_from(rounded).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The number that a whole text is.
    fn number(text: &str) -> Option<Number> {
        let mut number = Number::NONE;
        let is_read = text.bytes().all(|byte| number.read(byte));
        (is_read && number.is_complete()).then_some(number)
    }

    #[test]
    fn a_number_is_rounded_up_and_a_negative_one_is_none() {
        let zeros = "0".repeat(100_000);
        for (text, expected) in [
            ("0", Some(0)),
            ("7", Some(7)),
            // Of more than 18 digits the first 18 count.
            ("1234567890123456789", Some(1_234_567_890_123_456_780)),
            ("18446744073709551615", Some(18_446_744_073_709_551_600)),
            ("18446744073709551700", Some(u64::MAX)),
            ("1234567890123456789012345678901234567890", Some(u64::MAX)),
            ("999999999999999999", Some(999_999_999_999_999_999)),
            ("9007199254740993", Some(9_007_199_254_740_993)),
            ("12.0", Some(12)),
            ("12.5", Some(13)),
            ("12.000000000000000000000000000001", Some(13)),
            ("0.0", Some(0)),
            ("0.1", Some(1)),
            ("1e3", Some(1_000)),
            ("1.5E+3", Some(1_500)),
            ("15e-1", Some(2)),
            ("1e-400", Some(1)),
            ("0e400", Some(0)),
            ("1e400", Some(u64::MAX)),
            ("1e99999999999999999999", Some(u64::MAX)),
            ("1e-99999999999999999999", Some(1)),
            ("-0", None),
            ("-7", None),
            ("-7.5", None),
            (&format!("0.{zeros}1"), Some(1)),
            (&format!("0.{zeros}"), Some(0)),
            (&format!("1{zeros}e-100000"), Some(1)),
            (&format!("1{zeros}1e-100001"), Some(2)),
            (&format!("1{zeros}"), Some(u64::MAX)),
        ] {
            let read = number(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(read.times(1), expected, "{}", &text[..text.len().min(60)]);
        }
    }

    #[test]
    fn what_is_no_json_number_is_none() {
        for text in [
            "", "-", "+1", "01", "00", "1.", ".5", "1e", "1e+", "1e+-1", "1.e1", "0x7", "7a",
            "1_0", "- 1", "٧",
        ] {
            assert!(number(text).is_none(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_number_is_what_arithmetic_says(
            whole in prop_oneof![Just(0), 1..10_000_u64, any::<u64>()],
            fraction in prop_oneof![Just(String::new()), "[0-9]{1,22}"],
            exponent in prop_oneof![Just(0), -25..25_i32],
        ) {
            let mut text = whole.to_string();
            if !fraction.is_empty() {
                text += &format!(".{fraction}");
            }
            if exponent != 0 {
                text += &format!("e{exponent}");
            }
            // The digits as one whole number, and how many of its places are behind the point.
            let digits = format!("{whole}{fraction}");
            let behind = fraction.len() as i32 - exponent;
            let expected = match behind {
                ..=0 => format!("{digits}{}", "0".repeat(behind.unsigned_abs() as usize)),
                _ => {
                    let places = behind as usize;
                    let padded = format!("{}{digits}", "0".repeat(places));
                    let (front, rest) = padded.split_at(padded.len() - places);
                    let front = front.parse().unwrap_or(u128::MAX - 1);
                    (front + u128::from(rest.bytes().any(|byte| byte != b'0'))).to_string()
                }
            };
            let expected = expected.trim_start_matches('0').parse().unwrap_or_else(|_| {
                if expected.bytes().all(|byte| byte == b'0') { 0 } else { u64::MAX }
            });
            // Of more than 18 digits the last ones are not kept: such a cost is more than any limit can count.
            let read = number(&text).unwrap().times(1).unwrap();
            prop_assert_eq!(read.min(1 << 53), expected.min(1 << 53), "{}", text);
        }
    }
}
