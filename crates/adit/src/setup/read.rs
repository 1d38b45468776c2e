//! What configurations that were written before hold.

/// The serial number, in hexadecimal, of the first certificate in a configuration. `None` if it holds none.
pub(super) fn serial_in(configuration: &str) -> Option<String> {
    adit_pki::inspect::serial(block(configuration, "cert")?)
}

/// What a configuration has inline for a directive.
pub(super) fn block<'a>(configuration: &'a str, directive: &str) -> Option<&'a str> {
    let (_, rest) = configuration.split_once(&format!("<{directive}>\n"))?;
    Some(rest.split_once(&format!("</{directive}>"))?.0)
}
