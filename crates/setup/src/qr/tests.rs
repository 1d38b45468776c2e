use super::*;

/// A text like a client's file, which has two keys and a preshared key.
fn text(length: usize) -> String {
    "PrivateKey = dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqwXf7pR25LCo=\n".chars().cycle().take(length).collect()
}

/// The text that a reader finds in an image of grey pixels, from 0 (black) to 255.
fn read(side: usize, pixels: &[u8]) -> String {
    assert_eq!(pixels.len(), side * side);
    let mut reader = quircs::Quirc::default();
    let found: Vec<_> = reader.identify(side, side, pixels).collect();
    let [Ok(code)] = found.as_slice() else { panic!("{} codes were found", found.len()) };
    String::from_utf8(code.decode().unwrap().payload).unwrap()
}

/// A square of modules as pixels.
fn enlarged(rows: &[Vec<bool>]) -> (usize, Vec<u8>) {
    let side = rows.len() * SCALE;
    let dark = |at: usize| rows[at / side / SCALE][at % side / SCALE];
    (side, (0..side * side).map(|at| if dark(at) { 0 } else { 255 }).collect())
}

/// The rows of modules in a code that was drawn for a terminal, `true` where something was drawn.
fn drawn(text: &str) -> Vec<Vec<bool>> {
    let halves = |row: &str, upper: bool| -> Vec<bool> {
        row.chars().map(|c| c == '█' || c == if upper { '▀' } else { '▄' }).collect()
    };
    text.lines().flat_map(|line| [halves(line, true), halves(line, false)]).collect()
}

#[test]
fn terminals_show_what_a_camera_reads() {
    for length in [1, 330, 500, 2_000] {
        let text = text(length);
        let code = Code::new(&text).unwrap();
        let painted = code.terminal(true);
        let plain: String = painted.replace(PAINT, "").replace(UNPAINT, "");
        assert!(painted.lines().all(|line| line.starts_with(PAINT) && line.ends_with(UNPAINT)));
        let mut rows = drawn(&plain);
        // A code has an odd number of rows: the last line's lower half is ground.
        rows.truncate(rows[0].len());
        let (side, pixels) = enlarged(&rows);
        assert_eq!(read(side, &pixels), text);

        // Without colours the drawn modules are the light ones.
        let mut rows = drawn(&code.terminal(false));
        rows.truncate(rows[0].len());
        rows.iter_mut().flatten().for_each(|module| *module = !*module);
        let (side, pixels) = enlarged(&rows);
        assert_eq!(read(side, &pixels), text);
    }
}

#[test]
fn a_client_fits_a_terminal_of_80_columns() {
    let painted = Code::new(&text(400)).unwrap().terminal(false);
    assert!(painted.lines().all(|line| line.chars().count() <= 80), "{}", *painted);
}

#[test]
fn the_png_is_read_back() {
    for length in [330, 2_000] {
        let text = text(length);
        let png = Code::new(&text).unwrap().png();
        let number =
            |at: usize| usize::try_from(u32::from_be_bytes(png[at..at + 4].try_into().unwrap())).unwrap();
        let side = number(16);
        assert_eq!((&png[..8], side % 8, number(20)), (&b"\x89PNG\r\n\x1a\n"[..], 0, side));
        // Behind the header stands the data, stored in blocks.
        let (mut rest, mut rows) = (&png[33 + 8 + 2..], Vec::new());
        loop {
            let length = usize::from(u16::from_le_bytes([rest[1], rest[2]]));
            rows.extend_from_slice(&rest[5..5 + length]);
            if rest[0] == 1 {
                break;
            }
            rest = &rest[5 + length..];
        }
        let bits =
            |byte: &u8| (0..8).map(|bit| if byte << bit & 0x80 == 0 { 0 } else { 255 }).collect::<Vec<u8>>();
        let pixels: Vec<u8> =
            rows.chunks(side / 8 + 1).flat_map(|row| row[1..].iter().flat_map(bits)).collect();
        assert_eq!(read(side, &pixels), text);
    }
}

#[test]
fn the_svg_is_read_back() {
    let text = text(330);
    let svg = Code::new(&text).unwrap().svg();
    let (_, size) = svg.split_once("width=\"").unwrap();
    let side: usize = size.split_once('"').unwrap().0.parse().unwrap();
    let mut pixels = vec![255; side * side];
    let (_, path) = svg.rsplit_once(" d=\"M").unwrap();
    for square in path.split_once('"').unwrap().0.split('M') {
        let numbers: Vec<usize> = square
            .split(|c: char| !c.is_ascii_digit())
            .filter(|word| !word.is_empty())
            .map(|word| word.parse().unwrap())
            .collect();
        let [left, top, width, height, ..] = numbers.as_slice() else { panic!("{square}") };
        for row in *top..top + height {
            pixels[row * side + left..][..*width].fill(0);
        }
    }
    assert_eq!(read(side, &pixels), text);
}

#[test]
fn what_does_not_fit_is_refused() {
    assert!(Code::new(&text(2_953)).is_ok());
    assert!(matches!(Code::new(&text(3_000)), Err(SetupError::QrCode(_))));
}
