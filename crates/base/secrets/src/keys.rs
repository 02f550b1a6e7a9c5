//! Secrets that are known by their form: keys of services, private keys, passwords in URLs.

/// Beginnings of keys of known services, and the least number of letters and digits that follow.
#[rustfmt::skip]
const KEYS: [(&str, usize); 21] = [
    ("AIza", 30), ("dckr_pat_", 20), ("eyJ", 30), ("hf_", 30), ("npm_", 30), ("sk-", 20), ("sk_live_", 16),
    ("xoxp-", 20), ("AKIA", 16), ("ASIA", 16), ("ghp_", 30), ("gho_", 30), ("ghs_", 30), ("github_pat_", 30),
    ("glpat-", 20), ("xoxb-", 20), ("pypi-", 30), ("ya29.", 30), ("dop_v1_", 30), ("AGE-SECRET-KEY-1", 30),
    ("DHHC-1:", 30),
];

/// The bodies of private keys in PEM.
pub(crate) fn private_keys(text: &str) -> Vec<(usize, usize)> {
    const KEY: &str = "PRIVATE KEY-----";
    let mut known = 0;
    let found = text.match_indices(KEY).filter_map(|(at, mark)| {
        let line = known + text.get(known..at)?.rfind("-----")?;
        if !text[line..at].starts_with("-----BEGIN") {
            return None;
        }
        let body = at + mark.len();
        let length = text[body..].find("-----END");
        known = length.map_or(text.len(), |length| body + length);
        Some((body, known))
    });
    found.collect()
}

/// The passwords of `scheme://user:password@host`.
pub(crate) fn of_urls(text: &str) -> Vec<(usize, usize)> {
    let found = text.match_indices("://").filter_map(|(at, mark)| {
        let start = at + mark.len();
        let rest = &text[start..];
        let length = rest.find(|c: char| c.is_whitespace() || "/?#\"'<>".contains(c));
        let authority = &rest[..length.unwrap_or(rest.len())];
        let user = &authority[..authority.rfind('@')?];
        let colon = user.find(':')?;
        Some((start + colon + 1, start + user.len()))
    });
    found.collect()
}

/// Keys of known services, wherever they are.
pub(crate) fn known_keys(text: &str) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    for (begin, least) in KEYS {
        let mut known = 0;
        for (at, _) in text.match_indices(begin) {
            let apart = at == 0 || !text.as_bytes()[at - 1].is_ascii_alphanumeric();
            if at < known || !apart {
                continue;
            }
            let body = at + begin.len();
            let length = text.as_bytes()[body..]
                .iter()
                .take_while(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(byte));
            let length = length.count();
            known = body + length;
            if length >= least {
                found.push((at, known));
            }
        }
    }
    found
}
