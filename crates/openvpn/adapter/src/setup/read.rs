//! Parts of configurations that were written before.

/// The text that a configuration has inline for a directive.
pub(super) fn block<'a>(configuration: &'a str, directive: &str) -> Option<&'a str> {
    let (_, rest) = configuration.split_once(&format!("<{directive}>\n"))?;
    Some(rest.split_once(&format!("</{directive}>"))?.0)
}
