//! JSON objects that are views of the model: each key is declared once, with the expression for its value.

/// Declares `View`, a JSON object computed from `value`, with its keys in order. A key with `[opt]` is omitted if its
/// value is `None`.
///
/// ```text
/// object!(View<'a>(value: &'a Model) { key: value.field, other [opt]: value.option });
/// ```
macro_rules! object {
    ($view:ident<$life:lifetime>($value:pat_param in $model:ty) {
        $($key:ident $([$opt:ident])?: $entry:expr),* $(,)?
    }) => {
        pub(crate) struct $view<$life>(pub(crate) $model);

        impl serde::Serialize for $view<'_> {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeMap;
                let $value = self.0;
                let mut map = serializer.serialize_map(None)?;
                $($crate::json::object!(@entry map, $key, $entry $(, $opt)?);)*
                map.end()
            }
        }
    };
    (@entry $map:ident, $key:ident, $entry:expr) => {
        $map.serialize_entry(stringify!($key), &$entry)?
    };
    (@entry $map:ident, $key:ident, $entry:expr, opt) => {
        if let Some(entry) = $entry {
            $map.serialize_entry(stringify!($key), &entry)?
        }
    };
}
pub(crate) use object;

/// A view of each item.
pub(crate) fn list<'a, T, V>(items: impl IntoIterator<Item = &'a T>, view: fn(&'a T) -> V) -> Vec<V>
where
    T: 'a,
{
    items.into_iter().map(view).collect()
}
