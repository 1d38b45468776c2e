//! The size of an image, its memory, and how soon it connects.

mod long {
    use std::path::PathBuf;
    use std::time::{Duration, Instant};

    use adit_testbed::Usage;

    use super::super::bed::Bed;

    /// Names the program of the image: one that was built for a release is smaller and starts sooner than that of the tests.
    const PROGRAM: &str = "ADIT_APPLIANCE_PROGRAM";
    /// MiB of memory.
    const MEMORY: u32 = 128;
    /// Most MiB of a release's program with its libraries and configurations, compressed.
    const LARGEST: f64 = 8.0;

    #[test]
    #[ignore = "long: a minute, most of it for xz"]
    fn an_image_is_small_and_connects_soon_in_128_mib() {
        let Some(bed) = Bed::for_test("an_image_is_small_and_connects_soon_in_128_mib") else { return };
        let release = std::env::var_os(PROGRAM).map(PathBuf::from);
        let program = release.clone().unwrap_or_else(|| env!("CARGO_BIN_EXE_adit").into());
        let [server, client] = bed.write_wireguard();
        let settings = bed.scratch.write("appliance.conf", "[eth0]\naddress = 10.9.0.2/24\n").unwrap();
        let built = bed.build_by(&program, &[&client], &["--network", settings.to_str().unwrap()]);
        let _server = bed.up(&server);
        let start = Instant::now();
        let machine = bed.boot_in(&built.folder, &["10.9.0.1/24"], MEMORY);
        bed.wait_for_answer(&machine, "10.77.0.2");
        let taken = start.elapsed();
        // Of a busy computer this says more than the time.
        let processor = Usage::of(&[machine.process.id()]).processor_seconds;
        eprintln!(
            "{}{} bytes in all; first answer after {taken:.1?} and {processor:.1} s of a processor in {MEMORY} MiB",
            built.report, built.size
        );
        let (_, rest) = built.report.split_once("initramfs: adit ").unwrap();
        let part: f64 = rest.split(' ').next().unwrap().parse().unwrap();
        let limits = if release.is_some() { (LARGEST, 10) } else { (2.0 * LARGEST, 60) };
        assert!(part <= limits.0, "{part} MiB");
        assert!(taken <= Duration::from_secs(limits.1), "{taken:?}\n{}", machine.process.log());
    }
}
