//! WireGuard in a server's directory: `adit init --wireguard`, `adit add-client --wireguard`, and what `adit revoke` and
//! `adit renew` do of it.
//!
//! The index is written before the files that follow from it, as for certificates: a key that is in a file is in the index,
//! so that it can be revoked.

mod client_file;
mod device;
mod layout;

mod server_file;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use adit_core::IpNet;
use adit_wireguard::{PresharedKey, PrivateKey, PublicKey};
use time::OffsetDateTime;
use zeroize::Zeroizing;

pub(crate) use self::device::{DEFAULT_DEVICE, DeviceName};

use self::layout::Layout;
use super::files::{self, Access, Existing};
use super::index::Peer;
use super::qr::Code;
use super::{ClientName, Endpoint, INDEX, SERVER, SetupError, Workshop, random};
use adit_wireguard_adapter::running::{self, Told};
use adit_wireguard_adapter::socket_path;

/// What a new WireGuard server is made of.
#[derive(Clone, Debug)]
pub(crate) struct WireGuardOptions {
    /// The device of the tunnel, where server.conf names none.
    pub(crate) device: Option<DeviceName>,
    /// Its UDP port.
    pub(crate) port: u16,
}

/// A client's WireGuard file, and its QR code if that was asked for.
pub(crate) struct MadeClient {
    pub(crate) path: PathBuf,
    pub(crate) text: Zeroizing<String>,
    pub(crate) code: Option<Code>,
}

/// The files of a server that begins to have WireGuard.
pub(super) struct NewServer {
    pub(super) device: String,
    /// server.conf, with room for WireGuard's clients.
    pub(super) openvpn: Zeroizing<String>,
    pub(super) wireguard: Zeroizing<String>,
}

/// The files that belong to the OpenVPN configuration `text`, which stands in `path` or is about to.
pub(super) fn new_server(
    (path, text): (&Path, &str),
    endpoint: &Endpoint,
    options: &WireGuardOptions,
) -> Result<NewServer, SetupError> {
    let wanted = options.device.as_ref().map_or(DEFAULT_DEVICE, DeviceName::as_str);
    let openvpn = layout::with_room(text, &layout::parse(path, text)?, wanted);
    let layout = Layout::of(&layout::parse(path, &openvpn)?)?;
    let found = layout.device.as_deref().unwrap_or("tun");
    if found != wanted && options.device.is_some() {
        return Err(SetupError::Server(format!(
            "it has `dev {found}`, and both protocols share the device: leave out --dev, or write `dev {wanted}` there"
        )));
    }
    let device =
        found.parse::<DeviceName>().map_err(|why| SetupError::Server(format!("`dev {found}`: {why}")))?;
    let wireguard = server_file::new(endpoint, &new_key()?, &layout, options.port);
    server_file::check(&wireguard, &format!("{device}.conf"))?;
    Ok(NewServer { device: device.as_str().to_owned(), openvpn, wireguard })
}

impl Workshop {
    /// Whether there is a directory that `adit init` made.
    pub(crate) fn is_made(dir: &Path) -> bool {
        dir.join(INDEX).exists()
    }

