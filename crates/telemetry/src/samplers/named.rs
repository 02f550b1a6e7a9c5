//! Texts of a name and a number a line: `MemFree:  24414312 kB`, `pswpin 0`.

/// The numbers of these names, each in its place; `None`: it is not there.
pub(crate) fn named<const N: usize>(text: &str, names: [&str; N]) -> [Option<u64>; N] {
    let mut found = [None; N];
    for line in text.lines() {
        let Some((name, rest)) = line.split_once([':', ' ']) else {
            continue;
        };
        if let Some(place) = names.iter().position(|wanted| *wanted == name) {
            let number = rest.split_ascii_whitespace().next();
            found[place] = number.and_then(|number| number.parse().ok());
        }
    }
    found
}
