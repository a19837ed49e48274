//! Numbers in an order that cannot be guessed without the key: FF1 of NIST SP 800-38G, with radix 10.
//!
//! Pure. FF1 is a Feistel network of ten rounds over the two halves of a string of decimal digits; its round
//! function is AES. Strings of digits are numbers here, padded with zeros on the left as far as the digits go. Up to 18
//! digits each half fits 32 bits and its round takes one block of AES, so an id costs some eleven times ten blocks
//! and nothing on the heap. Fewer than six digits would make a permutation that is not safe: SP 800-38G Rev. 1
//! asks for a million numbers.

use aes::Aes256;
use aes::cipher::consts::U16;
use aes::cipher::{Array, BlockCipherEncrypt, BlockSizeUser, KeyInit};

use crate::limits::HIDDEN_DIGITS;

const ROUNDS: u8 = 10;
const BLOCK_BYTES: usize = 16;

type Block = Array<u8, U16>;

/// The permutation of the numbers of up to `digits` decimal digits under one key and tweak.
struct Ff1<C> {
    cipher: C,
    /// 10 to the power of the digits of the first half, and of the second.
    moduli: [u64; 2],
    /// Bytes of a half in a block, at its end.
    half_bytes: usize,
    /// The input block of a round, without the round and the half: the chained blocks of all that comes before are in
    /// it.
    template: [u8; BLOCK_BYTES],
}

impl<C: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16>> Ff1<C> {
    /// The permutation of numbers of `digits` digits, within [`HIDDEN_DIGITS`].
    fn new(cipher: C, digits: u8, tweak: &[u8]) -> Self {
        assert!(HIDDEN_DIGITS.contains(&digits), "FF1 over {digits} digits");
        let first_digits = digits / 2;
        let second_digits = digits - first_digits;
        // Bytes of the largest second half.
        let bits = u64::BITS - (power_of_ten(second_digits) - 1).leading_zeros();
        let half_bytes = bits.div_ceil(8) as usize;

        let mut head: [u8; BLOCK_BYTES] =
            [1, 2, 1, 0, 0, 10, ROUNDS, first_digits, 0, 0, 0, digits, 0, 0, 0, 0];
        let tweak_bytes = u32::try_from(tweak.len()).expect("a tweak is short");
        head[12..].copy_from_slice(&tweak_bytes.to_be_bytes());

        let mut message = [&head[..], tweak].concat();
        let unpadded = message.len() + 1 + half_bytes;
        message.resize(unpadded.next_multiple_of(BLOCK_BYTES), 0);
        let mut chained = [0; BLOCK_BYTES];
        let (before, last) =
            message.split_last_chunk::<BLOCK_BYTES>().expect("the head is a block");
        for block in before.chunks_exact(BLOCK_BYTES) {
            exclusive_or(&mut chained, block);
            chained = encrypted(&cipher, chained);
        }
        exclusive_or(&mut chained, last);
        let moduli = [first_digits, second_digits].map(power_of_ten);
        Self { cipher, moduli, half_bytes, template: chained }
    }

    /// The image of a number, which is below 10 to the power of the digits.
    fn encrypt(&self, number: u64) -> u64 {
        let [first_modulus, second_modulus] = self.moduli;
        let (mut first, mut second) = (number / second_modulus, number % second_modulus);
        for round in (0..ROUNDS).step_by(2) {
            first = self.turned(round, first, second, first_modulus);
            second = self.turned(round + 1, second, first, second_modulus);
        }
        first * second_modulus + second
    }

    /// One half, moved by what the round computes from the other.
    #[inline]
    fn turned(&self, round: u8, half: u64, other: u64, modulus: u64) -> u64 {
        let mut block = self.template;
        block[BLOCK_BYTES - 1 - self.half_bytes] ^= round;
        // The half, at the end of the block: it has no more than `half_bytes` bytes.
        let tail = block.last_chunk_mut::<8>().expect("a block is longer");
        *tail = (u64::from_be_bytes(*tail) ^ other).to_be_bytes();
        let block = encrypted(&self.cipher, block);
        // Halves of up to four bytes want the first eight bytes of the block.
        let moved = block.first_chunk::<8>().expect("a block is longer");
        (half + u64::from_be_bytes(*moved) % modulus) % modulus
    }
}

fn power_of_ten(digits: u8) -> u64 {
    10_u64.pow(digits.into())
}

#[inline]
fn exclusive_or(block: &mut [u8; BLOCK_BYTES], with: &[u8]) {
    block.iter_mut().zip(with).for_each(|(byte, with)| *byte ^= with);
}

#[inline]
fn encrypted<C: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16>>(
    cipher: &C,
    block: [u8; BLOCK_BYTES],
) -> [u8; BLOCK_BYTES] {
    let mut block = Block::from(block);
    cipher.encrypt_block(&mut block);
    block.into()
}

/// The ids of a hidden tag: numbers of exactly `digits` digits, each once.
pub struct HiddenIds {
    permutation: Ff1<Aes256>,
    /// The lowest number with this many digits.
    first: u64,
}

impl HiddenIds {
    /// The ids of `digits` digits, within [`HIDDEN_DIGITS`], under this key.
    pub fn new(digits: u8, key: &[u8; 32]) -> Self {
        let cipher = Aes256::new(&Array::from(*key));
        Self { permutation: Ff1::new(cipher, digits, &[]), first: power_of_ten(digits - 1) }
    }

    /// How many ids there are: 9 times 10 to the power of one less than the digits.
    pub fn count(&self) -> u64 {
        9 * self.first
    }

    /// The id of a number, 1 to [`count`](Self::count). Different numbers have different ids.
    ///
    /// The permutation also covers numbers with fewer digits. From a number without a leading zero, its steps lead
    /// through others to one without, at the latest to the number that they began at; the first such number is the id
    /// (cycle walking). One id in nine takes more than one step.
    ///
    /// # Panics
    /// If there is no such id.
    #[inline]
    pub fn id(&self, number: u64) -> u64 {
        assert!((1..=self.count()).contains(&number), "no hidden id has the number {number}");
        let mut id = self.permutation.encrypt(self.first + (number - 1));
        while id < self.first {
            id = self.permutation.encrypt(id);
        }
        id
    }
}

/// Prints nothing of the key.
impl std::fmt::Debug for HiddenIds {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("HiddenIds").field("first", &self.first).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
