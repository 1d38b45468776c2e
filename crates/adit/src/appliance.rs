//! `adit appliance`: images of a kernel and adit, without a general operating system.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use adit_appliance::{Compression, Image, Sizes};
use adit_host::exit;

/// The stub of EFI programs, where Debian's package systemd-boot-efi and others have it.
const STUB: &str = "/usr/lib/systemd/boot/efi/linuxx64.efi.stub";
/// The kernel's command line in the EFI program: both consoles, and a restart ten seconds after a failure of the kernel.
const COMMAND_LINE: &str = "console=tty0 console=ttyS0 quiet panic=10";

/// Make appliances: machines that run adit and nothing else
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Build(Build),
}

/// Make an image of a kernel, this program and configurations: `vmlinuz`, `initramfs`, and an EFI program of both
#[derive(clap::Args)]
struct Build {
    /// The folder that gets the image
    #[arg(value_name = "OUT")]
    out: PathBuf,
    /// The configurations to run, as for `adit up`
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// A file or folder that a configuration names: it lies beside the configurations in the image. May be repeated
    #[arg(long, value_name = "PATH")]
    with: Vec<PathBuf>,
    /// The machine's settings: addresses of its network devices, name servers, where the log goes. Without them each Ethernet
    /// device gets addresses by DHCP and router advertisements
    #[arg(long, value_name = "FILE")]
    network: Option<PathBuf>,
    /// The kernel; without it, that of the running system
    #[arg(long, value_name = "FILE")]
    kernel: Option<PathBuf>,
    /// The folder of the kernel's modules; without it, that of the running system's
    #[arg(long, value_name = "FOLDER")]
    modules: Option<PathBuf>,
    /// A further module to load. May be repeated
    #[arg(long, value_name = "NAME")]
    module: Vec<String>,
    /// How the initramfs is compressed: xz is smaller by a quarter, gzip is made and unpacked sooner
    #[arg(long, value_name = "NAME", value_enum, default_value_t = Compress::Xz)]
    compress: Compress,
    /// The stub of the EFI program: systemd's linuxx64.efi.stub; without it, that of the running system
    #[arg(long, value_name = "FILE")]
    stub: Option<PathBuf>,
    /// The kernel's command line in the EFI program
    #[arg(long, value_name = "WORDS", default_value = COMMAND_LINE, allow_hyphen_values = true)]
    command_line: String,
}

/// The name of a compression.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Compress {
    Xz,
    Gzip,
}

impl From<Compress> for Compression {
    fn from(name: Compress) -> Self {
        match name {
            Compress::Xz => Compression::Xz,
            Compress::Gzip => Compression::Gzip,
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: Args) -> ExitCode {
    let Command::Build(build) = args.command;
    let image = image(build);
    match adit_appliance::build(&image) {
        Ok(sizes) => {
            report(&image, &sizes);
            ExitCode::SUCCESS
        }
        Err(error) => exit::failure(error),
    }
}

fn image(build: Build) -> Image {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let installed = Some(PathBuf::from(STUB)).filter(|stub| stub.is_file());
    Image {
        out: build.out,
        files: build.files,
        with: build.with,
        settings: build.network,
        kernel: build.kernel.unwrap_or_else(|| Path::new("/boot").join(format!("vmlinuz-{release}"))),
        modules: build.modules.unwrap_or_else(|| Path::new("/lib/modules").join(release)),
        more_modules: build.module,
        compression: build.compress.into(),
        command_line: build.command_line,
        stub: build.stub.or(installed),
    }
}

fn report(image: &Image, sizes: &Sizes) {
    let mib = |bytes: u64| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
    let out = image.out.display();
    exit::say(format_args!("{out}/vmlinuz: {}", mib(sizes.kernel)));
    let (program, modules) = (mib(sizes.program), mib(sizes.modules));
    exit::say(format_args!("{out}/initramfs: adit {program}, the kernel's modules {modules}"));
    match sizes.efi {
        Some(bytes) => exit::say(format_args!("{out}/adit.efi: {}", mib(bytes))),
        None => exit::say(format_args!(
            "no EFI program: there is no {STUB} (package systemd-boot-efi); name another with --stub"
        )),
    }
}
