//! Variables in values: `${NAME}` of the environment, and `$pagesize`, `$mb_memory`, `$ncpus`.

use super::host::Host;

/// A value with its variables replaced.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Substituted {
    pub(super) text: String,
    /// Variables of the environment that are not set; they became nothing.
    pub(super) unset: Vec<String>,
    /// A keyword became a number, so that arithmetic may follow.
    pub(super) computed: bool,
}

pub(super) fn substitute(text: &str, host: &dyn Host) -> Substituted {
    let mut out = Substituted::default();
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        out.text.push_str(&rest[..start]);
        let Some(length) = rest[start + 2..].find('}') else {
            rest = &rest[start..];
            break;
        };
        let name = &rest[start + 2..start + 2 + length];
        match host.env(name) {
            Some(value) => out.text.push_str(&value),
            None => out.unset.push(name.to_owned()),
        }
        rest = &rest[start + 3 + length..];
    }
    out.text.push_str(rest);
    if out.text.contains('$') {
        for (keyword, number) in [
            ("$pagesize", host.page_size()),
            ("$mb_memory", host.memory_mb()),
            ("$ncpus", u64::from(host.cpus())),
        ] {
            if out.text.contains(keyword) {
                out.text = out.text.replace(keyword, &number.to_string());
                out.computed = true;
            }
        }
    }
    out
}
