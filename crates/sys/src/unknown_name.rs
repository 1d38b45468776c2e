//! The resolver's errors.

use std::ffi::CStr;

/// The resolver's words for "there is no such name" (`EAI_NONAME`).
pub fn unknown_name_text() -> String {
    // SAFETY: `gai_strerror` gives a pointer to a constant, NUL-terminated text for any number.
    let text = unsafe { CStr::from_ptr(libc::gai_strerror(libc::EAI_NONAME)) };
    text.to_string_lossy().into_owned()
}
