//! A client's script for Windows 10 and 11 (`.ps1`), by Microsoft's modules VpnClient and PKI.

use std::fmt::Write as _;

use adit_setup::Login;
use zeroize::Zeroizing;

use super::facts::Facts;

/// Room for the script, so that it never moves and leaves a copy of a key behind.
const ROOM: usize = 32 << 10;

/// The script: it imports the certificates and makes the connection. Names and hosts have no character that ends a quoted text.
pub(super) fn script(facts: &Facts<'_>) -> Zeroizing<Vec<u8>> {
    let mut text = Zeroizing::new(String::with_capacity(ROOM));
    let (name, host, title) = (facts.name, facts.host, facts.title());
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        "# IKEv2 client {name} of {host}, made by `adit add-client`, for Windows 10 and 11. As administrator:\n\
         #   powershell -ExecutionPolicy Bypass -File {name}.ps1\n\
         # It holds a key or a password: keep it readable by its owner alone, and delete it when it has run.\n\
         #Requires -RunAsAdministrator\n\
         $ErrorActionPreference = 'Stop'\n\
         $name = '{title}'\n\
         \n\
         # The authority of the server's certificate.\n\
         $file = Join-Path $env:TEMP 'adit-ca.cer'\n\
         [IO.File]::WriteAllBytes($file, [Convert]::FromBase64String('{authority}'))\n\
         Import-Certificate -FilePath $file -CertStoreLocation Cert:\\LocalMachine\\Root | Out-Null\n\
         Remove-Item $file\n",
        authority = facts.authority_base64,
    );
    if let Login::Certificate { password, .. } = facts.login {
        let _ = write!(
            text,
            "\n\
             # The client's certificate with its key.\n\
             $file = Join-Path $env:TEMP 'adit-client.pfx'\n\
             $password = ConvertTo-SecureString -String '{password}' -AsPlainText -Force\n\
             [IO.File]::WriteAllBytes($file, [Convert]::FromBase64String('{container}'))\n\
             try {{ Import-PfxCertificate -FilePath $file -CertStoreLocation Cert:\\LocalMachine\\My -Password $password | Out-Null }}\n\
             finally {{ Remove-Item $file }}\n",
            container = facts.container.as_str(),
            password = password.as_str(),
        );
    }
    text.push_str(&connection(facts));
    if let Login::Password(password) = facts.login {
        let _ = writeln!(
            text,
            "Write-Host 'At the first connection, enter the name {name} and the password {password}'",
            password = password.as_str(),
        );
    }
    Zeroizing::new(std::mem::take(&mut *text).into_bytes())
}

/// The connection, with the algorithms that the server takes: Windows offers MODP of 1024 bits by itself.
fn connection(facts: &Facts<'_>) -> String {
    let method = if facts.has_certificate() { "MachineCertificate" } else { "Eap -RememberCredential" };
    let split = if facts.is_full() { "" } else { " -SplitTunneling" };
    let mut text = format!(
        "\n\
         if (Get-VpnConnection -Name $name -ErrorAction SilentlyContinue) {{ Remove-VpnConnection -Name $name -Force }}\n\
         Add-VpnConnection -Name $name -ServerAddress '{host}' -TunnelType Ikev2 -AuthenticationMethod {method} -EncryptionLevel Required{split}\n\
         Set-VpnConnectionIPsecConfiguration -ConnectionName $name -EncryptionMethod GCMAES256 -IntegrityCheckMethod SHA256 -DHGroup ECP256 \
         -CipherTransformConstants GCMAES256 -AuthenticationTransformConstants GCMAES256 -PfsGroup None -Force\n",
        host = facts.host,
    );
    for network in facts.networks.iter().filter(|_| !facts.is_full()) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "Add-VpnConnectionRoute -ConnectionName $name -DestinationPrefix '{network}'");
    }
    text
}
