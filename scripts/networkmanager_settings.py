"""The profiles of scripts/networkmanager-profiles, and what their servers and nmcli need."""

SERVER, CLIENT = "10.99.0.1", "10.99.0.2"
PORT, PROXY_PORT, ECHO_PORT = 1194, 3128, 7777
INNER4, INNER6 = "10.88.0.1", "fd00:88::1"
# Whose datagrams come through the tunnel.
INNER_PREFIXES = ("::ffff:10.88.0.", "fd00:88::")
# By the label that DIALOG gives a question.
ANSWERS = {"password": "s3cret", "code": "123456"}
PROXY_PASSWORD = "proxysecret"
UP_WAIT = 60

CLIENT_LINES = f"client\ndev tun\nnobind\nremote {SERVER} {PORT}\nremote-cert-tls server\nca PKI/ca.crt\n"
SERVER_LINES = f"""local {SERVER}
port {PORT}
dev tun
topology subnet
server 10.88.0.0 255.255.255.0
ca PKI/ca.crt
cert PKI/server.crt
key PKI/server.key
dh none
keepalive 1 5
script-security 2
verb 3
push "dhcp-option DNS 10.88.0.53"
push "dhcp-option DOMAIN vpn.example"
"""
CERTIFICATE = "cert PKI/client.crt\nkey PKI/client.key\n"
VERIFY = "auth-user-pass-verify PKI/SCRIPT via-file\nusername-as-common-name\n"
NO_CERTIFICATE = "verify-client-cert none\n"
PASSWORD_DATA = ["+vpn.data", "username=ann", "+vpn.data", "password-flags=1"]

# What the client and the server have beside the lines above, and what nmcli changes after the import.
PROFILES = {
    "certificates": dict(client=CERTIFICATE),
    "password": dict(
        client="auth-user-pass\n",
        server=VERIFY.replace("SCRIPT", "password") + NO_CERTIFICATE,
        modify=PASSWORD_DATA,
        passwords="vpn.secrets.password:s3cret\n",
    ),
    "password and certificate, TCP": dict(
        tcp=True,
        client="auth-user-pass\n" + CERTIFICATE,
        server=VERIFY.replace("SCRIPT", "password"),
        modify=PASSWORD_DATA,
        passwords="vpn.secrets.password:s3cret\n",
    ),
    # The code is good for one connection: the server is not restarted.
    "one-time code (CRV1)": dict(
        client="auth-user-pass\n",
        server=VERIFY.replace("SCRIPT", "challenge") + NO_CERTIFICATE,
        modify=PASSWORD_DATA,
        asks=True,
        restarts=False,
    ),
    "tls-crypt": dict(client=CERTIFICATE + "tls-crypt PKI/tls.key\n", server="tls-crypt PKI/tls.key\n"),
    "tls-auth": dict(client=CERTIFICATE + "tls-auth PKI/tls.key 1\n", server="tls-auth PKI/tls.key 0\n"),
    "split routes, IPv6": dict(
        client=CERTIFICATE,
        server="server-ipv6 fd00:88::/64\n"
        'push "route 10.55.0.0 255.255.0.0"\n'
        'push "route 10.66.1.0 255.255.255.0 vpn_gateway 50"\n'
        'push "route-ipv6 fd00:55::/32"\n',
        modify=["ipv4.never-default", "yes", "ipv6.never-default", "yes"],
        inner=[INNER4, INNER6],
    ),
    "http-proxy": dict(
        tcp=True,
        proxy=True,
        client=CERTIFICATE + f"http-proxy {SERVER} {PROXY_PORT}\n",
        modify=["+vpn.data", "http-proxy-username=ann", "+vpn.data", "http-proxy-password-flags=1"],
        passwords=f"vpn.secrets.http-proxy-password:{PROXY_PASSWORD}\n",
    ),
}

PASSWORD_SCRIPT = """#!/bin/sh
[ "$(sed -n 1p "$1")/$(sed -n 2p "$1")" = ann/s3cret ]
"""
CHALLENGE_SCRIPT = """#!/bin/sh
case "$(sed -n 1p "$1")/$(sed -n 2p "$1")" in
    ann/s3cret) printf 'CRV1:R,E:c3RhdGU=:YW5u:One-time code' >"$auth_failed_reason_file"; exit 1 ;;
    ann/CRV1::c3RhdGU=::123456) exit 0 ;;
esac
exit 1
"""
# In place of the dialog program of network-manager-openvpn-gnome, which needs GTK: it tells nmcli which secret to ask for. A question
# of the server comes as a hint with its text; plugin 1.10 takes the answer as the password.
DIALOG = """#!/bin/sh
label=password
case "$*" in *x-vpn-message:*) label=code ;; esac
while read -r line && [ "$line" != QUIT ]; do :; done
printf '[VPN Plugin UI]\\nVersion=2\\nTitle=VPN\\nDescription=%s\\n\\n' "$label"
printf '[password]\\nValue=\\nLabel=%s\\nIsSecret=true\\nShouldAsk=true\\n' "$label"
"""
