//! WireGuard in a server's directory: `adit init --wireguard`, `adit add-client --wireguard`, and the part of `adit revoke` and
//! `adit renew`.
//!
//! The index is written before the files that follow from it, as for certificates: a key that is in a file is in the index,
//! so that it can be revoked.

mod client_file;
mod device;
mod server_file;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use adit_core::IpNet;
use adit_setup::files::{self, Access, Existing};
use adit_setup::{
    ClientName, Code, Directory, Endpoint, KeyProtocol, KeyServer, Keys, Layout, MadeClient, Peer,
    SetupError, random,
};
use adit_wireguard::{PresharedKey, PrivateKey, PublicKey};
use time::OffsetDateTime;
use zeroize::Zeroizing;

use crate::adapter::WireGuard;
use crate::interface::socket_path;
use crate::running::{self, Told};
use crate::{NAME, TITLE};

impl KeyProtocol for WireGuard {
    fn name(&self) -> &'static str {
        NAME
    }

    fn title(&self) -> &'static str {
        TITLE
    }

    fn check_device(&self, name: &str) -> Result<(), String> {
        device::check(name)
    }

    fn check(&self, keys: &Keys) -> Result<(), String> {
        let device = format!("{}.conf", keys.device);
        if adit_wireguard_config::interface_name(&device) != Some(keys.device.as_str()) {
            return Err("its WireGuard device is no name of a device".into());
        }
        let is_wrong = |peer: &&Peer| PublicKey::from_base64(&peer.public_key).is_none();
        match keys.peers.iter().find(is_wrong) {
            Some(peer) => Err(format!("the public key of {:?} is none", peer.name)),
            None => Ok(()),
        }
    }

    fn server(
        &self,
        endpoint: &Endpoint,
        layout: &Layout,
        options: &KeyServer<'_>,
    ) -> Result<Zeroizing<String>, SetupError> {
        let text = server_file::new(endpoint, &new_key()?, layout, options.port);
        server_file::check(&text, &format!("{}.conf", options.device))?;
        Ok(text)
    }

    fn add_client(
        &self,
        directory: &mut Directory,
        name: &ClientName,
        with_code: bool,
    ) -> Result<MadeClient, SetupError> {
        Server { directory }.add_client(name, with_code)
    }

    fn renew(&self, directory: &mut Directory, names: &[ClientName]) -> Result<Vec<PathBuf>, SetupError> {
        Server { directory }.renew(names)
    }

    fn remove_revoked(&self, directory: &Directory) -> Result<BTreeSet<String>, SetupError> {
        remove_revoked(directory)
    }

    fn shut_out(&self, directory: &mut Directory, name: &str) -> Result<(), SetupError> {
        let mut server = Server { directory };
        let keys = server.revoked_keys_of(name);
        if keys.is_empty() { Ok(()) } else { server.tell_removed(&keys, name) }
    }

    fn files(&self, directory: &Directory, name: &ClientName) -> Vec<PathBuf> {
        let [png, svg] = images(directory, name);
        vec![client_file(directory, name), png, svg]
    }
}

/// A server's directory, with the work on the files of WireGuard in it.
struct Server<'a> {
    directory: &'a mut Directory,
}

