//! The programs that judge passwords in the place of OpenVPN's plugins: `adit-pam` and `adit-ldap`, of the package `adit-auth`.
//!
//! Each login has a process of its own. A helper process that is there for them alone starts them, with the rights of who
//! started adit, whatever `user` says, as OpenVPN's auth-pam keeps them in a process of its own: what PAM's modules read is
//! root's. They have a thread and a queue of their own, so that a back end that is slow holds up no script.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use adit_guard::Policy;
use adit_openvpn::request;
use adit_openvpn_config::auth_ldap;
use adit_openvpn_config::{Access, Config, PasswordBackEnd, Role};
use zeroize::Zeroizing;

use super::script_policy;
use super::scripts;
use adit_host::configuration;
use adit_host::programs::is_program;
use adit_host::scripts::Scripts;

const PAM: &str = "adit-pam";
const LDAP: &str = "adit-ldap";

/// The programs of a server, with the arguments that the configuration gives them.
pub(crate) fn commands(access: &Access) -> Vec<Vec<String>> {
    access.back_ends.iter().map(command).collect()
}

fn command(back_end: &PasswordBackEnd) -> Vec<String> {
    match back_end {
        PasswordBackEnd::Pam { service, answers } => {
            let pairs = answers.iter().flat_map(|(question, answer)| [question.clone(), answer.clone()]);
            [program(PAM), service.clone()].into_iter().chain(pairs).collect()
        }
        PasswordBackEnd::Ldap { file } => vec![program(LDAP), file.display().to_string()],
    }
}

/// Where a program is: in `../libexec/adit` as packages have it, or else beside this one.
fn program(name: &str) -> String {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    let directory = DIRECTORY.get_or_init(|| {
        let own = std::env::current_exe().unwrap_or_default();
        let beside = own.parent().unwrap_or(Path::new("/"));
        std::fs::canonicalize(beside.join("../libexec/adit")).unwrap_or_else(|_| beside.to_owned())
    });
    directory.join(name).display().to_string()
}

/// Where PAM looks for a service's file.
const SERVICES: [&str; 2] = ["/etc/pam.d", "/usr/lib/pam.d"];

/// Makes the names of files whole paths, and reads them: what is wrong with one would show at the first login. Gives what
/// is to be said of them.
///
/// # Errors
/// The faults, one a line.
pub(crate) fn read_files(config: &mut Config, configuration: &Path) -> Result<Vec<String>, String> {
    let Role::Server(server) = &mut config.role else { return Ok(Vec::new()) };
    let mut warnings = Vec::new();
    for back_end in &mut server.access.back_ends {
        match back_end {
            PasswordBackEnd::Pam { service, .. } => warnings.extend(missing_service(service)),
            PasswordBackEnd::Ldap { file } => {
                let found = configuration::find(configuration, file);
                *file =
                    std::path::absolute(&found).map_err(|error| format!("{}: {error}", found.display()))?;
                warnings.extend(read_ldap(file)?);
            }
        }
    }
    Ok(warnings)
}

/// libpam looks for the name in small letters, and takes another service where there is none.
fn missing_service(service: &str) -> Option<String> {
    let name = service.to_ascii_lowercase();
    let is_there = SERVICES.iter().any(|directory| Path::new(directory).join(&name).is_file());
    let text =
        || format!("plugin: there is no service `{name}` in /etc/pam.d: PAM takes `other` in its place");
    (!is_there).then(text)
}

/// Reads the file of a directory. Gives its doubtful points.
fn read_ldap(file: &Path) -> Result<Vec<String>, String> {
    let name = file.display().to_string();
    let text = std::fs::read(file).map_err(|error| format!("{name}: {error}"))?;
    let parsed = auth_ldap::parse(&Zeroizing::new(text), &name)
        .map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<String>>().join("\n"))?;
    Ok(parsed.warnings.iter().map(ToString::to_string).collect())
}

/// Whether the programs are there.
///
/// # Errors
/// Which is not.
pub(crate) fn check_programs(config: &Config) -> Result<(), String> {
    let Role::Server(server) = &config.role else { return Ok(()) };
    for program in commands(&server.access).iter().filter_map(|command| command.first()) {
        is_program(program).map_err(|why| {
            format!("{why}; `plugin` needs the programs of the package adit-auth: install it")
        })?;
    }
    Ok(())
}

/// The policy of the helper that runs them, if there are any.
pub(crate) fn policy(config: &Config) -> Option<Policy> {
    let Role::Server(server) = &config.role else { return None };
    let commands = commands(&server.access);
    (!commands.is_empty()).then(|| Policy {
        // Nothing follows but the file with the username and the password.
        scripts: Some(adit_guard::Scripts {
            commands,
            most_following: 0,
            ..script_policy::without_commands(config)
        }),
        lock_memory: config.process.lock_memory,
        ..Policy::default()
    })
}

/// The thread that has back ends run, and the back ends.
pub(crate) struct BackEnds {
    /// The thread that has them run.
    pub(crate) runner: Scripts,
    /// Their commands.
    pub(crate) commands: Vec<Vec<String>>,
}

/// The threads that have scripts and back ends run.
pub(crate) struct Programs {
    /// The scripts of the configuration.
    pub(crate) scripts: Option<Scripts>,
    /// The back ends that judge passwords.
    pub(crate) back_ends: Option<BackEnds>,
}

impl Programs {
    /// Runs a script, or a back end; `device` is the tunnel's.
    pub(crate) fn run(&self, script: request::Script, device: &str) {
        let back_ends = self.back_ends.as_ref().filter(|it| it.commands.contains(&script.argv));
        if let Some(runner) = back_ends.map(|it| &it.runner).or(self.scripts.as_ref()) {
            runner.run(Box::new(scripts::script(script)), device);
        }
    }

