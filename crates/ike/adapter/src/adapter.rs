//! IKEv2 and IPsec as the program knows them.

use std::path::Path;

use adit_guard::Dialect;
use adit_host::adapter::{Adapter, Configuration, Unreadable};
use adit_host::adoption::Adoption;
use adit_host::blocking::{BlockError, BlockOrder};
use adit_ike_config::is_recognized;

use crate::adopt::StrongSwanUnits;
use crate::configuration::{HELPER, IpsecConfiguration};
use crate::{NAME, block_order};

/// IKEv2 and IPsec.
#[derive(Debug)]
pub struct Ipsec;

impl Adapter for Ipsec {
    fn name(&self) -> &'static str {
        NAME
    }

    fn title(&self) -> &'static str {
        "IPsec"
    }

    fn recognizes(&self, text: &[u8]) -> bool {
        is_recognized(text)
    }

    fn read(&self, file: &Path, text: &[u8]) -> Result<Box<dyn Configuration>, Unreadable> {
        Ok(Box::new(IpsecConfiguration::read(file, text)?))
    }

    fn helper_files(&self) -> Dialect {
        HELPER
    }

    fn adoption(&self) -> Option<&'static dyn Adoption> {
        Some(&StrongSwanUnits)
    }

    fn set_blocked(&self, order: &BlockOrder<'_>) -> Option<Result<String, BlockError>> {
        block_order::set(order)
    }
}
