//! The files of a host that stand in for those of strongSwan's virtual machines.

use crate::topology::Host;

/// The program that has the part of the IKE daemon at a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    Adit,
    StrongSwan,
}

/// The log of the daemon, where the scenarios read it.
pub(crate) const LOG: &str = "/var/log/daemon.log";

/// Scripts below `/usr/local/bin`.
pub(crate) const SCRIPTS: [(&str, &str); 8] = [
    ("expect-connection", EXPECT_CONNECTION),
    ("expect-file", EXPECT_FILE),
    ("ifup", IFUP),
    ("ifdown", "#!/bin/bash\nip address flush dev \"$1\"\nip link set \"$1\" down\n"),
    ("ping6", "#!/bin/sh\nexec ping -6 \"$@\"\n"),
    ("answer", ANSWER),
    ("start-capture", START_CAPTURE),
    ("stop-capture", STOP_CAPTURE),
];

/// Rules of the firewall that let everything pass: the scenarios' own match packets by policies of the kernel's IPsec.
pub(crate) const OPEN: &str =
    "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\nCOMMIT\n";
/// The files of such rules.
pub(crate) const FIREWALL: [&str; 5] =
    ["iptables.rules", "iptables.drop", "iptables.flush", "ip6tables.rules", "ip6tables.flush"];

/// expect-connection NAME [SECONDS]
const EXPECT_CONNECTION: &str = r#"#!/bin/bash
for i in $(seq $((${2:-5} * 20))); do
    swanctl --list-conns 2>/dev/null | grep -q "^[[:space:]]*$1:" && exit 0
    sleep 0.05
done
echo "no connection $1"
exit 1
"#;

/// expect-file NAME [SECONDS]
const EXPECT_FILE: &str = r#"#!/bin/bash
for i in $(seq $((${2:-5} * 20))); do
    [ -e "$1" ] && exit 0
    sleep 0.05
done
echo "no file $1"
exit 1
"#;

/// ifup DEVICE
const IFUP: &str = r#"#!/bin/bash
while read -r device v4 v6 gateway; do
    [ "$device" = "$1" ] || continue
    ip link set "$device" up
    ip address replace "$v4" dev "$device"
    ip address replace "$v6" dev "$device" nodad
    [ -z "$gateway" ] || ip route replace default via "$gateway"
done </etc/network/devices
"#;

/// answer PROGRAM: answers a request of HTTP by the output of a program that reads its body.
const ANSWER: &str = r#"#!/bin/bash
length=0
while IFS= read -r line; do
    line=${line%$'\r'}
    [ -n "$line" ] || break
    case "${line,,}" in content-length:*) length=${line#*: } ;; esac
done
head -c "$length" >"/tmp/request.$$"
printf 'HTTP/1.0 200 OK\r\n'
exec bash "$1" <"/tmp/request.$$"
"#;

/// start-capture DEVICE
const START_CAPTURE: &str = r#"#!/bin/bash
tcpdump -Z root -l --immediate-mode -i "$1" not port ssh and not port domain </dev/null >/tmp/tcpdump.log 2>/tmp/tcpdump.err.log &
echo $! >/tmp/tcpdump.pid
for i in $(seq 100); do
    grep -q 'listening on' /tmp/tcpdump.err.log && exit 0
    sleep 0.02
done
"#;

/// Ends `tcpdump` when the packets that have come are in its output.
const STOP_CAPTURE: &str = r#"#!/bin/bash
pid=$(cat /tmp/tcpdump.pid 2>/dev/null) || exit 0
rm /tmp/tcpdump.pid
sleep 0.3
kill "$pid"
while [ -d "/proc/$pid" ]; do sleep 0.02; done
"#;

/// systemctl ACTION strongswan
const SYSTEMCTL: &str = r#"#!/bin/bash
stop() {
    pid=$(cat /run/daemon.pid 2>/dev/null) || return 0
    kill "$pid"
    for i in $(seq 200); do
        [ -d "/proc/$pid" ] || break
        sleep 0.05
    done
    rm -f /run/daemon.pid
}
case "$*" in
    "start strongswan") start ;;
    "start --no-block strongswan") start >/dev/null 2>&1 & ;;
    "stop strongswan") stop ;;
    "restart strongswan") stop; start ;;
    "reload strongswan") swanctl --reload-settings; swanctl --load-all --noprompt ;;
    *) echo "systemctl $*: not here" >&2; exit 1 ;;
