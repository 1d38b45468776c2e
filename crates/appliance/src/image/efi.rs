//! An EFI program of a kernel, an initramfs and a command line: systemd's stub with a section for each of them
//! (systemd-stub(7); the UAPI group's "Unified Kernel Image").

use object::pe;
use object::pod::{bytes_of, from_bytes};
use object::read::pe::{ImageNtHeaders as _, ImageOptionalHeader as _};
use object::{LittleEndian as LE, U16, U32};

/// The parts of an EFI program.
pub(super) struct Parts<'a> {
    pub(super) kernel: &'a [u8],
    pub(super) initramfs: &'a [u8],
    pub(super) command_line: &'a str,
}

/// The text of `.osrel`, which boot menus show (os-release(5)).
const RELEASE: &str = concat!("ID=adit\nNAME=adit\nPRETTY_NAME=\"adit ", env!("CARGO_PKG_VERSION"), "\"\n");

/// The size of a page in bytes.
const PAGE: u32 = 4096;

/// The places in a stub's headers that change with a further section.
struct Layout {
    /// Offset of the file header.
    file_header: usize,
    /// Offset of the optional header.
    optional: usize,
    /// Offset of the first section's header.
    table: usize,
    /// Number of sections.
    sections: usize,
    /// Where the headers' room ends.
    end_of_headers: usize,
    /// The first address behind all sections.
    end_of_image: u32,
    section_alignment: u32,
    file_alignment: u32,
}

/// The stub with the parts.
///
/// # Errors
/// The fault of a stub that cannot hold them.
pub(super) fn program(stub: Vec<u8>, parts: &Parts<'_>) -> Result<Vec<u8>, &'static str> {
    let mut bytes = stub;
    let sections: [(&[u8], &[u8]); 4] = [
        (b".osrel", RELEASE.as_bytes()),
        (b".cmdline", parts.command_line.as_bytes()),
        (b".initrd", parts.initramfs),
        // The kernel is last: it may be unpacked in place, and needs room behind it.
        (b".linux", parts.kernel),
    ];
    for (name, content) in sections {
        let layout = layout(&bytes)?;
        add(&mut bytes, &layout, name, content)?;
    }
    Ok(bytes)
}

fn layout(bytes: &[u8]) -> Result<Layout, &'static str> {
    const NONE: &str = "no 64-bit EFI program: systemd's linuxx64.efi.stub is needed";
    let dos = pe::ImageDosHeader::parse(bytes).map_err(|_| NONE)?;
    let mut offset = u64::from(dos.nt_headers_offset());
    let start = offset as usize;
    let (headers, _) = pe::ImageNtHeaders64::parse(bytes, &mut offset).map_err(|_| NONE)?;
    let table = headers.sections(bytes, offset).map_err(|_| NONE)?;
    let optional = headers.optional_header();
    let end = table
        .iter()
        .map(|section| section.virtual_address.get(LE).saturating_add(section.virtual_size.get(LE)));
    let file_header = start + size_of::<U32<LE>>();
    Ok(Layout {
        file_header,
        optional: file_header + size_of::<pe::ImageFileHeader>(),
        table: offset as usize,
        sections: table.len(),
        end_of_headers: optional.size_of_headers() as usize,
        end_of_image: end.max().unwrap_or(0),
        // A firmware may protect pages of sections.
        section_alignment: optional.section_alignment().max(PAGE),
        file_alignment: optional.file_alignment().max(1),
    })
}

/// Adds a section of data behind the others.
fn add(bytes: &mut Vec<u8>, layout: &Layout, name: &[u8], content: &[u8]) -> Result<(), &'static str> {
    const LARGE: &str = "the program would be too large";
    let at = layout.table + layout.sections * size_of::<pe::ImageSectionHeader>();
    if at + size_of::<pe::ImageSectionHeader>() > layout.end_of_headers {
        return Err(
            "its headers have no room for further sections: systemd's linuxx64.efi.stub of version 252 or later is needed",
        );
    }
    let size = u32::try_from(content.len()).map_err(|_| LARGE)?;
    let address = layout.end_of_image.checked_next_multiple_of(layout.section_alignment).ok_or(LARGE)?;
    let end =
        address.checked_add(size).and_then(|end| end.checked_next_multiple_of(layout.section_alignment));
    bytes.resize(bytes.len().next_multiple_of(layout.file_alignment as usize), 0);
    let offset = u32::try_from(bytes.len()).map_err(|_| LARGE)?;
    bytes.extend_from_slice(content);
    bytes.resize(bytes.len().next_multiple_of(layout.file_alignment as usize), 0);
    let mut header = pe::ImageSectionHeader {
        name: [0; 8],
        virtual_size: U32::new(LE, size),
        virtual_address: U32::new(LE, address),
        size_of_raw_data: U32::new(LE, (bytes.len() as u32).saturating_sub(offset)),
        pointer_to_raw_data: U32::new(LE, offset),
        pointer_to_relocations: U32::new(LE, 0),
        pointer_to_linenumbers: U32::new(LE, 0),
        number_of_relocations: U16::new(LE, 0),
        number_of_linenumbers: U16::new(LE, 0),
        characteristics: U32::new(LE, pe::IMAGE_SCN_CNT_INITIALIZED_DATA | pe::IMAGE_SCN_MEM_READ),
    };
    for (to, from) in header.name.iter_mut().zip(name) {
        *to = *from;
    }
    let place = bytes.get_mut(at..at + size_of::<pe::ImageSectionHeader>()).ok_or(LARGE)?;
    place.copy_from_slice(bytes_of(&header));
    let number = u16::try_from(layout.sections + 1).map_err(|_| LARGE)?;
    change(bytes, layout.file_header, |header: &mut pe::ImageFileHeader| {
        header.number_of_sections.set(LE, number)
    })?;
    let end = end.ok_or(LARGE)?;
    change(bytes, layout.optional, |header: &mut pe::ImageOptionalHeader64| header.size_of_image.set(LE, end))
}

