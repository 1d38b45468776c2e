//! The file with one process, and with several.

use super::*;

/// A directory of this test alone, gone afterwards.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("adit-dns-{}-{name}", process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        Directory(path)
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(&self.0).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const OLD: &str = "nameserver 192.0.2.53\nsearch old.example\noptions edns0\n";

fn dns() -> Dns {
    let search = ["corp.example", "evil\nnameserver 6.6.6.6"].map(str::to_owned).to_vec();
    Dns { servers: vec!["10.8.0.1".parse().unwrap(), "fd00::1".parse().unwrap()], search, ..Dns::default() }
}

#[test]
fn the_file_is_replaced_and_comes_back() {
    let directory = Directory::new("file");
    let path = directory.0.join("resolv.conf");
    fs::write(&path, OLD).unwrap();
    let file = ResolvConf::new(path.clone());
    file.write(&dns()).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    let rest: Vec<&str> = text.lines().skip(1).collect();
    assert_eq!(rest, ["nameserver 10.8.0.1", "nameserver fd00::1", "search corp.example", "options edns0"]);
    assert_eq!(file.servers(), ["192.0.2.53".parse::<IpAddr>().unwrap()], "those of the system");
    // Other servers, later: the copy stays the first file.
    file.write(&Dns { servers: vec!["9.9.9.9".parse().unwrap()], ..Dns::default() }).unwrap();
    file.restore();
    assert_eq!(fs::read_to_string(&path).unwrap(), OLD);
    assert_eq!(directory.names(), ["resolv.conf"]);
}

#[test]
fn a_link_comes_back_as_a_link() {
    let directory = Directory::new("link");
    let (path, target) = (directory.0.join("resolv.conf"), directory.0.join("stub.conf"));
    fs::write(&target, OLD).unwrap();
    symlink("stub.conf", &path).unwrap();
    let file = ResolvConf::new(path.clone());
    file.write(&dns()).unwrap();
    assert_eq!(fs::read_to_string(&target).unwrap(), OLD, "what it leads to is not touched");
    file.restore();
    assert_eq!(fs::read_link(&path).unwrap(), Path::new("stub.conf"));
    assert_eq!(directory.names(), ["resolv.conf", "stub.conf"]);
}

#[test]
fn what_a_killed_run_left_is_put_back_by_the_next() {
    let directory = Directory::new("crash");
    let path = directory.0.join("resolv.conf");
    // No process has this number: it is above the kernel's limit (PID_MAX_LIMIT, 2^22).
    fs::write(&path, format!("{MARK}999999999. x\nnameserver 10.8.0.1\n")).unwrap();
    let file = ResolvConf::new(path.clone());
    fs::write(&file.backup, OLD).unwrap();
    file.recover().unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), OLD);
    assert_eq!(directory.names(), ["resolv.conf"]);
    file.recover().unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), OLD);
}

/// Process 30 was killed.
fn of_process(path: &Path, process: u32) -> ResolvConf {
    ResolvConf { process, runs: |process| process < 30, ..ResolvConf::new(path.to_owned()) }
}

fn server(last: u8) -> Dns {
    Dns { servers: vec![IpAddr::from([10, 8, 0, last])], ..Dns::default() }
}

#[test]
fn tunnels_have_the_file_in_turn() {
    let directory = Directory::new("turns");
    let path = directory.0.join("resolv.conf");
    fs::write(&path, OLD).unwrap();
    let [first, second, third, fourth] = [11, 2, 13, 4].map(|process| of_process(&path, process));
    let names = |last: u8| {
        let text = fs::read_to_string(&path).unwrap();
        text.contains(&format!("\nnameserver 10.8.0.{last}\n")) && text.ends_with("options edns0\n")
    };
    first.write(&server(1)).unwrap();
    for (waiting, last) in [(&second, 2), (&third, 3), (&fourth, 4)] {
        let told = waiting.write(&server(last)).unwrap_err();
        assert!(told.text.contains("(process 11)"), "{}", told.text);
    }
    assert!(names(1));
    // One that waits may leave, or want others than before, and keeps its place.
    third.restore();
    assert!(second.write(&server(22)).is_err() && names(1));
    first.write(&server(11)).unwrap();
    first.restore();
    assert!(names(22), "{}", fs::read_to_string(&path).unwrap());
    second.write(&server(23)).unwrap();
    assert!(names(23), "it has the file now");
    second.restore();
    assert!(names(4));
    assert_eq!(fourth.servers(), ["192.0.2.53".parse::<IpAddr>().unwrap()], "those of the system");
    fourth.restore();
    assert_eq!(fs::read_to_string(&path).unwrap(), OLD);
    assert_eq!(directory.names(), ["resolv.conf"]);
}

#[test]
fn what_a_killed_tunnel_had_goes_to_the_next() {
    let directory = Directory::new("killed");
    let path = directory.0.join("resolv.conf");
    fs::write(&path, OLD).unwrap();
    let [killed, second, third] = [30, 2, 3].map(|process| of_process(&path, process));
    let also_killed = of_process(&path, 31);
    killed.write(&server(1)).unwrap();
    // As if both still ran.
    for (waiting, last) in [(&also_killed, 9), (&second, 2)] {
        let told = ResolvConf { runs: |_| true, ..of_process(&path, waiting.process) }.write(&server(last));
        assert!(told.is_err());
    }
    third.recover().unwrap();
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains("nameserver 10.8.0.2\n"), "{text}");
    second.restore();
    assert_eq!(fs::read_to_string(&path).unwrap(), OLD);
    assert_eq!(directory.names(), ["resolv.conf"]);

    // The next that wants it has it, and the copy is still of the first file.
    killed.write(&server(1)).unwrap();
    third.write(&server(3)).unwrap();
    third.restore();
    assert_eq!(fs::read_to_string(&path).unwrap(), OLD);
    assert_eq!(directory.names(), ["resolv.conf"]);
}

#[test]
fn who_waits_in_vain_leaves_all_as_it_is() {
    let directory = Directory::new("vain");
    let path = directory.0.join("resolv.conf");
    fs::write(&path, OLD).unwrap();
    let [first, second] = [1, 2].map(|process| of_process(&path, process));
    first.write(&server(1)).unwrap();
    second.write(&server(2)).unwrap_err();
    second.restore();
    assert!(fs::read_to_string(&path).unwrap().contains("nameserver 10.8.0.1\n"));
    first.restore();
    assert_eq!(fs::read_to_string(&path).unwrap(), OLD, "the copy was not touched");
    assert_eq!(directory.names(), ["resolv.conf"]);
}

#[test]
fn a_file_that_another_program_wrote_meanwhile_stays() {
    let directory = Directory::new("other");
    let path = directory.0.join("resolv.conf");
    let file = ResolvConf::new(path.clone());
    file.write(&dns()).unwrap();
    fs::write(&path, "nameserver 198.51.100.1\n").unwrap();
    file.restore();
    assert_eq!(fs::read_to_string(&path).unwrap(), "nameserver 198.51.100.1\n");
    // And where there was none, none is left.
    fs::remove_file(&path).unwrap();
    file.write(&dns()).unwrap();
    file.restore();
    assert_eq!(directory.names(), [""; 0]);
}
