//! QR codes of clients' files, for the cameras of telephones: in the terminal, as SVG and as PNG.
//!
//! The code holds the client's private key. The texts and images that this module returns are wiped after use; the
//! memory that the crate `qrcode` keeps meanwhile is not, so a process makes one code and ends.

mod png;

use qrcode::render::{svg, unicode};
use qrcode::{Color, EcLevel, QrCode};
use zeroize::Zeroizing;

use crate::SetupError;

/// Modules of the empty border on each side (ISO/IEC 18004 §5.3.8).
const QUIET_ZONE: usize = 4;
/// Pixels of a module's side in images. Eight modules of a row then fill whole bytes.
const SCALE: usize = 8;
/// Black on white, by numbers of the palette that themes do not change (xterm's 256 colours).
const PAINT: &str = "\x1b[38;5;16;48;5;231m";
/// The terminal's own colours again.
const UNPAINT: &str = "\x1b[0m";

/// A QR code.
pub struct Code(QrCode);

impl Code {
    /// The code of a text, as small as may be: on paper and screens little is damaged.
    ///
    /// # Errors
    /// The text is too long: 2,953 bytes are the most.
    pub fn new(text: &str) -> Result<Self, SetupError> {
        let code = QrCode::with_error_correction_level(text, EcLevel::L);
        code.map(Code).map_err(|error| SetupError::QrCode(error.to_string()))
    }

    /// Two modules for each character. In colours it is black on white, whatever those of the terminal are; without, the
    /// light modules are drawn, for light text on a dark ground.
    pub fn terminal(&self, colours: bool) -> Zeroizing<String> {
        use unicode::Dense1x2::{Dark, Light};
        let mut renderer = self.0.render::<unicode::Dense1x2>();
        if colours {
            let drawn = Zeroizing::new(renderer.build());
            let lines = drawn.lines().map(|line| Zeroizing::new(format!("{PAINT}{line}{UNPAINT}\n")));
            return lines.fold(Zeroizing::new(String::new()), |mut text, line| {
                text.push_str(&line);
                text
            });
        }
        let mut text = Zeroizing::new(renderer.dark_color(Light).light_color(Dark).build());
        text.push('\n');
        text
    }

    /// As an SVG image.
    pub fn svg(&self) -> Zeroizing<String> {
        let side = SCALE as u32;
        Zeroizing::new(self.0.render::<svg::Color<'_>>().module_dimensions(side, side).build())
    }

    /// As a PNG image.
    pub fn png(&self) -> Zeroizing<Vec<u8>> {
        let side = self.0.width() + 2 * QUIET_ZONE;
        png::encode(side * SCALE, |x, y| self.is_dark(x / SCALE, y / SCALE))
    }

    /// Whether a module is dark, counted with the quiet zone.
    fn is_dark(&self, x: usize, y: usize) -> bool {
        let inside = |at: usize| at.checked_sub(QUIET_ZONE).filter(|at| *at < self.0.width());
        match (inside(x), inside(y)) {
            (Some(x), Some(y)) => self.0[(x, y)] == Color::Dark,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests;
