//! Files of swanctl, with what they include and name. Line ends and comments change nothing; problems have a line and are plain text.
#![no_main]

use std::path::Path;

use adit_core::is_unprintable;
use adit_ike_config::{Entry, Files, parse};
use libfuzzer_sys::fuzz_target;
use zeroize::Zeroizing;

/// The parts of an input behind its first: files, each by its number as its name. All lie in every folder.
struct Parts<'a>(Vec<&'a [u8]>);

impl Files for Parts<'_> {
    fn read(&self, path: &Path) -> Result<Zeroizing<Vec<u8>>, String> {
        let number =
            path.file_name().and_then(|name| name.to_str()).and_then(|name| name.parse::<usize>().ok());
        let part = number.and_then(|number| self.0.get(number));
        part.map(|part| Zeroizing::new(part.to_vec())).ok_or_else(|| "No such file or directory".to_owned())
    }

    fn entries(&self, _: &Path) -> Result<Vec<Entry>, String> {
        let entry = |number: usize| Entry { name: number.to_string(), is_folder: false };
        Ok((0..self.0.len()).map(entry).collect())
    }
}

fuzz_target!(|data: &[u8]| {
    let mut parts = data.split(|byte| *byte == 0);
    let text = parts.next().unwrap_or_default();
    let parts = Parts(parts.take(4).collect());
    let result = parse("swanctl.conf", text, &parts);
    // A mark of byte order counts at the beginning alone.
    if [0xef, 0xfe, 0xff].iter().any(|byte| text.first() == Some(byte)) {
        return;
    }
    let commented = [b"# a comment }\n".as_slice(), text].concat();
    let again = parse("swanctl.conf", &commented, &parts);
    match (&result, &again) {
        (Ok(one), Ok(other)) => {
            assert_eq!(one.config, other.config);
            assert_eq!(one.report.len(), other.report.len());
            assert!(one.report.iter().all(|entry| !entry.to_string().contains(is_unprintable)));
        }
        (Err(one), Err(other)) => {
            assert!(!one.problems.is_empty() && one.problems.len() == other.problems.len());
            assert!(one.problems.iter().all(|problem| !problem.text.contains(is_unprintable)), "{one}");
        }
        _ => panic!("a comment changes what becomes of the file"),
    }
});
