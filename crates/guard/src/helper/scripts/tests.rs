use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::Path;

use adit_system::testing::{Scratch, in_fresh_network};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

use super::directory::{PREFIX, create, read_small};
use super::*;

fn scripts(directory: &Path) -> Scripts {
    Scripts::new(policy::Scripts {
        commands: vec![vec!["/bin/sh".to_owned(), "-c".to_owned(), "exit 3".to_owned()]],
        most_following: MOST_FOLLOWING,
        variables: vec!["CONFIGURED".to_owned()],
        prefixes: vec!["IV_".to_owned(), "X509_".to_owned()],
        directory: directory.to_owned(),
        lasting: vec![vec!["/bin/sh".to_owned(), "-c".to_owned(), "exit 5".to_owned()]],
        account: None,
    })
}

fn call(argv: &[&str], variable: &str) -> ScriptCall {
    ScriptCall {
        argv: argv.iter().map(|word| (*word).to_owned()).collect(),
        env: vec![(variable.to_owned(), "x".to_owned())],
        secrets: Vec::new(),
        device: "tun0".to_owned(),
        files: vec![ScriptInput {
            content: b"in".to_vec(),
            is_argument: true,
            variable: None,
            is_optional: false,
        }],
        beside: None,
        gateways: Vec::new(),
    }
}

fn exit_of(scripts: &mut Scripts, run: u64) -> Exit {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        if let Some(exit) = scripts.poll(run).unwrap() {
            return exit;
        }
        assert!(Instant::now() < deadline);
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn what_a_script_links_to_is_not_read_back() {
    let scratch = Scratch::new("linked");
    let [file, by_name, other_name] = ["file", "by-name", "other-name"].map(|name| scratch.path().join(name));
    let read = |name| read_small(fs::File::open(scratch.path()).unwrap(), name);
    fs::write(&file, "secret").unwrap();
    assert_eq!(read("file").unwrap(), b"secret");
    symlink(&file, &by_name).unwrap();
    assert!(read("by-name").is_err());
    fs::hard_link(&file, &other_name).unwrap();
    assert!(read("other-name").is_err());
    assert!(read(".").is_err(), "a directory");
}

/// The user that scripts become may own `tmp-dir`, and act between the making and the locking of a directory in it.
#[test]
fn a_directory_that_was_exchanged_before_it_was_locked_is_not_used() {
    in_fresh_network(|| {
        let scratch = Scratch::new("exchanged");
        let [others, elsewhere] = ["others", "elsewhere"].map(|name| scratch.path().join(name));
        let exchange = |put: &dyn Fn(&Path)| {
            let path = create(scratch.path()).unwrap();
            let name = path.file_name().unwrap().to_owned();
            fs::rename(&path, elsewhere.join(name)).unwrap();
            put(&path);
            (Directory::lock(path.clone()).map(|taken| taken.is_some()), path)
        };
        fs::create_dir(&elsewhere).unwrap();
        fs::create_dir(&others).unwrap();
        fs::write(others.join("kept"), "").unwrap();
        chown(&others, Some(65534), None).unwrap();

        let (outcome, path) = exchange(&|path| fs::rename(&others, path).unwrap());
        assert!(outcome.unwrap_err().to_string().contains("belongs to another user"));
        assert!(path.join("kept").exists(), "what is another's is not removed");
        fs::rename(&path, &others).unwrap();

        // A link to a directory of this process's user, which would pass for its own.
        let (outcome, path) = exchange(&|path| symlink("/etc", path).unwrap());
        assert!(outcome.is_err(), "a link is not followed");
        fs::remove_file(path).unwrap();

        let (outcome, path) = exchange(&|path| fs::write(path, "").unwrap());
        assert!(outcome.is_err(), "a file");
        fs::remove_file(path).unwrap();

        let (outcome, _) = exchange(&|_| {});
        assert!(!outcome.unwrap(), "another is made");

        let left = create(scratch.path()).unwrap();
        assert!(Directory::lock(left).unwrap().is_some(), "one that is left alone");
    });
}

/// It may enter the directory of its own script's files, and of no other's.
#[test]
fn a_script_can_read_its_files_as_another_user() {
    in_fresh_network(|| {
        let scratch = Scratch::new("given");
        let mut scripts = scripts(scratch.path());
        let argv = ["/bin/sh", "-c", "[ \"$(id -u) $(cat \"$1\")\" = \"65534 in\" ] && exit 5", "name"];
        scripts.policy.lasting = vec![argv.map(str::to_owned).to_vec()];
        scripts.policy.account = Account::find(Some("nobody"), None).unwrap();
        scripts.gave_up = true;
        let run = scripts.run(&call(&argv, "config")).unwrap();
        assert_eq!(exit_of(&mut scripts, run), Ok(5));
        let own = scripts.runs[&run].files.directory.as_ref().unwrap().path.clone();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&own), mode(own.parent().unwrap())), (0o700, 0o711));
        scripts.end();
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
    });
}

