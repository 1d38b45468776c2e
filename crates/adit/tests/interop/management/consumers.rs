//! Programs of others that watch a server: kumina's exporter reads its status file, and openvpn-monitor its management socket. Of
//! the same two clients they say the same, whether the server is OpenVPN's or adit's.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use adit_testbed::{MAX_WAIT, Scratch, can_run, program, wait_until, wait_until_reachable};

use super::status_file::kind;
use crate::bed::{Bed, PROGRAMS};
use crate::options::{Options, Program, SERVER_INNER};

const WAIT: Duration = MAX_WAIT;

/// kumina's exporter, which `scripts/install-deps` builds.
const EXPORTER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/tools/bin/openvpn_exporter");
/// Where it answers, in the server's namespace.
const EXPORTER_ADDRESS: &str = "127.0.0.1:9176";
/// The interpreter of the environment that `scripts/install-deps` makes for openvpn-monitor.
const MONITOR_PYTHON: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/tools/openvpn-monitor-2.0.4/bin/python");
/// Prints openvpn-monitor's page.
const PRINT_PAGE: &str = "\
import sys
from openvpn_monitor.app import application
answer = application.test_client().get('/')
print(answer.get_data(as_text=True))
sys.exit(answer.status_code != 200)
";

/// The lines of the first client's file. A single address behind a client has its length in the routing table; an IPv6
/// network without one is a /64.
const NETWORKS_BEHIND: &str = "iroute 10.60.0.0 255.255.0.0\niroute 10.61.0.1\niroute-ipv6 fd00:60::/32\n\
                               iroute-ipv6 fd00:61::1/128\niroute-ipv6 fd00:62::1\n";
/// How many routes that makes, with the two addresses of each client.
const ROUTES: usize = 9;

/// A server with two clients.
struct Watched {
    bed: Bed,
    /// Holds the status file, `status`, and the management socket, `socket`.
    scratch: Scratch,
    server: Program,
}

impl Watched {
    fn start(program: Program, status_version: u8) -> Self {
        let scratch = Scratch::create("watched").unwrap();
        let clients = scratch.path().join("clients");
        fs::create_dir(&clients).unwrap();
        fs::write(clients.join("client1"), NETWORKS_BEHIND).unwrap();
        let place = scratch.path().display();
        let lines = format!(
            "status {place}/status 1\nstatus-version {status_version}\nmanagement {place}/socket unix\n\
             client-config-dir {place}/clients\n"
        );
        let programs = [Program::OpenVpn, Program::Adit];
        let mut bed = Bed::build_with(&Options::BASE, program, &programs, |_, [server, _]| {
            // This is called for each client.
            if !server.contains(&lines) {
                server.push_str(&lines);
            }
        })
        .unwrap();
        bed.server.start().unwrap();
        let target = SERVER_INNER[0].parse().unwrap();
        // One after the other, so that they get the same addresses and numbers from each server.
        for number in 0..programs.len() {
            bed.clients[number].start().unwrap();
            let there = wait_until_reachable(&bed.clients[number].namespace, target, WAIT);
            assert!(there.is_ok(), "{program:?}\n{}", bed.logs());
        }
        Self { bed, scratch, server: program }
    }

    /// The status file once it is whole, with the lines of version 1 in a form that can be compared.
    fn status_in_words(&self) -> Vec<Vec<String>> {
        let mut text = String::new();
        // Headers, two clients and the end, beside the routes. The file is written in its place: half of it may be
        // read.
        let whole = wait_until("the status file", WAIT, || {
            text = fs::read_to_string(self.scratch.path().join("status")).unwrap_or_default();
            text.ends_with("\nEND\n") && text.lines().count() == 10 + ROUTES && !text.contains(",0,")
        });
        assert!(whole.is_ok(), "{text}\n{}", self.bed.logs());
        let mut lines: Vec<Vec<String>> =
            text.lines().map(|line| line.split(',').map(kind).collect()).collect();
        lines.sort();
        lines
    }

