//! Rounding to four decimals, as records and rankings use it.

/// From here on neighbouring doubles are further apart than four decimals can tell.
const COARSE_FROM: f64 = (1_u64 << 39) as f64;
/// Below this the product with 10,000 is off by less than [`CLEAR_OF_TIE`].
const FAST_BELOW: f64 = 400_000.0;
/// A fraction further than this from one half is on the side of it that it seems to be on.
const CLEAR_OF_TIE: f64 = 1e-6;
/// Doubles from here on have no fraction: adding it rounds, subtracting it leaves what was rounded.
const NO_FRACTION: f64 = (1_u64 << 52) as f64;

/// `value` rounded to 4 decimals, ties of its exact decimal value to even: what
/// `format!("{value:.4}")` shows, as a number. NaN and infinities stay.
#[must_use]
#[inline]
pub fn round4(value: f64) -> f64 {
    let magnitude = value.abs();
    let scaled = magnitude * 10_000.0;
    let whole = (scaled + NO_FRACTION) - NO_FRACTION;
    if magnitude < FAST_BELOW && (scaled - whole).abs() < 0.5 - CLEAR_OF_TIE {
        // Both are whole and below 2^53, so the quotient is the double nearest to the decimal.
        (whole / 10_000.0).copysign(value)
    } else {
        exactly(value)
    }
}

/// The same in exact arithmetic, for the few values that are close to a tie, or large.
#[cold]
fn exactly(value: f64) -> f64 {
    let magnitude = value.abs();
    if magnitude.is_nan() || magnitude >= COARSE_FROM {
        return value;
    }
    // magnitude = mantissa / 2^shift exactly, so the product below is exact too.
    let bits = magnitude.to_bits();
    let exponent = bits >> 52;
    let fraction = bits & ((1 << 52) - 1);
    let (mantissa, shift) = if exponent == 0 { (fraction, 1074) } else { (fraction | 1 << 52, 1075 - exponent) };
    // Below 2^-15 a value is less than half of 0.0001; that also bounds the shift.
    if shift > 68 {
        return 0.0_f64.copysign(value);
    }
    let scaled = u128::from(mantissa) * 10_000;
    let (whole, rest) = ((scaled >> shift) as u64, scaled & ((1 << shift) - 1));
    let half = 1_u128 << (shift - 1);
    let up = rest > half || (rest == half && whole & 1 == 1);
    ((whole + u64::from(up)) as f64 / 10_000.0).copysign(value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn by_text(value: f64) -> f64 {
        format!("{value:.4}").parse().unwrap()
    }

    #[test]
    fn exact_ties_go_to_even_and_near_ties_to_the_nearer() {
        assert_eq!(round4(0.03125), 0.0312);
        assert_eq!(round4(0.09375), 0.0938);
        assert_eq!(round4(0.00005), by_text(0.00005));
        assert_eq!(round4(2.67495), by_text(2.67495));
        assert_eq!(round4(-0.03125), -0.0312);
        for value in [0.0, -0.0, 5e-324, 3.0e-5, 3.1e-5, 4.9e-5, 5e-5, 1e11, 5.4e11, 1e300, f64::INFINITY] {
            assert_eq!(round4(value).to_bits(), by_text(value).to_bits(), "{value}");
        }
        assert!(round4(f64::NAN).is_nan());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn any_double_rounds_as_its_text_does(value in any::<f64>()) {
            prop_assert_eq!(round4(value).to_bits(), by_text(value).to_bits());
            prop_assert_eq!(exactly(value).to_bits(), by_text(value).to_bits());
        }

        #[test]
        fn scores_and_numbers_close_to_a_tie_round_as_their_text_does(
            steps in 0u32..2_000_000, nudge in -3i64..=3, score in 0.0..=1.0f64, large in 0.0..1e13f64
        ) {
            let near = f64::from(steps) / 20_000.0;
            let near = f64::from_bits(near.to_bits().saturating_add_signed(nudge));
            for value in [near, score, large, f64::from(steps) / 32.0, f64::from(steps) / 1_048_576.0] {
                prop_assert_eq!(round4(value).to_bits(), by_text(value).to_bits(), "{}", value);
                prop_assert_eq!(exactly(value).to_bits(), by_text(value).to_bits(), "{}", value);
            }
        }
    }
}