    /// The result of this one is no longer needed.
    pub(crate) fn forget(&self, id: request::ScriptId) {
        let back_ends = self.back_ends.as_ref().map(|it| &it.runner);
        self.scripts.iter().chain(back_ends).for_each(|runner| runner.forget(scripts::id(id)));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use adit_guard::Helper;
    use adit_testbed::Scratch;

    use adit_openvpn::request::{Script, ScriptId, ScriptPriority};

    use super::*;

    fn server(lines: &str) -> Config {
        let text = format!(
            "dev tun0\nserver 10.8.0.0 255.255.255.0\ndh none\n{lines}\n\
             <ca>\n-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n</ca>\n\
             <cert>\n-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n</cert>\n\
             <key>\n-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n</key>\n"
        );
        let none = |_: &Path| Err("no such file".to_owned());
        adit_openvpn_config::parse("s.conf", text.as_bytes(), &none).unwrap().config
    }

    const LINES: &str = "plugin openvpn-plugin-auth-pam.so \"No-such-service login USERNAME\"\nplugin openvpn-auth-ldap.so ldap.conf";
    const GOOD: &str = "<LDAP>\nURL ldap://a\n</LDAP>\n<Authorization>\nBaseDN dc=x\nSearchFilter (uid=%u)\n</Authorization>\n";

    #[test]
    fn commands_are_what_a_helper_of_their_own_may_run() {
        let policy = policy(&server(LINES)).unwrap();
        let scripts = policy.scripts.as_ref().unwrap();
        let [pam, ldap] = &scripts.commands[..] else { panic!("{:?}", scripts.commands) };
        assert!(
            pam[0].ends_with("/adit-pam") && pam[1..] == ["No-such-service", "login", "USERNAME"],
            "{pam:?}"
        );
        assert!(ldap[0].ends_with("/adit-ldap") && ldap[1..] == ["ldap.conf"], "{ldap:?}");
        assert!(scripts.lasting.is_empty() && policy.account.is_none() && policy.network.is_none());
        assert!(self::policy(&server("")).is_none());
    }

    /// The helper of the scripts has nothing to do with them.
    #[test]
    fn back_ends_are_no_scripts() {
        assert!(script_policy::scripts(&server(LINES)).is_none());
    }

    #[test]
    fn files_are_read_before_the_first_login() {
        let scratch = Scratch::create("back-ends").unwrap();
        let configuration = scratch.path().join("server.conf");
        let why = read_files(&mut server(LINES), &configuration).unwrap_err();
        assert!(why.contains("ldap.conf: No such file"), "{why}");
        let file = scratch.write("ldap.conf", GOOD).unwrap();
        let mut config = server(LINES);
        let warnings = read_files(&mut config, &configuration).unwrap();
        let [pam, ldap] = &warnings[..] else { panic!("{warnings:?}") };
        assert!(pam.contains("no service `no-such-service` in /etc/pam.d"), "{pam}");
        assert!(ldap.contains("in the clear"), "{ldap}");
        let Role::Server(found) = &config.role else { panic!("a server") };
        assert_eq!(found.access.back_ends[1], PasswordBackEnd::Ldap { file: file.clone() });
        scratch.write("ldap.conf", &GOOD.replace("URL", "Url x\nURL")).unwrap();
        let why = read_files(&mut config, &configuration).unwrap_err();
        assert!(why.contains("ldap.conf:3: `URL` stands twice"), "{why}");
    }

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    fn script(owner: u64, argv: &[String]) -> Script {
        Script {
            id: ScriptId { owner, number: 0 },
            source: None,
            priority: ScriptPriority::Unauthenticated,
            argv: argv.to_vec(),
            env: Vec::new(),
            secrets: Vec::new(),
            files: Vec::new(),
            settings: None,
            defers: false,
            in_order: None,
            beside: None,
            timeout: Duration::from_secs(60),
        }
    }

    /// More logins than run at once, which take long, and then a script.
    #[test]
    fn slow_back_ends_hold_up_no_script() {
        let (slow, quick) = (words(&["/bin/sleep", "60"]), words(&["/bin/true"]));
        let helpers = [&slow, &quick].map(|command| {
            let scripts = adit_guard::Scripts {
                commands: vec![command.clone()],
                directory: std::env::temp_dir(),
                ..adit_guard::Scripts::default()
            };
            Helper::within_process(Policy { scripts: Some(scripts), ..Policy::default() }).unwrap()
        });
        let (answers, came) = mpsc::channel();
        let [back_ends, scripts] = helpers.each_ref().map(|helper| {
            let answers = answers.clone();
            let answer = move |script: &adit_host::scripts::Script, outcome| {
                let _ = answers.send((script.id, outcome));
            };
            Scripts::start("scripts", Box::new(answer), helper.access().scripts().unwrap(), Vec::new())
                .unwrap()
        });
        let back_ends = BackEnds { runner: back_ends, commands: vec![slow.clone()] };
        let programs = Programs { scripts: Some(scripts), back_ends: Some(back_ends) };
        for owner in 0..20 {
            programs.run(script(owner, &slow), "");
        }
        programs.run(script(100, &quick), "");
        let (id, outcome) = came.recv_timeout(Duration::from_secs(30)).unwrap();
        assert_eq!((id.owner, outcome.exit), (100, Ok(0)));
        for owner in 0..20 {
            programs.forget(ScriptId { owner, number: 0 });
        }
    }
}