    /// The exporter's metrics of the status file once `is_whole` holds for it, in a form that can be compared.
    fn metrics(&self, is_whole: impl Fn(&[String]) -> bool) -> Vec<String> {
        let mut command = program(EXPORTER).unwrap();
        command.args(["-web.listen-address", EXPORTER_ADDRESS, "-openvpn.status_paths", "status"]);
        command.current_dir(self.scratch.path());
        let exporter = self.bed.server.namespace.spawn("openvpn_exporter", command).unwrap();
        let mut found = Vec::new();
        let whole = wait_until("the metrics", WAIT, || {
            found = self.scrape().unwrap_or_default();
            is_whole(&found)
        });
        assert!(whole.is_ok(), "{found:#?}\n{}\n{}", exporter.log_tail(), self.bed.logs());
        let mut metrics: Vec<String> = found.iter().map(|line| metric(line)).collect();
        metrics.sort();
        metrics
    }

    /// The exporter's lines about OpenVPN, if it answers.
    fn scrape(&self) -> Option<Vec<String>> {
        let connect = || TcpStream::connect(EXPORTER_ADDRESS);
        let mut stream = self.bed.server.namespace.enter(connect).unwrap().ok()?;
        stream.set_read_timeout(Some(WAIT)).ok()?;
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer.lines().filter(|line| line.starts_with("openvpn_")).map(str::to_owned).collect())
    }

    /// The rows of openvpn-monitor's page, and the parts around them, in a form that can be compared.
    fn page(&self) -> Vec<Vec<String>> {
        let socket = self.scratch.path().join("socket");
        let config = format!(
            "[openvpn-monitor]\nsite=Test\n\n[VPN1]\nname=Watched\nsocket={}\nshow_disconnect=True\n",
            socket.display()
        );
        let config = self.scratch.write("openvpn-monitor.conf", &config).unwrap();
        // OpenVPN serves one program at a time. adit serves the monitor beside a program that stays, as one that judges clients.
        let _stays = (self.server == Program::Adit).then(|| UnixStream::connect(&socket).unwrap());
        let mut page = String::new();
        let whole = wait_until("the page", WAIT, || {
            let mut python = program(MONITOR_PYTHON).unwrap();
            // -B: it leaves no compiled files behind.
            python.args(["-B", "-c", PRINT_PAGE]).env("OPENVPNMONITOR_CONFIG_FILE", &config);
            let said = self.bed.server.namespace.run(python);
            page = said.unwrap_or_else(|error| error.to_string());
            let names = ["<td>client1</td>", "<td>client2</td>"];
            names.iter().all(|name| page.contains(name)) && !page.contains("<td>0 (")
        });
        assert!(whole.is_ok(), "{page}\n{}", self.bed.logs());
        rows(&page)
    }
}

/// Whether the metrics are of a whole file, in which all clients are and have had packets.
fn is_of_both_clients(metrics: &[String]) -> bool {
    let says = |line: &str| metrics.iter().any(|metric| metric == line);
    let routes = metrics.iter().filter(|line| line.starts_with("openvpn_server_route_")).count();
    says("openvpn_up{status_path=\"status\"} 1")
        && says("openvpn_server_connected_clients{status_path=\"status\"} 2")
        && routes == ROUTES
        && !metrics.iter().any(|line| line.ends_with(" 0"))
}

/// A metric without the parts that differ from run to run.
fn metric(line: &str) -> String {
    let (labelled, value) = line.rsplit_once(' ').unwrap();
    let (name, labels) = labelled.split_once('{').unwrap();
    let labels: Vec<String> = labels.trim_end_matches('}').split(',').map(label).collect();
    format!("{name}{{{}}} {}", labels.join(","), number(value))
}

