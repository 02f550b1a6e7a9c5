//! Enums whose variants have names.

/// Defines an enum whose variants have names, with all variants in a constant. The names of the stored form are apart.
macro_rules! named {
    ($(#[$about:meta])* pub enum $kind:ident in $all:ident {
        $($(#[$doc:meta])* $variant:ident = $name:literal,)*
    }) => {
        $(#[$about])*
        pub enum $kind {
            $($(#[$doc])* $variant,)*
        }

        impl $kind {
            /// Every one, in the order of their declaration.
            pub const $all: [$kind; Self::NAMES.len()] = [$($kind::$variant,)*];

            /// All names, in the same order.
            pub const NAMES: &'static [&'static str] = &[$($name,)*];

            /// Its name.
            pub fn name(self) -> &'static str {
                Self::NAMES[self as usize]
            }

            /// The one with this name.
            pub fn named(name: &str) -> Option<$kind> {
                Self::$all.into_iter().find(|one| one.name() == name)
            }
        }
    };
}
pub(crate) use named;
