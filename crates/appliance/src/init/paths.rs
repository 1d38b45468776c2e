//! The files and folders of an image.

/// The program.
pub(crate) const PROGRAM: &str = "/adit";
/// The folder of the configurations, and of the files that they name.
pub(crate) const CONFIGURATIONS: &str = "/etc/adit";
/// The names of the configurations to run, one a line.
pub(crate) const LIST: &str = "/etc/adit.list";
/// The time when the image was made, in seconds since 1970.
pub(crate) const BUILT: &str = "/etc/adit.built";
/// The settings of the machine.
pub(crate) const SETTINGS: &str = "/etc/appliance.conf";
/// The name of the settings on a disk.
pub(crate) const SETTINGS_ON_DISK: &str = "appliance.conf";
/// The folder of the kernel's modules.
pub(crate) const MODULES: &str = "/lib/modules";
/// The modules in the order of loading, one a line, in their folder.
pub(crate) const LIST_OF_MODULES: &str = "list";
/// The file that the C library reads name servers from, in memory.
pub(crate) const RESOLV_CONF: &str = "/run/resolv.conf";
/// The folder of what outlasts a restart.
pub(crate) const STATE: &str = "/var/lib/adit";
/// The folder where a disk or a folder of the machine below appears that has the configurations.
pub(crate) const DISK: &str = "/config";
/// Folders that other file systems are mounted on.
pub(crate) const EMPTY_FOLDERS: [&str; 7] =
    ["proc", "sys", "dev", "run", "config", "etc/adit", "var/lib/adit"];
