//! The descriptions that the manual pages and the completions of shells are made of: the parsers of command lines, and pages about
//! command lines that clap does not parse.

/// A program whose command line clap parses.
#[derive(Debug)]
pub struct Program {
    /// The parser. Each subcommand has a page of its own, unless the name of that page is another program's or a [`Page`]'s.
    pub command: clap::Command,
    /// The section of the manual that the pages are in.
    pub section: &'static str,
}

/// A page about a command line that clap does not parse.
#[derive(Debug)]
pub struct Page {
    /// The names that the page is called by; the first is the name of the file.
    pub names: &'static [&'static str],
    /// The section of the manual.
    pub section: &'static str,
    /// The subject, in half a sentence.
    pub about: &'static str,
    /// The ways to call the program, one a line: a name of the program and the words that follow it.
    pub synopsis: &'static [(&'static str, &'static str)],
    /// The parts below.
    pub parts: Vec<Part>,
    /// The pages to read next: name and section.
    pub also: &'static [(&'static str, &'static str)],
}

/// A part of a [`Page`].
#[derive(Debug)]
pub struct Part {
    /// The title.
    pub title: &'static str,
    /// The paragraphs.
    pub paragraphs: Vec<String>,
    /// Terms, and the meaning of each; empty where the term says all.
    pub entries: Vec<(String, String)>,
}
