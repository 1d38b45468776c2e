//! A pass of [`adit_chacha::interleaved`] in AVX2, with Poly1305 by BMI2's multiplications beside it.
//!
//! Assembly, as the compiler keeps the 16 words of the state in memory for want of registers, and does not alternate both
//! kinds of instructions: written with intrinsics, it is not faster than AWS-LC (docs/measure/PERFORMANCE-DIARY.md).
//!
//! | registers | hold |
//! |---|---|
//! | ymm0 to 3, 4 to 7, 12 to 15 | words 0 to 7 and 12 to 15 of the state: the rows a, b and d of quarter rounds |
//! | ymm8 to 10 | words 8 to 10 of the row c; word 11 is in memory |
//! | ymm11 | intermediate values |
//! | rdi | [`Work`] |
//! | rsi | the next blocks of Poly1305 |
//! | r8, r9, r10 | the accumulator |
//! | rax, rcx, rdx, r11 to r15 | products |
//! | r8 to r15 at the end | the texts |

use std::arch::asm;
use std::mem::offset_of;

use adit_chacha::interleaved::{DOUBLE_ROUNDS, Engine, Group, Texts, Work};
use adit_chacha::poly1305::Hash;

/// This processor has AVX2 and BMI2. A value is there only after it was asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Avx2(());

