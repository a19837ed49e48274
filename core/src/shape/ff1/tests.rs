use aes::{Aes128, Aes192};
use fpe::ff1::{FF1, FlexibleNumeralString, NumeralString};
use proptest::prelude::*;

use super::*;

/// The key of NIST's samples. The shorter keys are the beginning of it.
const SAMPLE_KEY: [u8; 32] = [
    0x2B, 0x7E, 0x15, 0x16, 0x28, 0xAE, 0xD2, 0xA6, 0xAB, 0xF7, 0x15, 0x88, 0x09, 0xCF, 0x4F, 0x3C,
    0xEF, 0x43, 0x59, 0xD8, 0xD5, 0x80, 0xAA, 0x4F, 0x7F, 0x03, 0x6D, 0x6F, 0x04, 0xFC, 0x6A, 0x94,
];
const SAMPLE_TWEAK: [u8; 10] = *b"9876543210";

/// The image of the ten digits 0123456789 of NIST's samples.
fn sample<C>(tweak: &[u8]) -> u64
where
    C: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16> + KeyInit,
{
    let cipher = C::new_from_slice(&SAMPLE_KEY[..C::key_size()]).unwrap();
    Ff1::new(cipher, 10, tweak).encrypt(123_456_789)
}

#[test]
fn the_samples_of_nist_with_radix_10_come_out() {
    assert_eq!(sample::<Aes128>(&[]), 2_433_477_484, "sample 1");
    assert_eq!(sample::<Aes128>(&SAMPLE_TWEAK), 6_124_200_773, "sample 2");
    assert_eq!(sample::<Aes192>(&[]), 2_830_668_132, "sample 4");
    assert_eq!(sample::<Aes192>(&SAMPLE_TWEAK), 2_496_655_549, "sample 5");
    assert_eq!(sample::<Aes256>(&[]), 6_657_667_009, "sample 7");
    assert_eq!(sample::<Aes256>(&SAMPLE_TWEAK), 1_001_623_463, "sample 8");
}

/// The same by the crate `fpe`.
fn by_fpe(key: &[u8; 32], tweak: &[u8], digits: u8, number: u64) -> u64 {
    let text = format!("{number:0digits$}", digits = usize::from(digits));
    let numerals: Vec<u16> = text.bytes().map(|digit| u16::from(digit - b'0')).collect();
    let ff1 = FF1::<Aes256>::new(key, 10).unwrap();
    let moved = ff1.encrypt(tweak, &FlexibleNumeralString::from(numerals)).unwrap();
    assert_eq!(moved.numeral_count(), usize::from(digits));
    Vec::from(moved).into_iter().fold(0, |number, digit| 10 * number + u64::from(digit))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn another_implementation_agrees(
        key: [u8; 32],
        tweak in prop::collection::vec(any::<u8>(), 0..40),
        digits in HIDDEN_DIGITS,
        number: u64,
    ) {
        let number = number % power_of_ten(digits);
        let ours = Ff1::new(Aes256::new(&Array::from(key)), digits, &tweak).encrypt(number);
        prop_assert_eq!(ours, by_fpe(&key, &tweak, digits, number));
    }

    #[test]
    fn ids_have_exactly_so_many_digits(key: [u8; 32], digits in HIDDEN_DIGITS, number: u64) {
        let ids = HiddenIds::new(digits, &key);
        let id = ids.id(1 + number % ids.count());
        prop_assert_eq!(id.to_string().len(), usize::from(digits));
    }
}

/// The key decides the image of each number: if a part of it were left out, one tag's ids would reveal another's.
#[test]
fn every_byte_of_the_key_matters() {
    let of = |key: &[u8; 32]| (1..=8).map(|number| HiddenIds::new(12, key).id(number)).collect();
    let plain: Vec<u64> = of(&SAMPLE_KEY);
    for at in 0..32 {
        let mut key = SAMPLE_KEY;
        key[at] ^= 1;
        let other: Vec<u64> = of(&key);
        assert!(plain.iter().zip(&other).all(|(one, other)| one != other), "byte {at}");
    }
}

/// How far `counts` are from all being alike: chi-square, with one degree of freedom less than there are counts.
fn chi_square(counts: &[u64]) -> f64 {
    let expected = counts.iter().sum::<u64>() as f64 / counts.len() as f64;
    counts.iter().map(|&count| (count as f64 - expected).powi(2) / expected).sum()
}

