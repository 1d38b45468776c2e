//! A server of `adit init` as a service of systemd.

use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use adit_host::systemd::{is_there, quoted, systemctl};

/// Where the unit `adit@` looks for its files (packaging/systemd/adit@.service).
const DIRECTORY: &str = "/etc/adit";

/// Where an administrator's units and drop-ins are (systemd.unit(5)).
const UNITS: &str = "/etc/systemd/system";

/// A server of `adit init` as a service: the unit `adit@NAME` runs /etc/adit/NAME.conf, which is a link to the server's file.
#[derive(Debug)]
pub(crate) struct Service {
    name: String,
    link: PathBuf,
    server: PathBuf,
    /// The folder of the file decides about what it names: the unit runs the file itself, and not by the link.
    is_by_path: bool,
    /// The files of further protocols that the same process runs, by a drop-in of the unit.
    beside: Vec<Beside>,
    /// Where the drop-in goes.
    units: PathBuf,
}

/// The server's file of a further protocol.
#[derive(Clone, Debug)]
pub(crate) struct Beside {
    /// The name of the protocol in options.
    pub(crate) name: &'static str,
    /// The name of the protocol for people.
    pub(crate) title: &'static str,
    /// The file.
    pub(crate) file: PathBuf,
}

/// The first line of drop-ins that adit makes, without the options.
const MADE: &str = "# Made by `adit init";

/// A way to run systemctl.
type Systemctl<'a> = &'a dyn Fn(&[&str]) -> Result<String, String>;

impl Service {
    /// The service for that directory, called after it.
    ///
    /// # Errors
    /// When there can be none: the reason, and what to do.
    pub(crate) fn of(dir: &Path) -> Result<Self, String> {
        Self::for_directory(dir)?.installed()
    }

    /// The service for that directory which runs the file of that name in it, and no `server.conf`.
    ///
    /// # Errors
    /// When there can be none: the reason, and what to do.
    pub(crate) fn of_file(dir: &Path, file: &str) -> Result<Self, String> {
        Self::for_directory(dir)?.with_file(file).installed()
    }

    fn with_file(self, file: &str) -> Self {
        Service { server: self.server.with_file_name(file), is_by_path: true, ..self }
    }

    /// The service, if systemd can run it.
    fn installed(self) -> Result<Self, String> {
        if !is_there() {
            return Err("systemd does not run here: run `adit up` instead of --start".to_owned());
        }
        systemctl(&["cat", &self.unit()])
            .map_err(|_| "the unit adit@.service is not installed: packaging/systemd has it".to_owned())?;
        match self.link.symlink_metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(self),
            Err(error) => Err(format!("{}: {error}", self.link.display())),
            Ok(_) if self.is_linked() => Ok(self),
            Ok(_) => Err(format!(
                "{} is there already: choose another name for the directory",
                self.link.display()
            )),
        }
    }

    fn for_directory(dir: &Path) -> Result<Self, String> {
        let dir = std::path::absolute(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        let name = dir.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        // Others would have to be escaped (systemd-escape(1)).
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) {
            return Err(format!(
                "{}: a service is called after its directory, by letters, digits, `-`, `_` and `.` alone",
                dir.display()
            ));
        }
        Ok(Service {
            link: Path::new(DIRECTORY).join(format!("{name}.conf")),
            server: dir.join("server.conf"),
            name: name.to_owned(),
            is_by_path: false,
            beside: Vec::new(),
            units: UNITS.into(),
        })
    }

    /// The service whose process runs these files in the directory, too.
    pub(crate) fn beside(self, files: &[Beside]) -> Self {
        let within = |it: &Beside| {
            let file = self.server.parent()?.join(it.file.file_name().unwrap_or_default());
            Some(Beside { file, ..it.clone() })
        };
        Service { beside: files.iter().filter_map(within).collect(), ..self }
    }

    /// Whether the unit runs this server's file already, or did.
    fn is_linked(&self) -> bool {
        std::fs::read_link(&self.link).is_ok_and(|target| target == self.server)
    }

    /// The unit.
    pub(crate) fn unit(&self) -> String {
        format!("adit@{}.service", self.name)
    }

    /// Has it started now and at each boot, and waits until it serves.
    ///
    /// # Errors
    /// Why it does not run.
    pub(crate) fn start(&self) -> Result<(), String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        self.start_by(&program, &systemctl)
    }

    fn start_by(&self, program: &Path, systemctl: Systemctl<'_>) -> Result<(), String> {
        let directory = self.link.parent().unwrap_or(Path::new(DIRECTORY));
        let linked = std::fs::create_dir_all(directory).and_then(|()| match self.is_linked() {
            true => Ok(()),
            false => symlink(&self.server, &self.link),
        });
        linked.map_err(|error| format!("{}: {error}", self.link.display()))?;
        if self.beside.is_empty() && !self.is_by_path {
            return systemctl(&["enable", "--now", &self.unit()]).map(drop);
        }
        let names: Vec<&str> = self.beside.iter().map(|it| it.name).collect();
        let folder = self.units.join(format!("{}.d", self.unit()));
        let (name, server) = match self.is_by_path {
            true => ("alone".to_owned(), &self.server),
            false => (names.join("-"), &self.link),
        };
        let drop_in = folder.join(format!("{name}.conf"));
        let text = all(program, server, &self.beside)?;
        let written = std::fs::create_dir_all(&folder)
            .and_then(|()| remove_made(&folder))
            .and_then(|()| std::fs::write(&drop_in, text));
        written.map_err(|error| format!("{}: {error}", drop_in.display()))?;
        systemctl(&["daemon-reload"])?;
        systemctl(&["enable", &self.unit()])?;
        // It may run already, without one of the protocols.
        systemctl(&["restart", &self.unit()]).map(drop)
    }
}