/// Changes a header at an offset.
fn change<T: object::Pod>(
    bytes: &mut [u8],
    offset: usize,
    change: impl FnOnce(&mut T),
) -> Result<(), &'static str> {
    const SHORT: &str = "its headers are cut short";
    let place = bytes.get_mut(offset..offset + size_of::<T>()).ok_or(SHORT)?;
    let mut header = *from_bytes::<T>(place).map_err(|()| SHORT)?.0;
    change(&mut header);
    place.copy_from_slice(bytes_of(&header));
    Ok(())
}

#[cfg(test)]
mod tests {
    use object::read::pe::PeFile64;
    use object::{Object as _, ObjectSection as _};

    use super::*;

    /// A program of one section, with room for `room` further headers.
    fn stub(room: usize) -> Vec<u8> {
        let dos = pe::ImageDosHeader {
            e_magic: U16::new(LE, pe::IMAGE_DOS_SIGNATURE),
            e_lfanew: U32::new(LE, size_of::<pe::ImageDosHeader>() as u32),
            ..*from_bytes::<pe::ImageDosHeader>(&[0; 64]).unwrap().0
        };
        let mut nt = *from_bytes::<pe::ImageNtHeaders64>(&[0; size_of::<pe::ImageNtHeaders64>()]).unwrap().0;
        nt.signature.set(LE, pe::IMAGE_NT_SIGNATURE);
        nt.file_header.machine.set(LE, pe::IMAGE_FILE_MACHINE_AMD64);
        nt.file_header.number_of_sections.set(LE, 1);
        nt.file_header.size_of_optional_header.set(LE, size_of::<pe::ImageOptionalHeader64>() as u16);
        nt.optional_header.magic.set(LE, pe::IMAGE_NT_OPTIONAL_HDR64_MAGIC);
        nt.optional_header.section_alignment.set(LE, 4096);
        nt.optional_header.file_alignment.set(LE, 512);
        let section = size_of::<pe::ImageSectionHeader>();
        let headers =
            size_of::<pe::ImageDosHeader>() + size_of::<pe::ImageNtHeaders64>() + section * (1 + room);
        nt.optional_header.size_of_headers.set(LE, headers as u32);
        let mut text = *from_bytes::<pe::ImageSectionHeader>(&vec![0; section]).unwrap().0;
        text.virtual_address.set(LE, 4096);
        text.virtual_size.set(LE, 100);
        let mut bytes = [bytes_of(&dos), bytes_of(&nt), bytes_of(&text)].concat();
        bytes.resize(headers, 0);
        bytes
    }

    #[test]
    fn each_part_is_a_section_behind_the_others() {
        let parts = Parts { kernel: &[1; 5000], initramfs: &[2; 3], command_line: "quiet" };
        let bytes = program(stub(4), &parts).unwrap();
        let file = PeFile64::parse(bytes.as_slice()).unwrap();
        let sections: Vec<(String, u64, usize)> = file
            .sections()
            .skip(1)
            .map(|section| {
                (section.name().unwrap().to_owned(), section.address(), section.data().unwrap().len())
            })
            .collect();
        let wanted = [
            (".osrel", 8192, RELEASE.len()),
            (".cmdline", 12288, 5),
            (".initrd", 16384, 3),
            (".linux", 20480, 5000),
        ];
        assert_eq!(sections, wanted.map(|(name, address, length)| (name.to_owned(), address, length)));
        assert_eq!(file.nt_headers().optional_header.size_of_image.get(LE), 28672);
    }

    #[test]
    fn a_stub_that_cannot_hold_the_parts_is_refused() {
        let parts = Parts { kernel: &[], initramfs: &[], command_line: "" };
        assert!(program(stub(3), &parts).unwrap_err().contains("no room"));
        assert!(program(b"#!/bin/sh".to_vec(), &parts).unwrap_err().contains("no 64-bit EFI program"));
    }
}
