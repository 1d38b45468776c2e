//! The tables of keys: the single definition that the reader and the documentation share. A key is used, or it is accepted without
//! effect, or it is refused, each with what to write instead.

mod authentication;
mod child;
mod connection;
mod document;
mod others;
mod suggest;

pub use self::document::documentation;
pub(crate) use self::others::{attribute, attribute_number};
pub(crate) use self::suggest::nearest;

pub(crate) use self::authentication::{CERTIFICATE, LOCAL, REMOTE};
pub(crate) use self::child::CHILD;
pub(crate) use self::connection::CONNECTION;
pub(crate) use self::others::{AUTHORITY, PASSWORD, POOL, SHARED, UNUSED_SECRET};

use adit_core::configuration::Kind;

use crate::documents::Folder;
use crate::model::Place;

/// A key's value, and what a handler may look at beside it.
pub(crate) struct Value<'a> {
    pub(crate) text: &'a str,
    pub(crate) place: &'a Place,
    pub(crate) folder: &'a Folder<'a>,
}

/// Puts a value into its section. An error says what would be right.
pub(crate) type Handler<T> = fn(&mut T, &Value<'_>) -> Result<(), String>;

/// The use of a key.
pub(crate) enum Use<T: 'static> {
    /// adit does what it says.
    Used(Handler<T>),
    /// The value is checked and has no effect: why that is safe.
    Unused(fn(&str) -> Result<(), String>, &'static str),
    /// A value of which the function is true changes nothing. All others are refused: what to write instead.
    Only(fn(&str) -> Result<bool, String>, &'static str),
    /// It is refused: what to write instead.
    Refused(&'static str),
}

/// A key of a kind of section.
pub(crate) struct Row<T: 'static> {
    /// Its name. One that ends with `…` stands for all that begin so.
    pub(crate) name: &'static str,
    /// The form of its values.
    pub(crate) form: &'static str,
    pub(crate) with: Use<T>,
}

impl<T> Row<T> {
    /// Whether it is for a key of that name.
    pub(crate) fn is_for(&self, key: &str) -> bool {
        match self.name.strip_suffix('…') {
            Some(start) => key.get(..start.len()).is_some_and(|found| found.eq_ignore_ascii_case(start)),
            None => self.name.eq_ignore_ascii_case(key),
        }
    }
}

const fn used<T>(name: &'static str, form: &'static str, handler: Handler<T>) -> Row<T> {
    Row { name, form, with: Use::Used(handler) }
}

const fn unused<T>(
    name: &'static str,
    form: &'static str,
    check: fn(&str) -> Result<(), String>,
    why: &'static str,
) -> Row<T> {
    Row { name, form, with: Use::Unused(check, why) }
}

const fn only<T>(
    name: &'static str,
    form: &'static str,
    holds: fn(&str) -> Result<bool, String>,
    instead: &'static str,
) -> Row<T> {
    Row { name, form, with: Use::Only(holds, instead) }
}

const fn refused<T>(name: &'static str, instead: &'static str) -> Row<T> {
    Row { name, form: "", with: Use::Refused(instead) }
}

/// A key of some section, without what reads it.
pub(crate) struct Known {
    /// The section, as the documentation names it.
    pub(crate) section: &'static str,
    pub(crate) name: &'static str,
    pub(crate) form: &'static str,
    pub(crate) kind: Kind,
    /// Without effect: why that is safe. Refused, or used with some values alone: what to write instead.
    pub(crate) reason: &'static str,
}

/// All keys, section by section.
pub(crate) fn all() -> Vec<Known> {
    let mut all = Vec::new();
    add("connections.<name>", CONNECTION, &mut all);
    add("local<suffix>", LOCAL, &mut all);
    add("remote<suffix>", REMOTE, &mut all);
    add("cert<suffix>, cacert<suffix>", CERTIFICATE, &mut all);
    add("children.<name>", CHILD, &mut all);
    add("secrets.ike<suffix>, ppk<suffix>, eap<suffix>", SHARED, &mut all);
    add("secrets.private<suffix>, rsa, ecdsa, pkcs8, pkcs12", PASSWORD, &mut all);
    add("secrets.xauth<suffix>, ntlm", UNUSED_SECRET, &mut all);
    add("pools.<name>", POOL, &mut all);
    add("authorities.<name>", AUTHORITY, &mut all);
    all
}

fn add<T>(section: &'static str, table: &'static [Row<T>], all: &mut Vec<Known>) {
    all.extend(table.iter().map(|row| {
        let (kind, reason) = match row.with {
            Use::Used(_) => (Kind::Used, ""),
            Use::Unused(_, reason) => (Kind::Ignored, reason),
            Use::Only(_, reason) => (Kind::Used, reason),
            Use::Refused(reason) => (Kind::Refused, reason),
        };
        Known { section, name: row.name, form: row.form, kind, reason }
    }));
}

/// Any value: a check of none.
fn anything(_: &str) -> Result<(), String> {
    Ok(())
}

/// Whether a boolean is `no`.
fn is_no(text: &str) -> Result<bool, String> {
    crate::values::boolean(text).map(|value| !value)
}

/// Whether a number is 0.
fn is_zero(text: &str) -> Result<bool, String> {
    Ok(text == "0")
}

/// Sets a field to a value that was read.
fn set<T>(field: &mut T, value: Result<T, String>) -> Result<(), String> {
    *field = value?;
    Ok(())
}

/// Sets a field to the parts of a list, in place of those that it had.
fn set_list<T>(
    field: &mut Vec<T>,
    text: &str,
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<(), String> {
    *field = crate::values::list(text).map(read).collect::<Result<_, _>>()?;
    Ok(())
}
