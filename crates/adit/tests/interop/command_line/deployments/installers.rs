//! The installers of Nyr and of angristan: a server by the files that they write and by the command of its unit, a client by the
//! file that they give, and a client that is revoked.

use std::fs::{self, Permissions};
use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use adit_testbed::{
    Authority, KeyKind, Namespace, Process, Purpose, Scratch, Validity, can_run, connect, program,
    static_key, tls_crypt_v2_keys, wait_until, wait_until_reachable,
};

use super::{COMPLETED, WAIT};
use crate::bed::PROGRAMS;
use crate::management::commands::Talk;
use crate::options::Program;

const CLIENT: &str = "alice";

/// An installer: its server's file and its clients' files, without certificates and keys of clients.
#[derive(Debug)]
struct Installer {
    name: &'static str,
    /// `DIRECTORY` is where its files are.
    server: &'static str,
    client: &'static str,
    /// The block of the client's key for control packets.
    wrap: &'static str,
    /// To revoke a client, it also kills its connection at the management socket.
    kills: bool,
}

const NYR: Installer = Installer {
    name: "Nyr",
    server: "local 10.9.1.1\nport 1194\nproto udp\ndev tun\nca ca.crt\ncert server.crt\nkey server.key\ndh dh.pem\n\
        auth SHA512\ntls-crypt tc.key\ntopology subnet\nserver 10.8.0.0 255.255.255.0\n\
        push \"redirect-gateway def1 bypass-dhcp\"\nifconfig-pool-persist ipp.txt\npush \"dhcp-option DNS 10.8.0.1\"\n\
        push \"block-outside-dns\"\nkeepalive 10 120\nuser nobody\ngroup nogroup\npersist-key\npersist-tun\nverb 3\n\
        crl-verify crl.pem\nexplicit-exit-notify\n",
    client: "client\ndev tun\nproto udp\nremote 10.9.1.1 1194\nresolv-retry infinite\nnobind\npersist-key\npersist-tun\n\
        remote-cert-tls server\nauth SHA512\nignore-unknown-option block-outside-dns\nverb 3\n",
    wrap: "tls-crypt",
    kills: false,
};

const ANGRISTAN: Installer = Installer {
    name: "angristan",
    server: "port 1194\nproto udp\ndev tun\nuser nobody\ngroup nogroup\npersist-key\npersist-tun\nkeepalive 10 120\n\
        topology subnet\nserver 10.8.0.0 255.255.255.0\nifconfig-pool-persist ipp.txt\npush \"dhcp-option DNS 10.8.0.1\"\n\
        push \"redirect-gateway def1 bypass-dhcp\"\npush \"block-ipv6\"\ndh none\ntls-groups prime256v1\n\
        tls-crypt-v2 tc.key\ncrl-verify crl.pem\nca ca.crt\ncert server.crt\nkey server.key\nauth SHA256\n\
        cipher AES-128-GCM\nignore-unknown-option data-ciphers\ndata-ciphers AES-128-GCM\nncp-ciphers AES-128-GCM\n\
        tls-server\ntls-version-min 1.2\ntls-cipher TLS-ECDHE-ECDSA-WITH-AES-128-GCM-SHA256\nclient-config-dir ccd\n\
        status DIRECTORY/status.log\nmanagement DIRECTORY/server.sock unix\nverb 3\n",
    client: "client\nproto udp\nexplicit-exit-notify\nremote 10.9.1.1 1194\ndev tun\nresolv-retry infinite\nnobind\n\
        persist-key\npersist-tun\nremote-cert-tls server\nverify-x509-name server name\nauth SHA256\nauth-nocache\n\
        cipher AES-128-GCM\nignore-unknown-option data-ciphers\ndata-ciphers AES-128-GCM\nncp-ciphers AES-128-GCM\n\
        tls-client\ntls-version-min 1.2\ntls-cipher TLS-ECDHE-ECDSA-WITH-AES-128-GCM-SHA256\n\
        ignore-unknown-option block-outside-dns\nsetenv opt block-outside-dns\nverb 3\n",
    wrap: "tls-crypt-v2",
    kills: true,
};

/// The files of an installer, and their directories.
struct Bed {
    authority: Authority,
    directory: Scratch,
    server: Namespace,
    client: Namespace,
}

/// Writes a file that the server may read when it is `nobody`.
fn publish(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o644)).unwrap();
}

