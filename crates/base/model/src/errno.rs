//! Names of errnos that storage returns.

/// Linux's numbers, which are equal on x86-64, ARM, RISC-V and POWER. The first name of a number is the usual one.
const NAMES: [(i32, &str); 65] = [
    (1, "EPERM"),
    (2, "ENOENT"),
    (4, "EINTR"),
    (5, "EIO"),
    (6, "ENXIO"),
    (7, "E2BIG"),
    (9, "EBADF"),
    (11, "EAGAIN"),
    (11, "EWOULDBLOCK"),
    (12, "ENOMEM"),
    (13, "EACCES"),
    (14, "EFAULT"),
    (15, "ENOTBLK"),
    (16, "EBUSY"),
    (17, "EEXIST"),
    (18, "EXDEV"),
    (19, "ENODEV"),
    (20, "ENOTDIR"),
    (21, "EISDIR"),
    (22, "EINVAL"),
    (23, "ENFILE"),
    (24, "EMFILE"),
    (25, "ENOTTY"),
    (26, "ETXTBSY"),
    (27, "EFBIG"),
    (28, "ENOSPC"),
    (29, "ESPIPE"),
    (30, "EROFS"),
    (31, "EMLINK"),
    (32, "EPIPE"),
    (33, "EDOM"),
    (34, "ERANGE"),
    (35, "EDEADLK"),
    (36, "ENAMETOOLONG"),
    (37, "ENOLCK"),
    (38, "ENOSYS"),
    (39, "ENOTEMPTY"),
    (40, "ELOOP"),
    (61, "ENODATA"),
    (62, "ETIME"),
    (67, "ENOLINK"),
    (70, "ECOMM"),
    (71, "EPROTO"),
    (74, "EBADMSG"),
    (75, "EOVERFLOW"),
    (84, "EILSEQ"),
    (87, "EUSERS"),
    (95, "EOPNOTSUPP"),
    (105, "ENOBUFS"),
    (107, "ENOTCONN"),
    (110, "ETIMEDOUT"),
    (111, "ECONNREFUSED"),
    (112, "EHOSTDOWN"),
    (113, "EHOSTUNREACH"),
    (114, "EALREADY"),
    (115, "EINPROGRESS"),
    (116, "ESTALE"),
    (117, "EUCLEAN"),
    (121, "EREMOTEIO"),
    (122, "EDQUOT"),
    (123, "ENOMEDIUM"),
    (124, "EMEDIUMTYPE"),
    (125, "ECANCELED"),
    (126, "ENOKEY"),
    (133, "EHWPOISON"),
];

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
