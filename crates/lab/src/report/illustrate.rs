//! Pages of results with drawings: each table of subjects gets one above it, and has its subjects by family.

use std::path::{Path, PathBuf};

use super::markdown::Page;
use super::table::Table;
use super::{drawing, replace, unmeasured};
use crate::error::LabError;

/// The folder of the drawings, beside the pages.
const FOLDER: &str = "plots";
const HEADING: &str = "## ";

/// A page and its drawings, each with its file's name.
struct Illustrated {
    text: String,
    drawings: Vec<(String, String)>,
}

/// Writes pages into a folder, with their drawings.
pub(crate) fn write(pages: &[Page], folder: &Path) -> Result<(), LabError> {
    let plots = folder.join(FOLDER);
    std::fs::create_dir_all(&plots).map_err(failed(&plots))?;
    for page in pages {
        let stem = page.name.trim_end_matches(".md");
        let illustrated = illustrate(stem, &page.text);
        remove_old(&plots, stem)?;
        for (name, svg) in &illustrated.drawings {
            let path = plots.join(name);
            replace(&path, svg).map_err(failed(&path))?;
        }
        let path = folder.join(&page.name);
        replace(&path, &illustrated.text).map_err(failed(&path))?;
    }
    Ok(())
}

/// Draws the pages of a folder again, from the tables that they have, which get rows for the subjects that their plans have got since.
/// Figures stay as they are.
pub(crate) fn redraw(folder: &Path) -> Result<(), LabError> {
    let entries = std::fs::read_dir(folder).map_err(failed(folder))?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    paths.sort();
    let page = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).map_err(failed(path))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Page { name, text })
    };
    let pages = paths.iter().map(page).collect::<Result<Vec<Page>, LabError>>()?;
    write(&pages, folder)
}

fn failed(path: &Path) -> impl FnOnce(std::io::Error) -> LabError {
    let path = path.to_owned();
    move |source| LabError::File { path, source }
}

/// Removes the drawings that a page had, of which it may have fewer now.
fn remove_old(plots: &Path, stem: &str) -> Result<(), LabError> {
    for entry in std::fs::read_dir(plots).map_err(failed(plots))?.flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        let number = name.strip_prefix(stem).and_then(|rest| rest.strip_prefix('-')?.strip_suffix(".svg"));
        if number.is_some_and(|number| number.parse::<u32>().is_ok()) {
            std::fs::remove_file(&path).map_err(failed(&path))?;
        }
    }
    Ok(())
}

fn illustrate(stem: &str, text: &str) -> Illustrated {
    let mut page = Illustrated { text: String::new(), drawings: Vec::new() };
    let (mut title, mut table): (&str, Vec<&str>) = ("", Vec::new());
    let unmeasured = unmeasured::subjects(text);
    let lines = text.lines().filter(|line| !is_drawing(line));
    // One more line, so that a table at the end is closed.
    for line in lines.chain(std::iter::once("")) {
        if line.starts_with('|') {
            table.push(line);
            continue;
        }
        if !table.is_empty() {
            page.add_table(stem, title, &table, &unmeasured);
            table.clear();
        }
        title = line.strip_prefix(HEADING).unwrap_or(title);
        page.add_line(line);
    }
    page.text.truncate(page.text.trim_end().len());
    page.text.push('\n');
    page
}

/// Whether a line shows a drawing of ours.
fn is_drawing(line: &str) -> bool {
    line.starts_with("![") && line.contains(&format!("]({FOLDER}/"))
}

impl Illustrated {
    /// Never two empty lines in a row: one is left where a drawing was.
    fn add_line(&mut self, line: &str) {
        if !line.is_empty() || !self.text.ends_with("\n\n") {
            self.text += line;
            self.text.push('\n');
        }
    }

    fn add_table(&mut self, stem: &str, title: &str, lines: &[&str], unmeasured: &[String]) {
        let Some(mut table) = Table::parse(title, lines) else {
            lines.iter().for_each(|line| self.add_line(line));
            return;
        };
        table.set_unmeasured(unmeasured);
        table.sort_by_family();
        if let Some(svg) = drawing::svg(&table) {
            let name = format!("{stem}-{}.svg", self.drawings.len() + 1);
            self.text += &format!("![{}]({FOLDER}/{name})\n\n", title.replace(['[', ']'], ""));
            self.drawings.push((name, svg));
        }
        self.text += &table.markdown();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# A\n\n| the study concluded | here |\n|---|---|\n| a \\| b | no |\n\n## One TCP flow, 1 Gbit/s\n\n\
                        | subject | to the server, Mbit/s |\n|---|---:|\n| veth | 940 |\n| adit-udp | 905 (900–910) |\n\n\
                        What could not be measured:\n\n- x\n";

    #[test]
    fn a_table_gets_a_drawing_and_direct_peers_come_first() {
        let page = illustrate("a", TEXT);
        assert_eq!(page.drawings.len(), 1);
        assert_eq!(page.drawings[0].0, "a-1.svg");
        let start = "## One TCP flow, 1 Gbit/s\n\n![One TCP flow, 1 Gbit/s](plots/a-1.svg)\n\n| subject |";
        assert!(page.text.contains(start), "{}", page.text);
        let place = |word: &str| page.text.find(word).unwrap();
        assert!(place("| adit-udp | 905 (900–910) |") < place("| veth | 940 |"));
        assert!(page.text.contains("| a \\| b | no |\n\n") && page.text.ends_with("- x\n"), "{}", page.text);
    }

    #[test]
    fn drawing_again_changes_nothing() {
        let once = illustrate("a", TEXT);
        let again = illustrate("a", &once.text);
        assert_eq!((again.text, again.drawings), (once.text, once.drawings));
    }

    #[test]
    fn tables_have_rows_of_the_subjects_that_are_not_measured_yet() {
        let text = TEXT.replace("# A\n", "# A\n\n`adit-lab run dekker-2020`, 2026\n");
        let once = illustrate("a", &text);
        let rows = "| **IPsec in user space** | |\n| adit-ipsec (not measured on this machine yet) | – |\n\
                    | strongswan (not measured on this machine yet) | – |\n";
        assert!(once.text.contains(rows), "{}", once.text);
        let again = illustrate("a", &once.text);
        assert_eq!((again.text, again.drawings), (once.text.clone(), once.drawings));
        // A run that has the subject.
        let measured =
            once.text.replace("adit-ipsec (not measured on this machine yet) | – |", "adit-ipsec | 9 |");
        let measured = illustrate("a", &measured).text;
        assert!(
            measured.contains("| adit-ipsec | 9 |\n") && !measured.contains("adit-ipsec (not"),
            "{measured}"
        );
    }

    #[test]
    fn a_page_without_tables_stays() {
        assert_eq!(illustrate("a", "# A\n\nx\n").text, "# A\n\nx\n");
    }

    #[test]
    fn a_table_at_the_end_is_drawn() {
        let end = TEXT.split("\n\nWhat").next().unwrap();
        assert_eq!(illustrate("a", end).drawings.len(), 1);
    }
}
