//! Name servers set by a process of its own, which kept the rights for it when the tunnel's gave them up.
//!
//! The tunnel writes a line for each change, `servers A,B search C only D` with `-` for an empty list. The
//! helper answers each with any number of lines that begin with `!`, what went wrong, and one that is `.`. When
//! nobody writes any more, it gives the system its own name servers back and ends.

use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout};

use adit_core::{Dns, Report, is_domain};

use super::{NameServers, warning};

/// Longer lines come from nobody we know.
const MAX_LINE: u64 = 64 << 10;

/// A helper at work, as the tunnel sees it.
#[derive(Debug)]
pub struct NameServerHelper {
    child: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl NameServerHelper {
    /// The helper that was started as `child`, with pipes for its standard input and output, and runs
    /// [`serve_name_servers`].
    ///
    /// # Errors
    /// When it has no pipes.
    pub fn new(mut child: Child) -> io::Result<Self> {
        let (Some(requests), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("the helper has no pipes"));
        };
        Ok(NameServerHelper { child, requests: Some(requests), answers: BufReader::new(answers) })
    }

    /// Has the system ask these servers. What went wrong comes back.
    pub(super) fn set(&mut self, dns: &Dns) -> Vec<Report> {
        match self.ask(dns) {
            Ok(reports) => reports,
            Err(error) => {
                vec![warning(format!("name servers are not set: the process that sets them failed: {error}"))]
            }
        }
    }

    fn ask(&mut self, dns: &Dns) -> io::Result<Vec<Report>> {
        let requests = self.requests.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        writeln!(requests, "{}", request(dns))?;
        requests.flush()?;
        read_answer(&mut self.answers)
    }
}

/// What went wrong, up to the line that ends the answer.
pub(crate) fn read_answer(input: &mut impl BufRead) -> io::Result<Vec<Report>> {
    let mut reports = Vec::new();
    loop {
        let line = read_line(input)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        match line.strip_prefix('!') {
            Some(text) => reports.push(warning(text.to_owned())),
            None => return Ok(reports),
        }
    }
}

impl Drop for NameServerHelper {
    fn drop(&mut self) {
        // It sees the end of its input, puts back what it changed, and ends.
        self.requests = None;
        let _ = self.child.wait();
    }
}

/// Serves a [`NameServerHelper`] until it is gone: sets name servers for the device of that index, or in `file`
/// if one is named.
///
/// # Errors
/// When the other end does not speak as it should.
pub fn serve_name_servers(
    device: u32,
    file: Option<PathBuf>,
    mut input: impl BufRead,
    mut output: impl Write,
) -> io::Result<()> {
    let mut servers = NameServers::new(device, file);
    let mut reports = servers.recover();
    while let Some(line) = read_line(&mut input)? {
        let dns = parse(&line).ok_or_else(|| io::Error::other("an order that is none"))?;
        reports.extend(servers.apply(&dns));
        for report in reports.drain(..) {
            writeln!(output, "!{}", report.text.replace('\n', " "))?;
        }
        writeln!(output, ".")?;
        output.flush()?;
    }
    Ok(())
}

pub(crate) fn read_line(input: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = String::new();
    io::Read::take(&mut *input, MAX_LINE).read_line(&mut line)?;
    Ok(if line.is_empty() { None } else { Some(line.trim_end_matches('\n').to_owned()) })
}

pub(crate) fn request(dns: &Dns) -> String {
    let list = |words: Vec<String>| if words.is_empty() { "-".to_owned() } else { words.join(",") };
    let domains = |names: &[String]| list(names.iter().filter(|name| is_domain(name)).cloned().collect());
    let servers = list(dns.servers.iter().map(ToString::to_string).collect());
    format!("servers {servers} search {} only {}", domains(&dns.search), domains(&dns.only_for))
}

pub(crate) fn parse(line: &str) -> Option<Dns> {
    fn list(word: &str) -> impl Iterator<Item = &str> {
        word.split(',').filter(|item| *item != "-")
    }
    let words: Vec<&str> = line.split(' ').collect();
    let ["servers", servers, "search", search, "only", only] = words.as_slice() else { return None };
    let domains = |word| -> Option<Vec<String>> {
        list(word).map(|name| is_domain(name).then(|| name.to_owned())).collect()
    };
    Some(Dns {
        servers: list(servers).map(|server| server.parse().ok()).collect::<Option<_>>()?,
        search: domains(search)?,
        only_for: domains(only)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_read_as_they_were_meant() {
        let search = vec!["corp.example".to_owned(), "a.example".to_owned()];
        let servers = vec!["10.8.0.1".parse().unwrap(), "fd00::1".parse().unwrap()];
        let all = Dns { servers, search, only_for: vec!["b.example".to_owned()] };
        for dns in [all, Dns::default()] {
            assert_eq!(parse(&request(&dns)), Some(dns));
        }
        for odd in ["", "servers", "servers x search - only -", "servers - search a;b only -"] {
            assert_eq!(parse(odd), None, "{odd}");
        }
    }

    #[test]
    fn the_helper_sets_the_file_and_puts_it_back() {
        let directory = std::env::temp_dir().join(format!("adit-helper-{}", std::process::id()));
        std::fs::create_dir(&directory).unwrap();
        let path = directory.join("resolv.conf");
        std::fs::write(&path, "nameserver 192.0.2.53\n").unwrap();
        let order = b"servers 10.8.0.1 search corp.example only corp.example\n";
        let mut answers = Vec::new();
        let during = path.clone();
        // What it reads next shows what it did before.
        struct Look<'a>(&'a [u8], PathBuf, String);
        impl io::Read for Look<'_> {
            fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
                if self.0.is_empty() {
                    self.2 = std::fs::read_to_string(&self.1)?;
                }
                io::Read::read(&mut self.0, buf)
            }
        }
        let mut look = Look(order, during, String::new());
        serve_name_servers(0, Some(path.clone()), BufReader::new(&mut look), &mut answers).unwrap();
        assert!(look.2.contains("nameserver 10.8.0.1\nsearch corp.example"), "{}", look.2);
        let answers = String::from_utf8(answers).unwrap();
        assert!(answers.starts_with("!the tunnel's name servers") && answers.ends_with("\n.\n"), "{answers}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "nameserver 192.0.2.53\n");
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
