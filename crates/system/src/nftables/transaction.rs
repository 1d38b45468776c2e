//! Changes that are put in force together.

use std::io;

use super::attributes::{nested, number, text};
use super::connection::{self, message};
use super::{Action, Chain, Match, Table, rule};

/// Messages (linux/netfilter/nfnetlink.h, nf_tables.h); those of nftables are of the subsystem 10.
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
const NEW_TABLE: u16 = connection::NFTABLES;
const DELETE_TABLE: u16 = connection::NFTABLES | 2;
const NEW_CHAIN: u16 = connection::NFTABLES | 3;
const NEW_RULE: u16 = connection::NFTABLES | 6;
/// `NLM_F_ACK`, `NLM_F_CREATE`, `NLM_F_APPEND` (linux/netlink.h).
const ACK: u16 = 0x4;
const CREATE: u16 = 0x400;
const APPEND: u16 = 0x800;

/// Changes of tables, all of which are put in force, or none.
#[derive(Clone, Debug)]
pub struct Transaction {
    bytes: Vec<u8>,
    /// How many answers there will be.
    answers: usize,
}

impl Default for Transaction {
    fn default() -> Self {
        Transaction { bytes: message(BATCH_BEGIN, 0, 0, &[]), answers: 0 }
    }
}

impl Transaction {
    /// Makes a table, if it is not there.
    pub fn add_table(&mut self, table: &Table) {
        self.add(NEW_TABLE, CREATE, table, &text(1, &table.name));
    }

    /// Removes a table with all that is in it, whether it is there or not.
    pub fn remove_table(&mut self, table: &Table) {
        self.add_table(table);
        self.add(DELETE_TABLE, 0, table, &text(1, &table.name));
    }

    /// Adds a chain to a table.
    pub fn add_chain(&mut self, table: &Table, chain: &Chain<'_>) {
        let hook = [number(1, chain.hook as u32), number(2, chain.priority.cast_unsigned())].concat();
        let kind = if chain.translates { "nat" } else { "filter" };
        let attributes = [
            text(1, &table.name),
            text(3, chain.name),
            nested(4, &hook),
            number(5, chain.policy as u32),
            text(7, kind),
        ];
        self.add(NEW_CHAIN, CREATE, table, &attributes.concat());
    }

    /// Adds a rule behind the others of a chain.
    pub fn add_rule(&mut self, table: &Table, chain: &str, matches: &[Match<'_>], action: Action) {
        let expressions = nested(4, &rule::expressions(matches, action));
        let attributes = [text(1, &table.name), text(2, chain), expressions].concat();
        self.add(NEW_RULE, CREATE | APPEND, table, &attributes);
    }

    fn add(&mut self, kind: u16, flags: u16, table: &Table, attributes: &[u8]) {
        self.answers += 1;
        self.bytes.extend(message(kind, flags | ACK, table.family.number(), attributes));
    }

    /// Puts the changes in force.
    ///
    /// # Errors
    /// The kernel's reason to refuse one of them: none is in force then.
    pub fn commit(mut self) -> io::Result<()> {
        self.bytes.extend(message(BATCH_END, 0, 0, &[]));
        connection::send(&self.bytes, self.answers)
    }
}
