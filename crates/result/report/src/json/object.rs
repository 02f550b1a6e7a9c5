//! JSON objects that are views of the model: each key is declared once, with the expression for its value.

/// Declares `View`, a JSON object computed from `value`, with its keys in order. A key is a name or, if it has blanks, a
/// text. A key with `[opt]` is omitted if its value is `None`, and one with `[filled]` if its value is empty. `[each]`
/// adds pairs of keys and values instead of its own name.
///
/// ```text
/// object!(View<'a>(value in &'a Model) { key: value.field, other [opt]: value.option });
/// ```
macro_rules! object {
    ($view:ident<$life:lifetime>($value:pat_param in $model:ty) {
        $($key:tt $([$kind:ident])?: $entry:expr),* $(,)?
    }) => {
        pub(crate) struct $view<$life>(pub(crate) $model);

        impl serde::Serialize for $view<'_> {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeMap;
                let $value = self.0;
                let mut map = serializer.serialize_map(None)?;
                $($crate::json::object!(@entry map, $key, $entry $(, $kind)?);)*
                map.end()
            }
        }
    };
    (@entry $map:ident, $key:tt, $entry:expr) => {
        $map.serialize_entry($crate::json::object!(@name $key), &$entry)?
    };
    (@entry $map:ident, $key:tt, $entry:expr, opt) => {
        if let Some(entry) = $entry {
            $map.serialize_entry($crate::json::object!(@name $key), &entry)?
        }
    };
    (@entry $map:ident, $key:tt, $entry:expr, filled) => {{
        let entry = &$entry;
        if !entry.is_empty() {
            $map.serialize_entry($crate::json::object!(@name $key), entry)?
        }
    }};
    (@entry $map:ident, $key:tt, $entry:expr, each) => {
        for (key, entry) in $entry {
            $map.serialize_entry(&key, &entry)?
        }
    };
    (@name $key:ident) => { stringify!($key) };
    (@name $key:literal) => { $key };
}

pub(crate) use object;

/// A view of each item.
pub(crate) fn list<'a, T, V>(items: impl IntoIterator<Item = &'a T>, view: fn(&'a T) -> V) -> Vec<V>
where
    T: 'a,
{
    items.into_iter().map(view).collect()
}