impl Bed {
    fn install(installer: &Installer) -> Self {
        let authority = Authority::create(KeyKind::Ecdsa).unwrap();
        let directory = Scratch::create("installer").unwrap();
        let here = directory.path();
        fs::set_permissions(here, Permissions::from_mode(0o711)).unwrap();
        fs::create_dir(here.join("ccd")).unwrap();
        let server = authority.issue("server", Purpose::Server, Validity::Now).unwrap();
        let client = authority.issue(CLIENT, Purpose::Client, Validity::Now).unwrap();
        let [key, client_key] = match installer.wrap {
            "tls-crypt-v2" => tls_crypt_v2_keys().unwrap(),
            _ => {
                let key = static_key().unwrap();
                [key.clone(), key]
            }
        };
        let text = installer.server.replace("DIRECTORY", here.to_str().unwrap());
        for (name, text) in [
            ("ca.crt", &authority.certificate),
            ("server.crt", &server.certificate),
            ("server.key", &server.key),
            ("tc.key", &key),
            ("server.conf", &text),
        ] {
            directory.write(name, text).unwrap();
        }
        publish(&here.join("crl.pem"), &authority.revocations().unwrap());
        let mut openssl = program("openssl").unwrap();
        openssl.args(["genpkey", "-genparam", "-algorithm", "DH", "-pkeyopt", "group:ffdhe2048", "-out"]);
        assert!(openssl.arg(here.join("dh.pem")).output().unwrap().status.success());
        let wrap = installer.wrap;
        let profile = format!(
            "{}<ca>\n{}</ca>\n<cert>\n{}</cert>\n<key>\n{}</key>\n<{wrap}>\n{client_key}</{wrap}>\n",
            installer.client, authority.certificate, client.certificate, client.key
        );
        directory.write("alice.ovpn", &profile).unwrap();
        let [server, client] = ["installed", "user"].map(|name| Namespace::create(name).unwrap());
        connect(&server, &["10.9.1.1/24"], &client, &["10.9.1.2/24"], "wire").unwrap();
        client.ip(&["route", "add", "default", "via", "10.9.1.1"]).unwrap();
        Bed { authority, directory, server, client }
    }

    /// The command of the unit `openvpn-server@server`, in its directory.
    fn start_server(&self, program: Program) -> Process {
        let here = self.directory.path();
        let mut command = program.called_as("openvpn", &self.directory);
        command.current_dir(here).arg("--status").arg(here.join("status-server.log"));
        command.args(["--status-version", "2", "--suppress-timestamps", "--config", "server.conf"]);
        let mut process = self.server.spawn(&format!("server ({program:?})"), command).unwrap();
        process.wait_for_line(0, COMPLETED, WAIT).unwrap();
        process
    }

    fn start_client(&self, program: Program) -> Process {
        let mut command = program.called_as("openvpn", &self.directory);
        command.arg(self.directory.path().join("alice.ovpn"));
        self.client.spawn(&format!("client ({program:?})"), command).unwrap()
    }

    /// Acts as angristan's script: `kill NAME`, and the end of the connection at once.
    fn kill(&self) {
        let mut socket = UnixStream::connect(self.socket()).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        socket.write_all(format!("kill {CLIENT}\n").as_bytes()).unwrap();
        socket.shutdown(Shutdown::Write).unwrap();
        // The script does not read the answer.
        let _ = socket.read_to_end(&mut Vec::new());
    }

    fn socket(&self) -> std::path::PathBuf {
        self.directory.path().join("server.sock")
    }

    fn lists_the_client(&self) -> bool {
        let start = format!("CLIENT_LIST,{CLIENT},");
        Talk::within(&self.socket(), WAIT).answer("status 2").iter().any(|line| line.starts_with(&start))
    }
}

/// A client connects; it is revoked, and does not come in any more.
fn serve(installer: &Installer, [server_program, client_program]: [Program; 2]) {
    let bed = Bed::install(installer);
    let mut server = bed.start_server(server_program);
    let mut client = bed.start_client(client_program);
    let logs = |server: &Process, client: &Process| {
        format!(
            "{} {server_program:?}:\n{}\n{client_program:?}:\n{}",
            installer.name,
            server.log(),
            client.log()
        )
    };
    let reached = wait_until_reachable(&bed.client, "10.8.0.1".parse().unwrap(), WAIT);
    assert!(reached.is_ok(), "{}", logs(&server, &client));
    client.wait_for_line(0, COMPLETED, WAIT).unwrap();

    let mark = server.mark();
    publish(&bed.directory.path().join("crl.pem"), &bed.authority.revoke(CLIENT).unwrap());
    if installer.kills {
        bed.kill();
        let gone = wait_until("the client to be shut out", WAIT, || !bed.lists_the_client());
        assert!(gone.is_ok(), "{}", logs(&server, &client));
    }
    if server_program == Program::Adit {
        // adit looks at the file each second, and disconnects a client on the list. OpenVPN looks at each handshake alone.
        server.wait_for_line(mark, "crl-verify: read anew", WAIT).unwrap();
        if !installer.kills {
            server.wait_for_line(mark, "revoked", WAIT).unwrap();
        }
    }
    // OpenVPN sends its client nothing, which would connect again after `ping-restart`. It does so now.
    let _ = client.kill();
    let mark = server.mark();
    client = bed.start_client(client_program);
    // OpenVPN: "VERIFY ERROR: depth=0, error=certificate revoked".
    let told = server.wait_for_line(mark, "revoked", WAIT);
    assert!(told.is_ok(), "{}", logs(&server, &client));
    assert_eq!(client.count_lines(0, COMPLETED), 0, "{}", logs(&server, &client));
    let _ = client.kill();
    assert_eq!(server.terminate(WAIT).unwrap().code(), Some(0), "{}", logs(&server, &client));
}

#[test]
fn servers_of_installers_run_and_shut_out_who_is_revoked() {
    if !can_run("installers", &PROGRAMS) {
        return;
    }
    let (openvpn, adit) = (Program::OpenVpn, Program::Adit);
    for installer in [&NYR, &ANGRISTAN] {
        std::thread::scope(|scope| {
            let threads = [[openvpn, openvpn], [adit, openvpn], [openvpn, adit]]
                .map(|programs| scope.spawn(move || serve(installer, programs)));
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
    }
}
