//! The adapter of the small protocol `adit-toy`, for tests alone: the proof that a protocol comes into the program by a folder and one
//! line in the table of adapters. The program has it behind the feature `toy`.
#![forbid(unsafe_code)]

mod dialect;
mod tunnel;

use std::path::{Path, PathBuf};

use adit_host::adapter::{Adapter, Configuration, Disposition, Problem, Setting, Tunnel, Unreadable};
use adit_host::facts::{AddressFamily, Facts, ResourceKind, Stated};
use adit_host::failure::Failure;
use adit_host::remarks::Remarks;

use crate::dialect::File;
use crate::tunnel::ToyTunnel;

/// The name of the protocol in the command line of a helper.
const NAME: &str = "toy";

/// The protocol.
#[derive(Debug)]
pub struct Toy;

impl Adapter for Toy {
    fn name(&self) -> &'static str {
        NAME
    }

    fn recognizes(&self, text: &[u8]) -> bool {
        text.starts_with(dialect::MARK.as_bytes())
    }

    fn read(&self, file: &Path, text: &[u8]) -> Result<Box<dyn Configuration>, Unreadable> {
        let content = dialect::parse(file, text)
            .map_err(|problem| Unreadable { problems: vec![problem], report: Vec::new() })?;
        Ok(Box::new(ToyConfiguration { file: file.to_owned(), content }))
    }

    fn helper_files(&self) -> adit_guard::Dialect {
        tunnel::HELPER
    }
}

/// A file that was read and found good.
struct ToyConfiguration {
    file: PathBuf,
    content: File,
}

impl Configuration for ToyConfiguration {
    fn file(&self) -> &Path {
        &self.file
    }

    /// Empty: each line is used as it stands.
    fn report(&self) -> &[Disposition] {
        &[]
    }

    fn warnings(&self) -> &[Problem] {
        &[]
    }

    fn facts(&self) -> Facts {
        let device = ResourceKind::Device(self.content.device.clone()).exclusive();
        let listen = self.content.listen.map(|address| {
            let port = ResourceKind::Address(adit_core::Transport::Udp, address.ip(), address.port());
            Stated::by(&["listen"], port.exclusive())
        });
        let all = |peer: &dialect::Peer| peer.network.prefix_len() == 0;
        let default_route =
            self.content.peers.iter().any(all).then(|| Stated::by(&["peer"], AddressFamily::V4));
        Facts {
            protocol: NAME,
            resources: std::iter::once(Stated::by(&["device"], device)).chain(listen).collect(),
            networks: vec![Stated::by(&["address"], self.content.address)],
            default_routes: default_route.into_iter().collect(),
            excludes_networks: true,
            ..Facts::default()
        }
    }

    fn check(&self, _remarks: &mut Remarks) -> Result<(), Failure> {
        Ok(())
    }

    fn kill_switch_mark(&self, _number: usize) -> Result<Option<u32>, &'static str> {
        Err("tunnels that mark their datagrams")
    }

    fn tunnel<'a>(self: Box<Self>, setting: Setting<'a>) -> Box<dyn Tunnel + 'a> {
        Box::new(ToyTunnel::new(self.file, self.content, setting))
    }
}
