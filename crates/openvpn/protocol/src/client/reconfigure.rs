//! Other settings for a client that runs.

use std::sync::Arc;

use super::Client;
use crate::params::{ClientParams, ControlParams};

impl Client {
    /// Takes other settings, which hold from the next connection on ([`adit_core::Command::Restart`] makes one). Username and
    /// password stay, whatever `params` say.
    pub fn reconfigure(&mut self, params: ClientParams) {
        let params = ClientParams { auth: self.params.auth.clone(), ..params };
        if params.remotes != self.params.remotes {
            self.remote = 0;
        }
        self.control = Arc::new(ControlParams::clone(&params.control));
        self.params = Arc::new(params);
    }
}