/// Removes the drop-ins that adit made for fewer protocols: the last one by its name would decide.
fn remove_made(folder: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if std::fs::read_to_string(&path).is_ok_and(|text| text.starts_with(MADE)) {
            std::fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// The drop-in by which a unit runs several files in one process.
fn all(program: &Path, server: &Path, beside: &[Beside]) -> Result<String, String> {
    let word = |path: &Path| {
        let text = path.to_str().ok_or_else(|| format!("{} is not UTF-8 text", path.display()))?;
        quoted(text).map(|word| word.replace('$', "$$"))
    };
    let options: String = beside.iter().map(|it| format!(" --{}", it.name)).collect();
    let what = match beside.len() {
        0 => "the server runs by the path of its file, beside which others lie",
        1 => "the servers of both protocols run in one process",
        _ => "the servers of all protocols run in one process",
    };
    let files: Vec<String> = beside.iter().map(|it| word(&it.file)).collect::<Result<_, _>>()?;
    Ok(format!(
        "{MADE}{options} --start`: {what}.\n[Service]\nExecStart=\nExecStart={} up {}\n",
        word(program)?,
        std::iter::once(word(server)?).chain(files).collect::<Vec<_>>().join(" ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_called_after_its_directory() {
        let service = Service::for_directory(Path::new("/etc/adit/office")).expect("a good name");
        assert_eq!(service.unit(), "adit@office.service");
        assert_eq!(service.link, Path::new("/etc/adit/office.conf"));
        assert_eq!(service.server, Path::new("/etc/adit/office/server.conf"));
        assert_eq!(Service::for_directory(Path::new("a-b_c.d/")).expect("a good name").name, "a-b_c.d");
        for bad in ["/", "/etc/adit/my office", "/etc/adit/büro", "/etc/adit/a@b"] {
            assert!(Service::for_directory(Path::new(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn both_servers_are_one_service() {
        let scratch = adit_testbed::Scratch::create("service").expect("a directory");
        let dir = scratch.path().join("100% $HOME").join("office");
        std::fs::create_dir_all(&dir).expect("a directory");
        let called = std::cell::RefCell::new(Vec::new());
        let systemctl = |arguments: &[&str]| {
            called.borrow_mut().push(arguments.join(" "));
            Ok(String::new())
        };
        let service = Service {
            link: scratch.path().join("adit/office.conf"),
            units: scratch.path().join("units"),
            ..Service::for_directory(&dir).expect("a good name")
        };
        let start = |service: &Service| service.start_by(Path::new("/usr/bin/adit"), &systemctl);
        start(&service).expect("it starts");
        let of = |name, file: &str| Beside { name, title: name, file: file.into() };
        let service = service.beside(&[of("second", "elsewhere/adit0.conf")]);
        // One that is there gets the other protocol.
        start(&service).expect("it starts");
        let unit = "adit@office.service";
        let expected = [
            format!("enable --now {unit}"),
            "daemon-reload".to_owned(),
            format!("enable {unit}"),
            format!("restart {unit}"),
        ];
        assert_eq!(*called.borrow(), expected);
        assert_eq!(std::fs::read_link(&service.link).expect("a link"), dir.join("server.conf"));
        let text = std::fs::read_to_string(service.units.join("adit@office.service.d/second.conf"));
        let at = scratch.path().display();
        let line = format!(
            "ExecStart=\"/usr/bin/adit\" up \"{at}/adit/office.conf\" \"{at}/100%% $$HOME/office/adit0.conf\"\n"
        );
        let text = text.expect("a drop-in");
        assert!(text.ends_with(&format!("\n[Service]\nExecStart=\n{line}")), "{text}");
        // A third protocol takes the place of the drop-in for two.
        let service = service.beside(&[of("second", "adit0.conf"), of("third", "other.conf")]);
        start(&service).expect("it starts");
        let folder = service.units.join("adit@office.service.d");
        let left =
            std::fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("an entry").file_name());
        assert_eq!(left.collect::<Vec<_>>(), ["second-third.conf"]);
        let text = std::fs::read_to_string(folder.join("second-third.conf")).expect("a drop-in");
        assert!(
            text.starts_with("# Made by `adit init --second --third --start`: the servers of all"),
            "{text}"
        );
        assert!(
            text.contains("/office/adit0.conf\" \"") && text.ends_with("/office/other.conf\"\n"),
            "{text}"
        );
        // A server without `server.conf` is run by the path of its file.
        std::fs::remove_file(&service.link).expect("a link");
        let alone = Service {
            link: service.link.clone(),
            units: service.units.clone(),
            ..Service::for_directory(&dir).expect("a good name").with_file("native.conf")
        };
        start(&alone).expect("it starts");
        assert_eq!(std::fs::read_link(&alone.link).expect("a link"), dir.join("native.conf"));
        let text = std::fs::read_to_string(folder.join("alone.conf")).expect("a drop-in");
        assert!(text.ends_with(&format!(" up \"{at}/100%% $$HOME/office/native.conf\"\n")), "{text}");
        assert!(!folder.join("second-third.conf").exists());
        std::fs::remove_file(&service.link).expect("a link");
        symlink(&service.server, &service.link).expect("a link");
        // The link of another server stays.
        std::fs::remove_file(&service.link).expect("a link");
        symlink("/other", &service.link).expect("a link");
        assert!(start(&service).expect_err("it is another's").contains("office.conf"));
    }
}
