//! The outputs of liblzo 2.10 (`lzo1x_1_15_compress`) and liblz4 1.9.4 (`LZ4_compress_default`), the functions that
//! OpenVPN 2.6 compresses with, for some texts.

pub(crate) struct Vector {
    pub(crate) plain: Vec<u8>,
    pub(crate) lzo: Vec<u8>,
    pub(crate) lz4: Vec<u8>,
}

impl Vector {
    fn new(plain: Vec<u8>, lzo: &str, lz4: &str) -> Self {
        Vector { plain, lzo: bytes_of(lzo), lz4: bytes_of(lz4) }
    }
}

fn bytes_of(digits: &str) -> Vec<u8> {
    let pairs = digits.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).expect("ASCII"));
    pairs.map(|pair| u8::from_str_radix(pair, 16).expect("hexadecimal digits")).collect()
}

/// Lines that are much alike.
fn lines() -> Vec<u8> {
    let pages = (0..).map(|page| format!("GET /page/{page} HTTP/1.1\r\nHost: example.com\r\n"));
    pages.flat_map(String::into_bytes).take(600).collect()
}

/// Few letters in no order, so that there are short matches and runs of literals of all lengths.
fn letters() -> Vec<u8> {
    let mut state = 1u32;
    let mut letter = || {
        state = state.wrapping_mul(1_103_515_245).wrapping_add(12_345);
        b"abcd"[(state >> 16 & 3) as usize]
    };
    (0..160).map(|_| letter()).collect()
}

pub(crate) fn all() -> [Vector; 3] {
    [
        Vector::new(
            lines(),
            "001c474554202f706167652f3020485454502f312e310d0a486f73743a206578616d706c652e636f6d0d0a474554202f8105\
                 312007a100322007a100332007a100342007a100352007a100362007a100372007a100382007a100392007a1003120096806\
                 20086d06312008710631200374060e706167652f313420485454502f312e310d110000",
            "f61a474554202f706167652f3020485454502f312e310d0a486f73743a206578616d706c652e636f6d0d0a29001f31290015\
                 1f322900151f332900151f342900151f352900151f362900151f372900151f382900151f392900151f319b01170f9c01161f\
                 319d01161f319e0116c0313420485454502f312e310d",
        ),
        Vector::new(
            vec![0; 1400],
            "0200000000002000000000004810000c000000000000000000000000000000110000",
            "1f000100ffffffffff64500000000000",
        ),
        Vector::new(
            letters(),
            "000e63636264646463646163626461616264626462636363646464636462636161626c0101636262616c0307646362646363\
                 626161646a04626274040163646162640601636163636501649c0307646261626162626164627c0301636463628c0090010b\
                 626361636162616363626263646474007f0c616164740f0e6263646162646264646462626162626262110000",
            "f1076363626464646364616362646161626462646263636313005062636161620c0040636262611c00a06463626463636261\
                 61642300116239004063646162320040636163630a0011642000a064626162616262616462200031636463190011630d00b2\
                 62636163616261636362625c0010636800306161647e00013000c0646264646462626162626262",
        ),
    ]
}

/// As `comp-lzo` and `compress lzo` frame it (OpenVPN lzo.c).
pub(crate) fn framed_lzo(compressed: &[u8]) -> Vec<u8> {
    [&b"\x66"[..], compressed].concat()
}

/// As `compress lz4` frames it (OpenVPN comp-lz4.c): the first byte goes to the end.
pub(crate) fn framed_lz4(compressed: &[u8]) -> Vec<u8> {
    let (first, rest) = compressed.split_first().expect("not empty");
    [&b"\x69"[..], rest, &[*first]].concat()
}

/// As `compress lz4-v2` frames it.
pub(crate) fn framed_lz4_v2(compressed: &[u8]) -> Vec<u8> {
    [&b"\x50\x01"[..], compressed].concat()
}