impl Server<'_> {
    /// Makes a client's keys and WireGuard file, and lets it in: by the server's file, and at once if the interface runs.
    fn add_client(&mut self, name: &ClientName, with_code: bool) -> Result<MadeClient, SetupError> {
        let server = self.directory.key_server()?;
        let path = client_file(self.directory, name);
        let text = match self.interrupted_file(name, &path, &server) {
            Some(text) => {
                let note = "an earlier `adit add-client` was interrupted after it made the WireGuard file";
                self.directory.note(note.into());
                text
            }
            None => self.new_client_file(name, &server, &path)?,
        };
        let made = self.finish_client(name, path, text, with_code)?;
        if made.path.to_str().and_then(adit_wireguard_config::interface_name).is_none() {
            self.directory.note(format!(
                "wg-quick takes names of 1 to 15 of `a-zA-Z0-9_=+.-`: give {name}.conf another name before it runs it"
            ));
        }
        Ok(made)
    }

    /// Makes new keys for clients that have WireGuard. Their addresses stay; the old keys are shut out.
    fn renew(&mut self, names: &[ClientName]) -> Result<Vec<PathBuf>, SetupError> {
        let server = self.directory.key_server()?;
        if let Some(unknown) = names.iter().find(|name| self.directory.index.peer(name.as_str()).is_none()) {
            return Err(SetupError::NoSuchClient(unknown.to_string()));
        }
        let mut paths = Vec::new();
        for name in names {
            let Some(old) = self.directory.index.peer(name.as_str()).cloned() else { continue };
            let path = client_file(self.directory, name);
            let keys = self.begin_client(name, old.addresses.clone())?;
            let text = self.client_text(name, &keys, &old.addresses, &server)?;
            // The client's file first: what the server has no longer, the client need not have.
            files::write(&path, text.as_bytes(), Access::Owner, Existing::Replace)?;
            let replaced = PublicKey::from_base64(&old.public_key);
            self.let_into_file(name, &keys, &old.addresses, &server, replaced)?;
            let has_images = images(self.directory, name).iter().any(|image| image.exists());
            paths.push(self.finish_client(name, path, text, has_images)?.path);
            let revoked = self.revoked_keys_of(name.as_str());
            self.tell_removed(&revoked, name.as_str())?;
        }
        Ok(paths)
    }

    /// The revoked keys of a client.
    fn revoked_keys_of(&self, name: &str) -> Vec<PublicKey> {
        self.directory.index.revoked_keys_of(name).into_iter().filter_map(PublicKey::from_base64).collect()
    }

    /// The file of an earlier attempt, which came as far as the file, but not to its end.
    fn interrupted_file(&self, name: &ClientName, path: &Path, server: &Path) -> Option<Zeroizing<String>> {
        let text = files::read(path).ok()?;
        let config = adit_wireguard_config::parse(text.as_bytes(), "").ok()?.config;
        let key = config.interface.private_key?.public_key();
        let is_let_in = server_file::public_keys(&files::read(server).ok()?).contains(&key);
        (is_let_in && self.directory.index.is_unfinished_peer(name.as_str(), &key.to_base64()))
            .then_some(text)
    }

    fn new_client_file(
        &mut self,
        name: &ClientName,
        server: &Path,
        path: &Path,
    ) -> Result<Zeroizing<String>, SetupError> {
        if self.directory.index.has_peer(name.as_str()) || path.exists() {
            return Err(self.wireguard_name_taken(name, path));
        }
        let mut taken = self.directory.index.addresses_of_others(name.as_str());
        let peers = server_config(server)?.peers;
        let by_hand = peers.iter().filter(|peer| !self.directory.index.has_key(&peer.public_key.to_base64()));
        taken.extend(by_hand.flat_map(|peer| &peer.allowed_ips).filter_map(host));
        let addresses = self.directory.layout()?.free_addresses(&taken);
        let addresses = addresses.ok_or_else(|| self.directory.no_address())?;
        let keys = self.begin_client(name, addresses.clone())?;
        let text = self.client_text(name, &keys, &addresses, server)?;
        self.let_into_file(name, &keys, &addresses, server, None)?;
        files::write(path, text.as_bytes(), Access::Owner, Existing::Keep)?;
        Ok(text)
    }

    /// Makes keys for a client and notes them in the index.
    fn begin_client(&mut self, name: &ClientName, addresses: Vec<IpAddr>) -> Result<ClientKeys, SetupError> {
        let now = OffsetDateTime::now_utc();
        let keys = ClientKeys { private: new_key()?, preshared: PresharedKey::new(*random()?) };
        let peer = Peer::new(name.as_str(), keys.private.public_key().to_base64(), addresses, now);
        self.directory.index.begin_peer(peer, now);
        self.directory.write_index()?;
        Ok(keys)
    }

    /// The client's file.
    fn client_text(
        &self,
        name: &ClientName,
        keys: &ClientKeys,
        addresses: &[IpAddr],
        server: &Path,
    ) -> Result<Zeroizing<String>, SetupError> {
        let interface = server_config(server)?.interface;
        let key = interface.private_key;
        let (Some(key), Some(port @ 1..)) = (key, interface.listen_port) else {
            let text = format!("{} needs a PrivateKey and a ListenPort", server.display());
            return Err(SetupError::KeyFile(text));
        };
        let client =
            client_file::Client { name, key: &keys.private, preshared_key: &keys.preshared, addresses };
        let endpoint = Endpoint { host: self.directory.index.endpoint.host.clone(), port };
        let text = client_file::text(&client, &endpoint, key.public_key(), &self.directory.layout()?);
        server_file::check(&text, &format!("{name}.conf"))?;
        Ok(text)
    }

    /// Puts the client into the server's file, without what is revoked and without the key that it replaces.
    fn let_into_file(
        &self,
        name: &ClientName,
        keys: &ClientKeys,
        addresses: &[IpAddr],
        server: &Path,
        replaced: Option<PublicKey>,
    ) -> Result<(), SetupError> {
        let old = files::read(server)?;
        let revoked: Vec<PublicKey> =
            self.directory.index.revoked_keys().filter_map(|(key, _)| PublicKey::from_base64(key)).collect();
        let is_out = |key: &PublicKey| revoked.contains(key) || Some(*key) == replaced;
        let kept = server_file::without_peers(&old, &is_out).unwrap_or(old);
        let (public_key, preshared_key) = (keys.private.public_key(), &keys.preshared);
        let peer = server_file::Peer { name, public_key, preshared_key, addresses };
        let text = server_file::with_peer(&kept, &peer);
        server_file::check(&text, &server.display().to_string())?;
        files::write(server, text.as_bytes(), Access::Owner, Existing::Replace)
    }

    /// Finishes an attempt whose file is written: writes the images, ends the attempt in the index, and tells the interface.
    fn finish_client(
        &mut self,
        name: &ClientName,
        path: PathBuf,
        text: Zeroizing<String>,
        with_code: bool,
    ) -> Result<MadeClient, SetupError> {
        let code = with_code.then(|| Code::new(&client_file::condensed(&text))).transpose()?;
        if let Some(code) = &code {
            let [png, svg] = images(self.directory, name);
            files::write(&png, &code.png(), Access::Owner, Existing::Replace)?;
            files::write(&svg, code.svg().as_bytes(), Access::Owner, Existing::Replace)?;
        }
        self.directory.index.finish_peer(name.as_str(), OffsetDateTime::now_utc());
        self.directory.write_index()?;
        self.tell_added(name, &text);
        Ok(MadeClient { path, text, code })
    }

    /// Lets a client into the running interface. It is in the file, so what fails is only said.
    fn tell_added(&mut self, name: &ClientName, text: &str) {
        let Some(device) = self.directory.index.keys.as_ref().map(|keys| keys.device.clone()) else {
            return;
        };
        let Ok(parsed) = adit_wireguard_config::parse(text.as_bytes(), "") else { return };
        let interface = &parsed.config.interface;
        let key = interface.private_key.as_ref();
        let preshared_key = parsed.config.peers.first().and_then(|peer| peer.preshared_key.as_ref());
        let (Some(key), Some(preshared_key)) = (key, preshared_key) else { return };
        let addresses: Vec<_> = interface.addresses.iter().map(IpNet::addr).collect();
        let order = running::addition(key.public_key(), preshared_key, &addresses);
        let why = match running::tell(&socket_path(&device), &order) {
            Ok(Told::Done) => {
                // An interface that is not adit's has no such settings, and loses nothing.
                let _ = running::tell(
                    &socket_path(&device),
                    &running::own_settings(key.public_key(), name.as_str()),
                );
                return;
            }
            Ok(Told::NotRunning) if !is_there(&device) => return,
            Ok(Told::NotRunning) => "it has no socket for `wg`".to_owned(),
            Err(error) => error.to_string(),
        };
        self.directory.note(format!(
            "the running interface {device} does not know {name} yet ({why}): {}",
            self.reload_command(&device)
        ));
    }

    /// Has the running interface forget keys of a client.
    ///
    /// # Errors
    /// It runs and did not: the client is not shut out.
    fn tell_removed(&mut self, keys: &[PublicKey], name: &str) -> Result<(), SetupError> {
        let Some(device) = self.directory.index.keys.as_ref().map(|keys| keys.device.clone()) else {
            return Ok(());
        };
        let command = self.reload_command(&device);
        match running::tell(&socket_path(&device), &running::removal(keys)) {
            Ok(Told::Done) => {}
            Ok(Told::NotRunning) => self.directory.note(format!(
                "no interface {device} listens to `wg` here; if the server runs, {command}, and {name} is out of it as well"
            )),
            Err(error) => return Err(SetupError::NotShutOut { name: name.into(), device, why: error.to_string(), command }),
        }
        Ok(())
    }

    /// The command by which a running server reads its file again.
    fn reload_command(&self, device: &str) -> String {
        let file = self.directory.dir.join(format!("{device}.conf"));
        let file = std::path::absolute(&file).unwrap_or(file);
        format!(
            "send `adit up` a SIGHUP, or run: bash -c 'wg syncconf {device} <(wg-quick strip {})'",
            file.display()
        )
    }

    fn wireguard_name_taken(&self, name: &ClientName, path: &Path) -> SetupError {
        let advice = if path.exists() {
            format!("its WireGuard file is {}; choose another name for another client", path.display())
        } else {
            format!(
                "choose another name, or make a new file with new keys for it: adit renew {} {name} --wireguard",
                self.directory.dir.display()
            )
        };
        SetupError::NameTaken { name: name.to_string(), advice }
    }
}

