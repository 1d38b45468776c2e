//! The lists: each option of options.txt by itself, and then several at once, in any order, some of them damaged.

use std::collections::BTreeSet;

use adit_openvpn_config::split_line;

/// How many lists there are.
pub(super) const LISTS: usize = 2_200;

/// The seed of the lists, which are the same on every machine.
const SEED: u64 = 0x6164_6974;

const OPTIONS: &str = include_str!("options.txt");

/// An end, and the beginning of its lists.
const ENDS: [(&str, &[&str]); 3] = [
    ("c", &["client", "dev tun", "remote 192.0.2.1", "ca ca", "cert cert", "key key"]),
    ("s", &["server 10.8.0.0 255.255.255.0", "dev tun", "ca ca", "cert cert", "key key", "dh none"]),
    (
        "p",
        &[
            "tls-client",
            "dev tun",
            "remote 192.0.2.1",
            "ifconfig 10.0.0.1 10.0.0.2",
            "ca ca",
            "cert cert",
            "key key",
        ],
    ),
];

/// One option: its name and its arguments.
pub(super) type OptionWords = Vec<String>;

/// A list of options. The options with which its end begins stand first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct OptionList {
    /// All options.
    pub(super) options: Vec<OptionWords>,
}

impl OptionList {
    fn new(end: usize, more: impl IntoIterator<Item = OptionWords>) -> Self {
        let own = ENDS[end].1.iter().map(|line| words(line));
        OptionList { options: own.chain(more).collect() }
    }

    /// The words of a command line.
    pub(super) fn words(&self) -> Vec<String> {
        let option = |option: &OptionWords| {
            let mut words = option.clone();
            words[0].insert_str(0, "--");
            words
        };
        self.options.iter().flat_map(option).collect()
    }

    /// Each option as it would stand in a file, without quotes.
    pub(super) fn lines(&self) -> impl Iterator<Item = String> {
        self.options.iter().map(|option| option.join(" "))
    }

    /// A number that no other list has (FNV-1a).
    pub(super) fn hash(&self) -> u64 {
        let text = self.words().join("\0");
        text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
    }
}

fn words(line: &str) -> OptionWords {
    split_line(line).unwrap()
}

/// SplitMix64 (Steele, Lea and Flood 2014).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % end as u64).unwrap()
    }
}

/// The options of each end.
fn options_of_ends() -> [Vec<OptionWords>; 3] {
    let lines = OPTIONS.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut all = [const { Vec::new() }; 3];
    for line in lines {
        let (end, option) = line.split_once(' ').unwrap();
        for (index, (name, _)) in ENDS.iter().enumerate() {
            if end == "a" || end == *name {
                all[index].push(words(option));
            }
        }
    }
    all
}

/// All lists, each once.
pub(super) fn all() -> Vec<OptionList> {
    let options = options_of_ends();
    let mut random = Random(SEED);
    let single = options
        .iter()
        .enumerate()
        .flat_map(|(end, options)| options.iter().map(move |option| OptionList::new(end, [option.clone()])));
    let mut lists: Vec<OptionList> = single.collect();
    let mut known: BTreeSet<u64> = lists.iter().map(OptionList::hash).collect();
    while lists.len() < LISTS {
        let end = random.below(ENDS.len());
        let number = 2 + random.below(3);
        let chosen: Vec<OptionWords> =
            (0..number).map(|_| options[end][random.below(options[end].len())].clone()).collect();
        let mut list = OptionList::new(end, chosen);
        if random.below(4) == 0 {
            damage(&mut list, &mut random);
        }
        if known.insert(list.hash()) {
            lists.push(list);
        }
    }
    lists
}

/// One option is another than was meant, or none.
fn damage(list: &mut OptionList, random: &mut Random) {
    let index = random.below(list.options.len());
    let option = &mut list.options[index];
    match random.below(4) {
        0 => drop(list.options.remove(index)),
        1 => option.push("more".to_owned()),
        2 if option.len() > 1 => drop(option.pop()),
        _ => option[0].push('x'),
    }
}