/// The user that scripts become owns the directory around that of the helper, and puts a link in its place.
#[test]
fn files_do_not_go_where_a_link_leads() {
    in_fresh_network(|| {
        let scratch = Scratch::new("swapped");
        let [around, precious] = ["around", "precious"].map(|name| scratch.path().join(name));
        for path in [&around, &precious] {
            fs::create_dir(path).unwrap();
        }
        let mut scripts = scripts(&around);
        let argv = ["/bin/sh", "-c", "exit 5", "name"];
        scripts.policy.lasting = vec![argv.map(str::to_owned).to_vec()];
        scripts.policy.account = Account::find(Some("nobody"), None).unwrap();
        scripts.gave_up = true;
        let first = scripts.run(&call(&argv, "config")).unwrap();
        let own = scripts.directory.as_ref().unwrap().path.clone();
        fs::rename(&own, scratch.path().join("moved")).unwrap();
        symlink(&precious, &own).unwrap();
        let before = fs::metadata(&precious).unwrap();
        let second = scripts.run(&call(&argv, "config")).unwrap();
        assert_eq!(exit_of(&mut scripts, second), Ok(5));
        assert_eq!(scripts.files(second).unwrap(), [b"in"]);
        assert_eq!(fs::read_dir(&precious).unwrap().count(), 0);
        fs::create_dir(precious.join(second.to_string())).unwrap();
        fs::write(precious.join(second.to_string()).join("0"), "kept").unwrap();
        scripts.release(first);
        scripts.release(second);
        assert_eq!(fs::read(precious.join(second.to_string()).join("0")).unwrap(), b"kept");
        let after = fs::metadata(&precious).unwrap();
        let rights = |metadata: &fs::Metadata| (metadata.mode(), metadata.uid());
        assert_eq!(rights(&before), rights(&after));
        scripts.end();
        assert!(precious.is_dir());
    });
}

