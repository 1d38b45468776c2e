//! Manual pages.

use std::io;

use adit::manual::{Page, Part, Program};
use clap::Command;
use clap_mangen::Man;
use roff::{Roff, bold, roman};

use crate::Files;

/// The text at the foot of each page.
const SOURCE: &str = concat!("adit ", env!("CARGO_PKG_VERSION"));
/// The text at the head of each page.
const MANUAL: &str = "adit manual";

/// All pages: `man/NAME.SECTION`.
pub(crate) fn all(programs: &[Program], pages: &[Page]) -> io::Result<Files> {
    let mut main: Vec<Reference<'_>> = pages.iter().map(|page| (page.names[0], page.section)).collect();
    main.extend(programs.iter().map(|program| (program.command.get_name(), program.section)));
    let mut files: Files =
        pages.iter().map(|page| (file(page.names[0], page.section), of_page(page))).collect();
    for program in programs {
        let mut command = program.command.clone().disable_help_subcommand(true);
        command.build();
        let also: Vec<Reference<'_>> =
            main.iter().copied().filter(|(name, _)| *name != command.get_name()).collect();
        let mut text = of_command(&command, program.section, &also)?;
        for (name, section) in &also {
            text = refer_to(&text, name, program.section, section);
        }
        files.insert(file(command.get_name(), program.section), text);
        add_subcommands(&mut files, &command, program.section, &main)?;
    }
    Ok(files)
}

/// A page: name and section.
type Reference<'a> = (&'a str, &'a str);

/// The pages of all commands below one, but for those that are among `main`.
fn add_subcommands(
    files: &mut Files,
    command: &Command,
    section: &str,
    main: &[Reference<'_>],
) -> io::Result<()> {
    for subcommand in visible(command) {
        let name = full_name(subcommand);
        if main.iter().any(|(known, _)| *known == name) {
            continue;
        }
        let text = of_command(subcommand, section, &[(full_name(command).as_str(), section)])?;
        files.insert(file(&name, section), text);
        add_subcommands(files, subcommand, section, main)?;
    }
    Ok(())
}

fn file(name: &str, section: &str) -> std::path::PathBuf {
    format!("man/{name}.{section}").into()
}

fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set())
}

/// `adit-up`, of `adit up`.
fn full_name(command: &Command) -> String {
    command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned()
}

/// clap_mangen refers to all subcommands in the section `from` of their parent; the page `name` is in section `to`.
fn refer_to(text: &[u8], name: &str, from: &str, to: &str) -> Vec<u8> {
    let text = String::from_utf8_lossy(text);
    let name = name.replace('-', "\\-");
    text.replace(&format!("{name}({from})"), &format!("{name}({to})")).into_bytes()
}

fn of_command(command: &Command, section: &str, also: &[Reference<'_>]) -> io::Result<Vec<u8>> {
    let man = Man::new(command.clone()).section(section).source(SOURCE).manual(MANUAL);
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    if command.get_arguments().any(|argument| !argument.is_hide_set()) {
        man.render_options_section(&mut text)?;
    }
    if visible(command).next().is_some() {
        man.render_subcommands_section(&mut text)?;
    }
    let mut rest = Roff::new();
    // clap_mangen would run its lines together.
    if let Some(notes) = command.get_after_help() {
        rest.control("SH", ["NOTES"]).control("nf", []);
        for line in notes.to_string().lines() {
            rest.text([roman(line)]);
        }
        rest.control("fi", []);
    }
    see_also(&mut rest, also);
    rest.to_writer(&mut text)?;
    Ok(text)
}

fn of_page(page: &Page) -> Vec<u8> {
    let mut roff = Roff::new();
    roff.control("TH", [page.names[0], page.section, "", SOURCE, MANUAL]);
    roff.control("SH", ["NAME"]).text([roman(format!("{} - {}", page.names.join(", "), page.about))]);
    roff.control("SH", ["SYNOPSIS"]);
    for (name, arguments) in page.synopsis {
        roff.text([bold(*name), roman(format!(" {arguments}"))]).control("br", []);
    }
    page.parts.iter().for_each(|part| add(&mut roff, part));
    see_also(&mut roff, page.also);
    roff.render().into_bytes()
}

fn add(roff: &mut Roff, part: &Part) {
    roff.control("SH", [part.title]);
    for paragraph in &part.paragraphs {
        roff.control("PP", []).text([roman(paragraph)]);
    }
    for (term, text) in &part.entries {
        match text.as_str() {
            "" => roff.text([bold(term)]).control("br", []),
            text => roff.control("TP", []).text([bold(term)]).text([roman(text)]),
        };
    }
}

fn see_also(roff: &mut Roff, also: &[Reference<'_>]) {
    if also.is_empty() {
        return;
    }
    roff.control("SH", ["SEE ALSO"]);
    for (number, (name, section)) in (1..).zip(also) {
        let end = if number == also.len() { "" } else { "," };
        roff.text([bold(*name), roman(format!("({section}){end}"))]);
    }
}