esac
"#;

/// strongSwan's unit: its daemon, and `swanctl` that loads the files.
const START_STRONGSWAN: &str = r#"
start() {
    rm -f /run/charon.vici
    setsid charon-systemd </dev/null >/var/log/charon.out 2>&1 &
    echo $! >/run/daemon.pid
    for i in $(seq 200); do
        [ -S /run/charon.vici ] && break
        sleep 0.05
    done
    swanctl --load-all --noprompt >/var/log/load.log 2>&1
}
"#;

const START_ADIT: &str = r#"
start() {
    rm -f /run/charon.vici
    setsid adit up /etc/swanctl/swanctl.conf </dev/null >>/var/log/daemon.log 2>&1 &
    echo $! >/run/daemon.pid
    for i in $(seq 200); do
        grep -q 'tunnel up' /var/log/daemon.log && break
        [ -d "/proc/$!" ] || break
        sleep 0.05
    done
}
"#;

/// The script `systemctl` of a host with that program.
pub(crate) fn systemctl(program: Program) -> String {
    let start = match program {
        Program::Adit => START_ADIT,
        Program::StrongSwan => START_STRONGSWAN,
    };
    let (first, rest) = SYSTEMCTL.split_once('\n').unwrap_or_default();
    format!("{first}{start}{rest}")
}

/// The devices of a host, for `ifup`.
pub(crate) fn devices(host: &Host) -> String {
    let line = |(index, device): (usize, &crate::topology::Device)| {
        let gateway = if index == 0 { host.gateway } else { "" };
        format!("{} {} {} {gateway}\n", device.name, device.v4, device.v6)
    };
    host.devices.iter().enumerate().map(line).collect()
}

/// The file that strongSwan's programs read here, which includes that of the scenario. What stands before it are the settings of
/// strongSwan's virtual machines; what stands behind it has ESP in the process of `charon`, as an IP protocol where no NAT is. Debian's
/// build has no checksums for `integrity_test`.
pub(crate) fn strongswan_conf(has_own_libipsec: bool) -> String {
    let plugins = if has_own_libipsec {
        ""
    } else {
        " plugins {\n  kernel-netlink {\n   fwmark = !0x42\n  }\n  socket-default {\n   fwmark = 0x42\n  }\n  \
         kernel-libipsec {\n   allow_peer_ts = yes\n   raw_esp = yes\n  }\n }\n"
    };
    let log = |name: &str, path: &str, level: u8| {
        format!("  {name} {{\n   path = {path}\n   default = {level}\n   flush_line = yes\n  }}\n")
    };
    format!(
        "charon {{\n retransmit_tries = 2\n retransmit_timeout = 1.0\n retransmit_base = 1\n}}\ninclude /etc/strongswan.conf\n\
         charon-systemd {{\n integrity_test = no\n filelog {{\n{}{} }}\n{plugins}}}\n",
        log("daemon", LOG, 1),
        log("auth", "/var/log/auth.log", 0),
    )
}

/// The file `strongswan.conf` of a scenario, in which `charon` loads the plugin that has ESP in its process.
pub(crate) fn with_libipsec(text: &str) -> String {
    if text.contains("kernel-libipsec") {
        return text.to_owned();
    }
    text.replace("kernel-netlink", "kernel-libipsec kernel-netlink")
        .replace("kernel-libipsec kernel-netlink {", "kernel-netlink {")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology;

    #[test]
    fn the_plugin_of_esp_is_loaded_before_that_of_the_kernel() {
        let text = "load = nonce kernel-netlink vici\nplugins {\n kernel-netlink {\n }\n}\n";
        let changed = with_libipsec(text);
        assert!(changed.contains("nonce kernel-libipsec kernel-netlink vici"), "{changed}");
        assert!(changed.contains("\n kernel-netlink {"), "{changed}");
        assert_eq!(with_libipsec(&changed), changed);
    }

    #[test]
    fn the_first_device_has_the_gateway() {
        let moon = devices(topology::host("moon").unwrap());
        assert_eq!(moon, "eth0 192.168.0.1/24 fec0::1/16 192.168.0.254\neth1 10.1.0.1/16 fec1::1/16 \n");
        assert!(systemctl(Program::Adit).starts_with("#!/bin/bash\nstart() {\n"));
        assert!(!strongswan_conf(true).contains("raw_esp"));
    }
}