/// Its files cannot be given to it without `CAP_CHOWN`.
#[test]
fn a_script_runs_without_optional_files_that_it_could_not_read() {
    in_fresh_network(|| {
        let scratch = Scratch::new("optional");
        let mut scripts = scripts(scratch.path());
        let argv = ["/bin/sh", "-c", "[ \"$(id -u) $dns_vars_file\" = \"65534 \" ] && exit 5", "name"];
        scripts.policy.lasting = vec![argv.map(str::to_owned).to_vec()];
        scripts.policy.account = Account::find(Some("nobody"), None).unwrap();
        scripts.gave_up = true;
        let left = capabilities(None).unwrap().permitted.difference(CapabilitySet::CHOWN);
        let sets = CapabilitySets { effective: left, permitted: left, inheritable: CapabilitySet::empty() };
        set_capabilities(None, sets).unwrap();
        let mut optional = call(&argv, "config");
        for file in &mut optional.files {
            (file.is_argument, file.variable) = (false, Some("dns_vars_file".to_owned()));
            file.is_optional = true;
        }
        let run = scripts.run(&optional).unwrap();
        assert_eq!(exit_of(&mut scripts, run), Ok(5));
        let needed = scripts.run(&call(&argv, "config")).unwrap_err();
        assert_eq!(needed.kind(), io::ErrorKind::PermissionDenied);
        let parent = &scripts.directory.as_ref().unwrap().path;
        assert_eq!(fs::metadata(parent).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(fs::read_dir(parent).unwrap().count(), 0);
        scripts.end();
    });
}

#[test]
fn only_the_scripts_of_the_configuration_run() {
    let scratch = Scratch::new("scripts");
    let mut scripts = scripts(scratch.path());
    let good = ["/bin/sh", "-c", "exit 3", "further"];
    for bad in [&["/bin/sh", "-c", "exit 4"][..], &["/bin/sh", "-c"], &["/bin/true"], &[]] {
        assert!(scripts.run(&call(bad, "common_name")).is_err(), "{bad:?}");
    }
    for bad in ["LD_PRELOAD", "PATH", "BASH_ENV", "", "a=b", "_x", "configured\n"] {
        assert!(scripts.run(&call(&good, bad)).is_err(), "{bad}");
    }
    for known in ["common_name", "IV_VER", "X509_0_CN", "CONFIGURED"] {
        let run = scripts.run(&call(&good, known)).unwrap();
        assert_eq!(exit_of(&mut scripts, run), Ok(3));
        assert_eq!(scripts.files(run).unwrap(), [b"in"]);
        scripts.release(run);
        assert!(scripts.files(run).is_err());
    }
    // The path of its file is one more.
    let followed = |count: usize| [&good[..3], &["further"; MOST_FOLLOWING][..count]].concat();
    assert!(scripts.run(&call(&followed(MOST_FOLLOWING - 1), "common_name")).is_ok());
    assert!(scripts.run(&call(&followed(MOST_FOLLOWING), "common_name")).is_err());
    scripts.end();
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
}

#[test]
fn what_lasts_outlasts_a_new_configuration() {
    let scratch = Scratch::new("lasting");
    let mut scripts = scripts(scratch.path());
    let told = |variable: &str| call(&["/bin/sh", "-c", "exit 5"], variable);
    let call = |command: &str| call(&["/bin/sh", "-c", command], "config");
    assert!(scripts.run(&call("exit 3")).is_ok() && scripts.run(&call("exit 5")).is_ok());
    scripts.allow(policy::Scripts::default());
    assert!(scripts.run(&call("exit 3")).is_err(), "it is gone from the file");
    assert!(scripts.run(&call("exit 5")).is_ok());
    for variable in ["CONFIGURED", "X509_0_CN"] {
        assert!(scripts.run(&told(variable)).is_ok(), "{variable}");
    }
    scripts.end();
}

#[test]
fn the_directories_of_killed_helpers_are_removed() {
    let scratch = Scratch::new("abandoned");
    let running = Directory::make(scratch.path()).unwrap();
    // A file of another, to which a link leads.
    let other = scratch.path().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("precious"), "x").unwrap();
    let abandoned = scratch.path().join(format!("{PREFIX}{:016x}", 1));
    fs::create_dir_all(abandoned.join("7")).unwrap();
    fs::write(abandoned.join("7/0"), "password").unwrap();
    symlink(&other, abandoned.join("7/link")).unwrap();
    let link = scratch.path().join(format!("{PREFIX}{:016x}", 2));
    symlink(&other, &link).unwrap();
    let alike = scratch.path().join(format!("{PREFIX}notes"));
    fs::create_dir(&alike).unwrap();
    let of_other_user = scratch.path().join(format!("{PREFIX}{:016x}", 3));
    fs::create_dir(&of_other_user).unwrap();
    chown(&of_other_user, Some(65_534), None).unwrap();

    drop(scripts(scratch.path()));
    assert!(!abandoned.exists());
    assert!(running.path.is_dir(), "of a process that runs");
    assert!(link.is_symlink() && alike.is_dir() && other.join("precious").is_file());
    assert!(of_other_user.is_dir(), "of another user");
}

#[test]
fn as_many_arguments_follow_as_the_policy_says() {
    let scratch = Scratch::new("following");
    let mut scripts = scripts(scratch.path());
    scripts.policy.most_following = 0;
    let words = ["/bin/sh", "-c", "exit 3"];
    let run = scripts.run(&call(&words, "dev")).unwrap();
    assert_eq!(exit_of(&mut scripts, run), Ok(3), "the file that was made for it follows");
    assert!(scripts.run(&call(&[&words[..], &["/etc/shadow"]].concat(), "dev")).is_err());
}