/// Takes the keys that the index has as revoked out of the server's file, and gives the names of the clients that were in it.
fn remove_revoked(directory: &Directory) -> Result<BTreeSet<String>, SetupError> {
    let Ok(path) = directory.key_server() else { return Ok(BTreeSet::new()) };
    if !path.exists() {
        return Ok(BTreeSet::new());
    }
    let text = files::read(&path)?;
    let there = server_file::public_keys(&text);
    let revoked = directory.index.revoked_keys();
    let revoked = revoked.filter_map(|(key, name)| Some((PublicKey::from_base64(key)?, name)));
    let revoked: Vec<(PublicKey, &str)> = revoked.filter(|(key, _)| there.contains(key)).collect();
    let names = revoked.iter().map(|(_, name)| (*name).to_owned()).collect();
    let is_out = |key: &PublicKey| revoked.iter().any(|(out, _)| out == key);
    if let Some(text) = server_file::without_peers(&text, &is_out) {
        files::write(&path, text.as_bytes(), Access::Owner, Existing::Replace)?;
    }
    Ok(names)
}

/// The path of a client's file.
fn client_file(directory: &Directory, name: &ClientName) -> PathBuf {
    directory.client_file(name, "conf")
}

/// The paths of the images of a client's QR code.
fn images(directory: &Directory, name: &ClientName) -> [PathBuf; 2] {
    ["png", "svg"].map(|ending| directory.client_file(name, ending))
}

fn server_config(path: &Path) -> Result<adit_wireguard_config::Config, SetupError> {
    server_file::check(&files::read(path)?, &path.display().to_string())
}

/// A client's secrets.
struct ClientKeys {
    private: PrivateKey,
    preshared: PresharedKey,
}

fn new_key() -> Result<PrivateKey, SetupError> {
    let failed = || SetupError::Random("it gave zeros alone".into());
    PrivateKey::new(*random()?).ok_or_else(failed)
}

/// The address of a peer that has one alone.
fn host(allowed: &adit_wireguard::AllowedIp) -> Option<IpAddr> {
    match allowed {
        adit_wireguard::AllowedIp::Add(net) if net.prefix_len() == net.max_prefix_len() => Some(net.addr()),
        _ => None,
    }
}

/// Whether the system has a device of that name, which may be Linux's own WireGuard.
fn is_there(device: &str) -> bool {
    Path::new("/sys/class/net").join(device).exists()
}

/// Networks as a value of a file.
fn listed(networks: &[IpNet]) -> String {
    networks.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