/// A metric's label, likewise.
fn label(text: &str) -> String {
    let (name, value) = text.split_once('=').unwrap();
    let value = value.trim_matches('"');
    match (name, value.rsplit_once(':')) {
        ("connection_time", _) => format!("{name}={}", number(value)),
        ("real_address", Some((address, _))) => format!("{name}={address}"),
        _ => format!("{name}={value}"),
    }
}

/// The kind of a number: a time of the last ten minutes, or more than nothing.
fn number(text: &str) -> &str {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
    match text.parse::<f64>() {
        Ok(number) if (now - number).abs() < 600.0 => "NOW",
        Ok(number) if number > 0.0 => "SOME",
        _ => text,
    }
}

/// The rows of a page in any order, and the parts between them.
fn rows(page: &str) -> Vec<Vec<String>> {
    let page = page.replace("</tr>", "<tr>");
    let mut rows: Vec<Vec<String>> = Vec::new();
    for row in page.split("<tr>") {
        let lines = row.lines().map(str::trim).filter(|line| !line.is_empty());
        rows.push(lines.filter(|line| !line.contains("Last update: ")).map(page_line).collect());
    }
    rows.sort();
    rows
}

/// A line of a page without the parts that differ from run to run.
fn page_line(line: &str) -> String {
    for name in ["csrf_token", "port"] {
        if line.starts_with(&format!("<input type=\"hidden\" name=\"{name}\" value=\"")) {
            return format!("<input {name}>");
        }
    }
    let cell = line.strip_prefix("<td>").and_then(|rest| rest.strip_suffix("</td>"));
    match cell.and_then(cell_kind) {
        Some(kind) => format!("<td>{kind}</td>"),
        // At the foot is the version, with the system that it was built for.
        None => line.split_inclusive("OpenVPN 2.").next().unwrap_or_default().to_owned(),
    }
}

/// The kind of value in a cell, if it differs from run to run.
fn cell_kind(cell: &str) -> Option<&'static str> {
    let digits_and = |others: &str| cell.chars().all(|c| c.is_ascii_digit() || others.contains(c));
    let bytes = cell.split_once(" (").and_then(|(bytes, _)| bytes.parse::<u64>().ok());
    match cell.matches(':').count() {
        _ if bytes.is_some_and(|bytes| bytes > 0) => Some("BYTES"),
        2 if digits_and(":") => Some("DURATION"),
        2 if digits_and("/ :") => Some("TIME"),
        _ => None,
    }
}

fn with_each_server<T>(status_version: u8, look: impl Fn(&Watched) -> T) -> [T; 2] {
    [Program::Adit, Program::OpenVpn].map(|server| look(&Watched::start(server, status_version)))
}

#[test]
fn version_1_shows_the_same_clients_and_is_not_for_the_exporter() {
    if !can_run("consumers of version 1", &[PROGRAMS[0], PROGRAMS[1], EXPORTER]) {
        return;
    }
    let failed = "openvpn_up{status_path=\"status\"} 0";
    let [ours, theirs] = with_each_server(1, |watched| {
        (watched.status_in_words(), watched.metrics(|metrics| metrics.iter().any(|line| line == failed)))
    });
    assert_eq!(ours, theirs);
}

#[test]
fn the_exporter_reads_version_2() {
    if !can_run("consumers of version 2", &[PROGRAMS[0], PROGRAMS[1], EXPORTER]) {
        return;
    }
    let [ours, theirs] = with_each_server(2, |watched| watched.metrics(is_of_both_clients));
    assert_eq!(ours, theirs);
}

#[test]
fn the_exporter_and_the_monitor_read_version_3() {
    if !can_run("consumers of version 3", &[PROGRAMS[0], PROGRAMS[1], EXPORTER, MONITOR_PYTHON]) {
        return;
    }
    let [ours, theirs] = with_each_server(3, |watched| (watched.metrics(is_of_both_clients), watched.page()));
    assert_eq!(ours, theirs);
}