/// How many ids the next test looks at. The default is small, so that even a debug build, where a block of AES takes
/// microseconds, finishes in a second; the environment may set more. `scripts/hidden-ids` sets ten million, and with
/// that many, all ids of six digits are looked at, too.
fn looked_at() -> u64 {
    // A variable of this test alone.
    #[expect(clippy::disallowed_methods)]
    let asked = std::env::var("MINTLEAF_HIDDEN_IDS").ok();
    asked.map_or(50_000, |count| count.parse().expect("MINTLEAF_HIDDEN_IDS is a number"))
}

#[test]
fn ids_are_distinct_and_neither_first_digits_nor_steps_show_anything() {
    let ids = HiddenIds::new(12, &SAMPLE_KEY);
    let began = std::time::Instant::now();
    let mut seen: Vec<u64> = (1..=looked_at()).map(|number| ids.id(number)).collect();
    println!("{:.0} ids a second", seen.len() as f64 / began.elapsed().as_secs_f64());

    let mut first_digits = [0; 9];
    seen.iter().for_each(|id| first_digits[(id / 100_000_000_000 - 1) as usize] += 1);
    // 8 degrees of freedom: above 31.8 in one run of ten thousand; the key is fixed, so this is one run.
    assert!(chi_square(&first_digits) < 31.8, "first digits: {first_digits:?}");

    // The difference of neighbours, around the circle of all ids, is any with the same chance.
    let mut differences = [0; 100];
    for pair in seen.windows(2) {
        let difference = (pair[1] + ids.count() - pair[0]) % ids.count();
        differences[(difference / (ids.count() / 100)) as usize] += 1;
    }
    // 99 degrees of freedom: above 161.3 in one run of ten thousand.
    assert!(chi_square(&differences) < 161.3, "differences: {differences:?}");

    let mut last_digits = [0; 100];
    seen.iter().for_each(|id| last_digits[(id % 100) as usize] += 1);
    assert!(chi_square(&last_digits) < 161.3, "last digits: {last_digits:?}");

    if looked_at() > 900_000 {
        let ids = HiddenIds::new(6, &SAMPLE_KEY);
        let all: std::collections::BTreeSet<u64> =
            (1..=900_000).map(|number| ids.id(number)).collect();
        assert_eq!((all.len(), all.first(), all.last()), (900_000, Some(&100_000), Some(&999_999)));
    }
    seen.sort_unstable();
    assert!(seen.windows(2).all(|pair| pair[0] < pair[1]), "an id came twice");
}

#[test]
fn nothing_of_the_key_is_printed() {
    let printed = format!("{:?}", HiddenIds::new(12, &SAMPLE_KEY));
    assert_eq!(printed, "HiddenIds { first: 100000000000, .. }");
}

/// A permutation over numbers below a product of two moduli, of any size, with a made-up template.
fn small(moduli: [u64; 2], seed: u8) -> Ff1<Aes256> {
    let cipher = Aes256::new(&Array::from([seed; 32]));
    Ff1 { cipher, moduli, half_bytes: 1, template: [seed; BLOCK_BYTES] }
}

/// Every number below the product of the moduli has an image there, and no two have the same.
fn is_permutation(ff1: &Ff1<Aes256>) -> bool {
    let [first, second] = ff1.moduli;
    let mut seen = vec![false; (first * second) as usize];
    (0..first * second).all(|number| {
        seen.get_mut(ff1.encrypt(number) as usize)
            .is_some_and(|seen| !std::mem::replace(seen, true))
    })
}

/// **Bound:** every input for every pair of halves of 1 to 16 numbers under two keys (37,000 inputs), so for every radix and
/// length whose halves are that small; and every input of two to four decimal digits.
#[test]
fn ff1_is_a_permutation_of_every_small_domain() {
    for seed in [0x17, 0xb3] {
        for first in 1..=16 {
            for second in 1..=16 {
                assert!(is_permutation(&small([first, second], seed)), "{first} x {second}");
            }
        }
        for digits in 2..=4_u8 {
            let moduli = [digits / 2, digits - digits / 2].map(power_of_ten);
            assert!(is_permutation(&small(moduli, seed)), "{digits} digits");
        }
    }
}