    /// How clients reach the server by OpenVPN.
    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.index.endpoint
    }

    /// Adds WireGuard to the directory, and gives the path of the server's file.
    pub(crate) fn add_wireguard(&mut self, options: &WireGuardOptions) -> Result<PathBuf, SetupError> {
        let before = self.index.wireguard.clone();
        if before.as_ref().is_some_and(|wireguard| !wireguard.unfinished) {
            return Err(SetupError::HasWireGuard(self.dir.clone()));
        }
        let server = self.dir.join(SERVER);
        let old = files::read(&server)?;
        let new = new_server((server.as_path(), old.as_str()), &self.index.endpoint, options)?;
        let path = self.dir.join(format!("{}.conf", new.device));
        let left = before.map(|before| self.dir.join(format!("{}.conf", before.device)));
        if path.exists() && left.as_ref() != Some(&path) {
            return Err(SetupError::FileExists(path));
        }
        self.index.begin_wireguard(&new.device);
        if let Some(left) = left.filter(|left| *left != path) {
            // An interrupted attempt made it, for another device.
            files::remove(&left)?;
        }
        self.write_index()?;
        files::write(&path, new.wireguard.as_bytes(), Access::Owner, Existing::Replace)?;
        if *new.openvpn != *old {
            files::write(&server, new.openvpn.as_bytes(), Access::Owner, Existing::Replace)?;
            self.notes.push(format!(
                "server.conf has `dev {}` now, and a pool of the lower half of its network: restart the server",
                new.device
            ));
        }
        self.index.finish_wireguard();
        self.write_index()?;
        Ok(path)
    }

    /// Makes a client's keys and WireGuard file, and lets it in: by the server's file, and at once if the interface runs.
    pub(crate) fn add_wireguard_client(
        &mut self,
        name: &ClientName,
        with_code: bool,
    ) -> Result<MadeClient, SetupError> {
        let server = self.wireguard_file()?;
        let path = self.client_file(name);
        let text = match self.interrupted_file(name, &path, &server) {
            Some(text) => {
                let note = "an earlier `adit add-client` was interrupted after it made the WireGuard file";
                self.notes.push(note.into());
                text
            }
            None => self.new_client_file(name, &server, &path)?,
        };
        let made = self.finish_client(name, path, text, with_code)?;
        if made.path.to_str().and_then(adit_wireguard_config::interface_name).is_none() {
            self.notes.push(format!(
                "wg-quick takes names of 1 to 15 of `a-zA-Z0-9_=+.-`: give {name}.conf another name before it runs it"
            ));
        }
        Ok(made)
    }

    /// Makes new keys for clients that have WireGuard. Their addresses stay; the old keys are shut out.
    pub(crate) fn renew_wireguard(&mut self, names: &[ClientName]) -> Result<Vec<PathBuf>, SetupError> {
        let server = self.wireguard_file()?;
        if let Some(unknown) = names.iter().find(|name| self.index.peer(name.as_str()).is_none()) {
            return Err(SetupError::NoSuchClient(unknown.to_string()));
        }
        let mut paths = Vec::new();
        for name in names {
            let Some(old) = self.index.peer(name.as_str()).cloned() else { continue };
            let path = self.client_file(name);
            let keys = self.begin_client(name, old.addresses.clone())?;
            let text = self.client_text(name, &keys, &old.addresses, &server)?;
            // The client's file first: what the server has no longer, the client need not have.
            files::write(&path, text.as_bytes(), Access::Owner, Existing::Replace)?;
            let replaced = PublicKey::from_base64(&old.public_key);
            self.let_into_file(name, &keys, &old.addresses, &server, replaced)?;
            let has_images = self.images(name).iter().any(|image| image.exists());
            paths.push(self.finish_client(name, path, text, has_images)?.path);
            self.tell_removed(&self.index.revoked_keys_of(name.as_str()), name.as_str())?;
        }
        Ok(paths)
    }

    /// Takes what the index has as revoked out of the server's file, and gives the names of those that were in it.
    pub(super) fn remove_revoked_peers(&self) -> Result<BTreeSet<String>, SetupError> {
        let Ok(path) = self.wireguard_file() else { return Ok(BTreeSet::new()) };
        if !path.exists() {
            return Ok(BTreeSet::new());
        }
        let text = files::read(&path)?;
        let there = server_file::public_keys(&text);
        let revoked: Vec<(PublicKey, &str)> =
            self.index.revoked_keys().filter(|(key, _)| there.contains(key)).collect();
        let names = revoked.iter().map(|(_, name)| (*name).to_owned()).collect();
        let is_out = |key: &PublicKey| revoked.iter().any(|(out, _)| out == key);
        if let Some(text) = server_file::without_peers(&text, &is_out) {
            files::write(&path, text.as_bytes(), Access::Owner, Existing::Replace)?;
        }
        Ok(names)
    }

    /// Has the running interface forget all revoked keys of a client.
    pub(super) fn shut_out_of_interface(&mut self, name: &str) -> Result<(), SetupError> {
        let keys = self.index.revoked_keys_of(name);
        if keys.is_empty() { Ok(()) } else { self.tell_removed(&keys, name) }
    }

    /// Where a client's WireGuard file is.
    pub(super) fn client_file(&self, name: &ClientName) -> PathBuf {
        self.dir.join("clients").join(format!("{name}.conf"))
    }

    /// Where the images of a client's QR code are.
    pub(super) fn images(&self, name: &ClientName) -> [PathBuf; 2] {
        ["png", "svg"].map(|ending| self.dir.join("clients").join(format!("{name}.{ending}")))
    }

    /// The server's file, in a directory that has WireGuard.
    fn wireguard_file(&self) -> Result<PathBuf, SetupError> {
        match &self.index.wireguard {
            Some(wireguard) if !wireguard.unfinished => {
                Ok(self.dir.join(format!("{}.conf", wireguard.device)))
            }
            _ => Err(SetupError::NoWireGuard(self.dir.clone())),
        }
    }

    /// The file of an earlier attempt, which came as far as the file, but not to its end.
    fn interrupted_file(&self, name: &ClientName, path: &Path, server: &Path) -> Option<Zeroizing<String>> {
        let text = files::read(path).ok()?;
        let config = adit_wireguard_config::parse(text.as_bytes(), "").ok()?.config;
        let key = config.interface.private_key?.public_key();
        let is_let_in = server_file::public_keys(&files::read(server).ok()?).contains(&key);
        (is_let_in && self.index.is_unfinished_peer(name.as_str(), key)).then_some(text)
    }

    fn new_client_file(
        &mut self,
        name: &ClientName,
        server: &Path,
        path: &Path,
    ) -> Result<Zeroizing<String>, SetupError> {
        if self.index.has_peer(name.as_str()) || path.exists() {
            return Err(self.wireguard_name_taken(name, path));
        }
        let mut taken = self.index.addresses_of_others(name.as_str());
        let peers = self.server_config(server)?.peers;
        let by_hand = peers.iter().filter(|peer| !self.index.has_key(peer.public_key));
        taken.extend(by_hand.flat_map(|peer| &peer.allowed_ips).filter_map(host));
        let addresses = self.layout()?.free_addresses(&taken).ok_or(SetupError::NoAddress)?;
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
        self.index.begin_peer(Peer::new(name.as_str(), keys.private.public_key(), addresses, now), now);
        self.write_index()?;
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
        let interface = self.server_config(server)?.interface;
        let key = interface.private_key;
        let (Some(key), Some(port @ 1..)) = (key, interface.listen_port) else {
            let text = format!("{} needs a PrivateKey and a ListenPort", server.display());
            return Err(SetupError::WireGuardFile(text));
        };
        let client =
            client_file::Client { name, key: &keys.private, preshared_key: &keys.preshared, addresses };
        let endpoint = Endpoint { host: self.index.endpoint.host.clone(), port };
        let text = client_file::text(&client, &endpoint, key.public_key(), &self.layout()?);
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
        let revoked: Vec<PublicKey> = self.index.revoked_keys().map(|(key, _)| key).collect();
        let is_out = |key: &PublicKey| revoked.contains(key) || Some(*key) == replaced;
        let kept = server_file::without_peers(&old, &is_out).unwrap_or(old);
        let (public_key, preshared_key) = (keys.private.public_key(), &keys.preshared);
        let peer = server_file::Peer { name, public_key, preshared_key, addresses };
        let text = server_file::with_peer(&kept, &peer);
        server_file::check(&text, &server.display().to_string())?;
        files::write(server, text.as_bytes(), Access::Owner, Existing::Replace)
    }

    /// What follows the client's file: its images, the end of the attempt in the index, and that the interface is told.
    fn finish_client(
        &mut self,
        name: &ClientName,
        path: PathBuf,
        text: Zeroizing<String>,
        with_code: bool,
    ) -> Result<MadeClient, SetupError> {
        let code = with_code.then(|| Code::new(&client_file::condensed(&text))).transpose()?;
        if let Some(code) = &code {
            let [png, svg] = self.images(name);
            files::write(&png, &code.png(), Access::Owner, Existing::Replace)?;
            files::write(&svg, code.svg().as_bytes(), Access::Owner, Existing::Replace)?;
        }
        self.index.finish_peer(name.as_str(), OffsetDateTime::now_utc());
        self.write_index()?;
        self.tell_added(name, &text);
        Ok(MadeClient { path, text, code })
    }

    /// Lets a client into the running interface. It is in the file, so what fails is only said.
    fn tell_added(&mut self, name: &ClientName, text: &str) {
        let Some(device) = self.index.wireguard.as_ref().map(|wireguard| wireguard.device.clone()) else {
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
        self.notes.push(format!(
            "the running interface {device} does not know {name} yet ({why}): {}",
            self.reload_command(&device)
        ));
    }

    /// Has the running interface forget keys of a client.
    ///
    /// # Errors
    /// It runs and did not: the client is not shut out.
    fn tell_removed(&mut self, keys: &[PublicKey], name: &str) -> Result<(), SetupError> {
        let Some(device) = self.index.wireguard.as_ref().map(|wireguard| wireguard.device.clone()) else {
            return Ok(());
        };
        let command = self.reload_command(&device);
        match running::tell(&socket_path(&device), &running::removal(keys)) {
            Ok(Told::Done) => {}
            Ok(Told::NotRunning) => self.notes.push(format!(
                "no interface {device} listens to `wg` here; if the server runs, {command}, and {name} is out of it as well"
            )),
            Err(error) => return Err(SetupError::NotShutOut { name: name.into(), device, why: error.to_string(), command }),
        }
        Ok(())
    }

    /// How a running server learns what its file says.
    fn reload_command(&self, device: &str) -> String {
        let file = self.dir.join(format!("{device}.conf"));
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
                self.dir.display()
            )
        };
        SetupError::NameTaken { name: name.to_string(), advice }
    }

    fn layout(&self) -> Result<Layout, SetupError> {
        let path = self.dir.join(SERVER);
        Layout::of(&layout::parse(&path, &files::read(&path)?)?)
    }

    fn server_config(&self, path: &Path) -> Result<adit_wireguard_config::Config, SetupError> {
        server_file::check(&files::read(path)?, &path.display().to_string())
    }
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
