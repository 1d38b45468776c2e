//! Other settings for a client that runs.

use std::sync::Arc;

use super::Client;
use crate::params::ClientParams;

impl Client {
    /// Takes other settings, which hold from the next connection on ([`adit_core::Command::Restart`] makes one). The servers and
    /// username and password stay, whatever `params` say.
    pub fn reconfigure(&mut self, params: ClientParams) {
        let (remotes, auth) = (self.params.remotes.clone(), self.params.auth.clone());
        let params = ClientParams { remotes, auth, ..params };
        self.control = Arc::new(params.control.clone());
        self.params = Arc::new(params);
    }
}