impl Avx2 {
    /// `None` if it lacks one of them.
    pub(super) fn detect() -> Option<Self> {
        (is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi2")).then_some(Avx2(()))
    }
}

/// Indices for `vpshufb`, aligned for a load of a whole vector. Assembly alone reads them.
#[repr(align(32))]
struct Indices(#[allow(dead_code)] [u8; 32]);

/// The indices to rotate each word by 16 bits, and by 8, to the left.
static ROTATE_16: Indices = rotate_bytes(2);
static ROTATE_8: Indices = rotate_bytes(1);

const fn rotate_bytes(count: u8) -> Indices {
    let mut indices = [0; 32];
    let mut at = 0;
    while at < 32 {
        let byte = at as u8 % 16;
        indices[at] = byte / 4 * 4 + (byte % 4 + 4 - count) % 4;
        at += 1;
    }
    Indices(indices)
}

/// One instruction for each group of registers: destination, first and second source.
macro_rules! each {
    ($op:literal: $($to:literal $x:literal $y:literal),*) => {
        concat!($($op, " ymm", $to, ", ymm", $x, ", ymm", $y, "\n"),*)
    };
}

/// The first or third step of four quarter rounds: a += b; d = (d ^ a) <<< 16, or 8.
macro_rules! rows_a_and_d {
    ($rotate:literal: $($a:literal $b:literal $d:literal),*) => {
        concat!(
            each!("vpaddd": $($a $a $b),*),
            each!("vpxor": $($d $d $a),*),
            $("vpshufb ymm", $d, ", ymm", $d, ", [rip + {", $rotate, "}]\n"),*
        )
    };
}

/// The second or fourth step: c += d; b = (b ^ c) <<< 12, or 7. Word 11 is c of the last quarter round.
macro_rules! rows_c_and_b {
    ($left:literal $right:literal: $($c:literal $d:literal $b:literal),*; $last_d:literal $last_b:literal) => {
        concat!(
            "vpaddd ymm11, ymm", $last_d, ", [rdi + {word_11}]\n",
            each!("vpaddd": $($c $c $d),*),
            "vmovdqa [rdi + {word_11}], ymm11\n",
            each!("vpxor": $last_b $last_b "11", $($b $b $c),*),
            rotate!($left $right: $last_b $($b)*)
        )
    };
}

/// Rotates each word by `$left` bits to the left. `$right` is 32 less that.
macro_rules! rotate {
    ($left:literal $right:literal: $($b:literal)*) => {
        concat!($(
            "vpslld ymm11, ymm", $b, ", ", $left, "\n",
            "vpsrld ymm", $b, ", ymm", $b, ", ", $right, "\n",
            "vpor ymm", $b, ", ymm", $b, ", ymm11\n"
        ),*)
    };
}

/// A round of columns and one of diagonals, with other instructions after each of their eight steps.
macro_rules! double_round {
    ($($other:expr),*) => {
        steps!([
            rows_a_and_d!("rotate_16": "0" "4" "12", "1" "5" "13", "2" "6" "14", "3" "7" "15"),
            rows_c_and_b!("12" "20": "8" "12" "4", "9" "13" "5", "10" "14" "6"; "15" "7"),
            rows_a_and_d!("rotate_8": "0" "4" "12", "1" "5" "13", "2" "6" "14", "3" "7" "15"),
            rows_c_and_b!("7" "25": "8" "12" "4", "9" "13" "5", "10" "14" "6"; "15" "7"),
            rows_a_and_d!("rotate_16": "2" "7" "13", "3" "4" "14", "0" "5" "15", "1" "6" "12"),
            rows_c_and_b!("12" "20": "8" "13" "7", "9" "14" "4", "10" "15" "5"; "12" "6"),
            rows_a_and_d!("rotate_8": "2" "7" "13", "3" "4" "14", "0" "5" "15", "1" "6" "12"),
            rows_c_and_b!("7" "25": "8" "13" "7", "9" "14" "4", "10" "15" "5"; "12" "6")
        ] [$($other),*])
    };
}

macro_rules! steps {
    ([$($step:expr),*] [$($other:expr),*]) => { concat!($($step, $other),*) };
}

/// The accumulator plus the block at `rsi` + `$at` plus 2^128; and its first two limbs times r's second one. With
/// `multiply_s` and `multiply_r` it does the steps of [`struct@Hash`] with a block, in the same order.
macro_rules! add_block {
    ($at:literal) => {
        concat!(
            "add r8, [rsi + ",
            $at,
            "]\n",
            "adc r9, [rsi + ",
            $at,
            " + 8]\n",
            "adc r10, 1\n",
            "mov rdx, [rdi + {r} + 8]\n",
            "mulx r12, r11, r8\n",
        )
    };
}

macro_rules! multiply_s {
    () => {
        "mov rdx, [rdi + {s}]
        mulx r14, r13, r9
        mov r15, r10
        imul r10, rdx
        add r11, r10
        adc r12, 0\n"
    };
}

macro_rules! multiply_r {
    () => {
        "mov rdx, [rdi + {r}]
        mulx rcx, r8, r8
        mulx rax, r9, r9
        imul r15, rdx\n"
    };
}

macro_rules! add_products {
    () => {
        "add r8, r13
        adc rcx, r14
        add r9, r11
        adc rax, r12
        add r9, rcx
        adc rax, r15\n"
    };
}

/// Adds the part above 2^130 five times: its multiple of 4, and a quarter of that.
macro_rules! reduce {
    () => {
        "mov r10, rax
        mov r11, rax
        and r10d, 3
        and r11, -4
        shr rax, 2
        add rax, r11
        add r8, rax
        adc r9, 0
        adc r10, 0\n"
    };
}

/// Loads words of the state, by their offsets.
macro_rules! load {
    ($($register:literal $at:literal),*) => {
        concat!($("vmovdqa ymm", $register, ", [rdi + {state} + ", $at, "]\n"),*)
    };
}

/// As `load`, for words that were just written in halves: a load waits for all of several stores to reach the cache.
macro_rules! load_halves {
    ($($register:literal $at:literal),*) => {
        concat!($(
            "vmovdqa xmm", $register, ", [rdi + {state} + ", $at, "]\n",
            "vinserti128 ymm", $register, ", ymm", $register, ", [rdi + {state} + ", $at, " + 16], 1\n"
        ),*)
    };
}

/// Adds words of the state at the end.
macro_rules! add_state {
    ($($register:literal $at:literal),*) => {
        concat!($("vpaddd ymm", $register, ", ymm", $register, ", [rdi + {state} + ", $at, "]\n"),*)
    };
}

/// Stores words 8 to 10 and 12 to 15 until words 0 to 7 are in the texts.
macro_rules! spill {
    ($($register:literal $at:literal),*) => {
        concat!($("vmovdqa [rdi + {spilled} + ", $at, "], ymm", $register, "\n"),*)
    };
}

macro_rules! reload {
    ($($register:literal $at:literal),*) => {
        concat!($("vmovdqa ymm", $register, ", [rdi + {spilled} + ", $at, "]\n"),*)
    };
}

/// From one word of 8 blocks a vector, in ymm0 to 7, to half a block a vector, added to the half of each text that begins at `$half`.
/// r8 to r15 point to the texts.
macro_rules! add_transposed_to {
    ($half:literal) => {
        concat!(
            each!("vpunpckldq": "8" "0" "1", "10" "2" "3", "12" "4" "5", "14" "6" "7"),
            each!("vpunpckhdq": "9" "0" "1", "11" "2" "3", "13" "4" "5", "15" "6" "7"),
            each!("vpunpcklqdq": "0" "8" "10", "2" "9" "11", "4" "12" "14", "6" "13" "15"),
            each!("vpunpckhqdq": "1" "8" "10", "3" "9" "11", "5" "12" "14", "7" "13" "15"),
            quarters!("0x20": "8" "0" "4", "9" "1" "5", "10" "2" "6", "11" "3" "7"),
            quarters!("0x31": "12" "0" "4", "13" "1" "5", "14" "2" "6", "15" "3" "7"),
            add_to_text!($half: "8", "9", "10", "11", "12", "13", "14", "15")
        )
    };
}

macro_rules! quarters {
    ($which:literal: $($to:literal $x:literal $y:literal),*) => {
        concat!($("vperm2i128 ymm", $to, ", ymm", $x, ", ymm", $y, ", ", $which, "\n"),*)
    };
}

/// The vector and the pointer have the same number.
macro_rules! add_to_text {
    ($half:literal: $($n:literal),*) => {
        concat!($(
            "vpxor ymm", $n, ", ymm", $n, ", [r", $n, " + ", $half, "]\n",
            "vmovdqu [r", $n, " + ", $half, "], ymm", $n, "\n"
        ),*)
    };
}

/// Loads pointers, one behind the other in memory.
macro_rules! load_pointers {
    ($($n:literal $at:literal),*) => {
        concat!($("mov r", $n, ", [rax + ", $at, "]\n"),*)
    };
}

impl Engine for Avx2 {
    // Not inlined: several copies take a tenth longer, as each has branches to predict and instructions to decode of its own.
    #[inline(never)]
    fn pass(&self, work: &mut Work, groups: &[Group], mut texts: Texts<'_>) {
        const SPILLED: usize = offset_of!(Work, spilled);
        const ROUNDS: usize = offset_of!(Work, rounds);
        const HASH: usize = offset_of!(Work, hash);
        let groups = &groups[..groups.len().min(DOUBLE_ROUNDS)];
        work.rounds = [groups.len() as u64, (DOUBLE_ROUNDS - groups.len()) as u64];
        // SAFETY: the processor has the instructions, AVX2 and BMI2, and the operating system keeps the vector registers: `self` is
        // made in `detect` alone, after both were asked.
        // Memory: it reads and writes fields of `work`, to which it has the only reference, at their offsets: words of 8 bytes, and
        // vectors of 32 bytes, 16 in `state` and 8 in `spilled`. These are aligned, as `Work` is, and only whole vectors come
        // before them; so are the two `Indices`. From `rsi` on it reads 48 bytes for each of `rounds[0]` groups, so exactly
        // `groups`. `texts` are the only references to 64 bytes each, whose reads and writes need no alignment. It pushes one
        // word and pops it.
        // Registers: all that it changes are named; direction flag and MXCSR stay as they are.
        unsafe {
            asm!(
                "push rax",
                load!("0" "0", "1" "32", "2" "64", "3" "96", "4" "128", "5" "160", "6" "192", "7" "224"),
                load!("11" "352", "8" "256", "9" "288", "10" "320"),
                load_halves!("12" "384", "13" "416", "14" "448", "15" "480"),
                "vmovdqa [rdi + {word_11}], ymm11",
                "mov r8, [rdi + {h}]",
                "mov r9, [rdi + {h} + 8]",
                "mov r10, [rdi + {h} + 16]",
                "cmp qword ptr [rdi + {rounds}], 0",
                "je 3f",
                ".p2align 5",
                "2:",
                double_round!(
                    concat!(add_block!("0"), multiply_s!()),
                    concat!(multiply_r!(), add_products!()),
                    concat!(reduce!(), add_block!("16")),
                    concat!(multiply_s!(), multiply_r!()),
                    concat!(add_products!(), reduce!()),
                    concat!(add_block!("32"), multiply_s!()),
                    concat!(multiply_r!(), add_products!()),
                    concat!(reduce!(), "add rsi, 48\n")
                ),
                "dec qword ptr [rdi + {rounds}]",
                "jne 2b",
                "mov [rdi + {h}], r8",
                "mov [rdi + {h} + 8], r9",
                "mov [rdi + {h} + 16], r10",
                "3:",
                "cmp qword ptr [rdi + {rounds} + 8], 0",
                "je 5f",
                ".p2align 5",
                "4:",
                double_round!("", "", "", "", "", "", "", ""),
                "dec qword ptr [rdi + {rounds} + 8]",
                "jne 4b",
                "5:",
                add_state!("0" "0", "1" "32", "2" "64", "3" "96", "4" "128", "5" "160", "6" "192", "7" "224"),
                add_state!("8" "256", "9" "288", "10" "320", "12" "384", "13" "416", "14" "448", "15" "480"),
                spill!("8" "0", "9" "32", "10" "64", "12" "128", "13" "160", "14" "192", "15" "224"),
                "pop rax",
                load_pointers!("8" "0", "9" "8", "10" "16", "11" "24", "12" "32", "13" "40", "14" "48", "15" "56"),
                add_transposed_to!("0"),
                reload!("0" "0", "1" "32", "2" "64", "3" "96", "4" "128", "5" "160", "6" "192", "7" "224"),
                add_state!("3" "352"),
                add_transposed_to!("32"),
                "vzeroupper",
                state = const offset_of!(Work, state),
                spilled = const SPILLED,
                word_11 = const SPILLED + 96,
                rounds = const ROUNDS,
                h = const HASH + offset_of!(Hash, h),
                r = const HASH + offset_of!(Hash, r),
                s = const HASH + offset_of!(Hash, s),
                rotate_16 = sym ROTATE_16,
                rotate_8 = sym ROTATE_8,
                in("rdi") work,
                inout("rsi") groups.as_ptr() => _,
                inout("rax") texts.as_mut_ptr() => _,
                out("rcx") _, out("rdx") _, out("r8") _, out("r9") _, out("r10") _, out("r11") _, out("r12") _,
                out("r13") _, out("r14") _, out("r15") _,
                out("ymm0") _, out("ymm1") _, out("ymm2") _, out("ymm3") _, out("ymm4") _, out("ymm5") _,
                out("ymm6") _, out("ymm7") _, out("ymm8") _, out("ymm9") _, out("ymm10") _, out("ymm11") _,
                out("ymm12") _, out("ymm13") _, out("ymm14") _, out("ymm15") _
            );
        }
    }
}
