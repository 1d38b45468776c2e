//! The kernel's nftables by netlink (linux/netfilter/nf_tables.h): tables are made, replaced, removed and listed without the
//! program `nft`.
//!
//! A [`Transaction`] is put in force as a whole or not at all, so that there is no moment with half of a table.

mod attributes;
mod connection;
mod rule;
mod transaction;

pub use self::connection::tables;
pub use self::rule::{Action, Match};
pub use self::transaction::Transaction;

/// The packets that a table sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Both versions of IP (`NFPROTO_INET`).
    Inet,
    /// IPv4.
    Ip,
    /// IPv6.
    Ip6,
}

impl Family {
    const ALL: [Family; 3] = [Family::Inet, Family::Ip, Family::Ip6];

    /// The number in linux/netfilter.h.
    fn number(self) -> u8 {
        match self {
            Family::Inet => 1,
            Family::Ip => 2,
            Family::Ip6 => 10,
        }
    }

    fn of_number(number: u8) -> Option<Self> {
        Family::ALL.into_iter().find(|family| family.number() == number)
    }
}

/// A table by its family and name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The packets that it sees.
    pub family: Family,
    /// Its name.
    pub name: String,
}

/// Where a packet is when a chain sees it (linux/netfilter.h `nf_inet_hooks`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// It came in, and is not routed yet.
    Prerouting = 0,
    /// It is to be forwarded.
    Forward = 2,
    /// This machine sends it.
    Output = 3,
    /// It is about to leave.
    Postrouting = 4,
}

/// The fate of packets that no rule of a chain decides on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// They are dropped.
    Drop = 0,
    /// They pass.
    Accept = 1,
}

/// A chain of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its rules translate addresses (type `nat`); else they filter.
    pub translates: bool,
    /// Where its packets are.
    pub hook: Hook,
    /// Its place among the chains of a hook: the smallest comes first.
    pub priority: i32,
    /// The fate of packets that its rules do not decide on.
    pub policy: Policy,
}

#[cfg(test)]
mod tests;
