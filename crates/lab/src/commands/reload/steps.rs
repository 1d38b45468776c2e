//! The changes of the server's file, one SIGHUP each.

/// A change.
pub(super) struct Step {
    pub(super) name: &'static str,
    /// The lines of the file besides those that it always has.
    pub(super) lines: &'static str,
    pub(super) has_another_certificate: bool,
    /// The line of the log when the file was read.
    pub(super) said: &'static str,
}

const HOLDS: &str = "was read again, and what changed holds";

const fn change(name: &'static str, lines: &'static str) -> Step {
    Step { name, lines, has_another_certificate: false, said: HOLDS }
}

/// All of them, in this order. Each file is the first one with these lines.
pub(super) const STEPS: [Step; 10] = [
    change("push: one more route", "push \"route 10.77.0.0 255.255.0.0\"\n"),
    change("limits: connect-freq", "connect-freq 100 1\n"),
    change("keepalive: 5 30", "keepalive 5 30\n"),
    change("ciphers: AES-128-GCM first", "data-ciphers AES-128-GCM:AES-256-GCM\n"),
    change("reneg-sec: 7200", "reneg-sec 7200\n"),
    change("verb: 4", "verb 4\n"),
    Step { has_another_certificate: true, ..change("certificate and key", "") },
    Step { said: "changes nothing", ..change("a mistake", "max-clients many\n") },
    Step {
        said: "it holds when adit is started again",
        ..change("tun-mtu, which needs a new start", "tun-mtu 1400\n")
    },
    Step { said: "was read again", ..change("the first file again", "") },
];

/// The file's lines: a step's line takes the place of the file's of the same name.
pub(super) fn lines(clients: usize, lines: &str) -> String {
    let always = format!(
        "dev tun0\nproto udp4\nport 1194\nserver 10.8.0.0 255.255.0.0\ntopology subnet\ndh none\nduplicate-cn\n\
         max-clients {}\nkeepalive 10 60\ndata-ciphers AES-256-GCM\nverb 3\n",
        clients + 100
    );
    let word = |line: &str| line.split_whitespace().next().map(str::to_owned);
    let is_replaced = |line: &&str| lines.lines().any(|other| word(other) == word(line));
    let kept: String =
        always.lines().filter(|line| !is_replaced(line)).map(|line| format!("{line}\n")).collect();
    kept + lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_takes_the_place_of_what_was_there() {
        let text = lines(200, "keepalive 5 30\npush \"x\"\n");
        assert!(text.contains("keepalive 5 30\n") && !text.contains("keepalive 10 60"), "{text}");
        assert!(text.contains("max-clients 300\n") && text.ends_with("push \"x\"\n"), "{text}");
    }

    #[test]
    fn each_change_has_its_own_name() {
        let names: std::collections::BTreeSet<&str> = STEPS.iter().map(|step| step.name).collect();
        assert_eq!(names.len(), STEPS.len());
    }
}
