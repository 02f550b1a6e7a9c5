//! Numbers and names of the errors that storage returns: Linux's, which are equal on x86-64, ARM, RISC-V and POWER.
#![allow(missing_docs, reason = "errno(3) describes them")]

macro_rules! errnos {
    ($($name:ident = $number:literal,)*) => {
        $(pub const $name: i32 = $number;)*

        /// The first name of a number is the usual one.
        const NAMES: &[(i32, &str)] = &[$(($number, stringify!($name)),)*];
    };
}

errnos! {
    EPERM = 1,
    ENOENT = 2,
    EINTR = 4,
    EIO = 5,
    ENXIO = 6,
    E2BIG = 7,
    EBADF = 9,
    EAGAIN = 11,
    EWOULDBLOCK = 11,
    ENOMEM = 12,
    EACCES = 13,
    EFAULT = 14,
    ENOTBLK = 15,
    EBUSY = 16,
    EEXIST = 17,
    EXDEV = 18,
    ENODEV = 19,
    ENOTDIR = 20,
    EISDIR = 21,
    EINVAL = 22,
    ENFILE = 23,
    EMFILE = 24,
    ENOTTY = 25,
    ETXTBSY = 26,
    EFBIG = 27,
    ENOSPC = 28,
    ESPIPE = 29,
    EROFS = 30,
    EMLINK = 31,
    EPIPE = 32,
    EDOM = 33,
    ERANGE = 34,
    EDEADLK = 35,
    ENAMETOOLONG = 36,
    ENOLCK = 37,
    ENOSYS = 38,
    ENOTEMPTY = 39,
    ELOOP = 40,
    ENODATA = 61,
    ETIME = 62,
    ENOLINK = 67,
    ECOMM = 70,
    EPROTO = 71,
    EBADMSG = 74,
    EOVERFLOW = 75,
    EILSEQ = 84,
    EUSERS = 87,
    EOPNOTSUPP = 95,
    ENOBUFS = 105,
    ENOTCONN = 107,
    ESHUTDOWN = 108,
    ETIMEDOUT = 110,
    ECONNREFUSED = 111,
    EHOSTDOWN = 112,
    EHOSTUNREACH = 113,
    EALREADY = 114,
    EINPROGRESS = 115,
    ESTALE = 116,
    EUCLEAN = 117,
    EREMOTEIO = 121,
    EDQUOT = 122,
    ENOMEDIUM = 123,
    EMEDIUMTYPE = 124,
    ECANCELED = 125,
    ENOKEY = 126,
    EHWPOISON = 133,
}

/// The name of an errno: `EIO` for 5, `errno 200` for a number without a name in the table.
pub fn errno_name(errno: i32) -> String {
    NAMES
        .iter()
        .find(|(number, _)| *number == errno)
        .map_or_else(|| format!("errno {errno}"), |(_, name)| (*name).to_owned())
}

/// The errno of a name.
pub fn errno_named(name: &str) -> Option<i32> {
    let found = NAMES.iter().find(|(_, known)| *known == name);
    found.map(|(number, _)| *number)
}

/// All names.
pub fn errno_names() -> impl Iterator<Item = &'static str> {
    NAMES.iter().map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::{NAMES, errno_name};

    #[test]
    fn known_errnos_have_names_and_others_numbers() {
        assert_eq!(errno_name(28), "ENOSPC");
        assert_eq!(errno_name(11), "EAGAIN");
        assert_eq!(errno_name(4095), "errno 4095");
        assert!(NAMES.is_sorted_by_key(|entry| entry.0));
    }
}
