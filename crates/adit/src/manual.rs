//! What the manual pages and the completions of shells are made of: the definitions that the command lines are parsed by, and
//! the table of directives. `adit-manual` renders them.

mod directives;

use clap::{Command, CommandFactory as _};

use crate::{Cli, wireguard};

/// A program whose command line clap parses.
#[derive(Debug)]
pub struct Program {
    /// Its parser. Each subcommand has a page of its own, unless the name of that page is another program's or a [`Page`]'s.
    pub command: Command,
    /// The section of the manual that its pages are in.
    pub section: &'static str,
}

/// A page about a command line that clap does not parse.
#[derive(Debug)]
pub struct Page {
    /// The names that it is called by; the first is that of the file.
    pub names: &'static [&'static str],
    /// The section of the manual.
    pub section: &'static str,
    /// What it is, in half a sentence.
    pub about: &'static str,
    /// How it is called, one way a line: a name of the program and what follows it.
    pub synopsis: &'static [(&'static str, &'static str)],
    /// The parts below.
    pub parts: Vec<Part>,
    /// The pages to read next: name and section.
    pub also: &'static [(&'static str, &'static str)],
}

/// A part of a [`Page`].
#[derive(Debug)]
pub struct Part {
    /// Its title.
    pub title: &'static str,
    /// Its paragraphs.
    pub paragraphs: Vec<String>,
    /// Terms, and what each is; empty where the term says all.
    pub entries: Vec<(String, String)>,
}

/// The programs.
pub fn programs() -> Vec<Program> {
    vec![
        Program { command: Cli::command(), section: "1" },
        Program { command: wireguard::command::command(), section: "8" },
    ]
}

/// The pages of other command lines.
pub fn pages() -> Vec<Page> {
    vec![directives::page()]
}
