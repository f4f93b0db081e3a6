//! A message is a table of its fields; reading, writing, defaults and JSON follow from the one table, so that they can't disagree.
//!
//! ```text
//! message_struct! {
//!     /// What the struct is.
//!     FetchRequest at "FetchRequest" {
//!         /// What the field is.
//!         cluster_id: Option<String> = None, 12.., ignorable, nullable 12.., tag 0;
//!         name        type             default versions        nullable versions
//! ```
//!
//! One line a field, in the order of Kafka's schema. The default may be left out where it is the type's own. `ignorable` fields are dropped
//! when a version has no place for them, `required` ones that are not at their default are an error then. `nullable` lists the versions
//! in which null may stand; `tag` makes a tagged field (KIP-482), to be listed in ascending order. `at` is the struct's place in its
//! message, for errors. Every struct also gets `unknown_tagged_fields`.
//!
//! Which types there are is the list of [`Field`]'s implementations below.

use crate::reader::Reader;
use crate::uuid::Uuid;
use crate::writer::Writer;
use crate::{DecodeError, DecodeErrorKind, EncodeError, ErrorCode};
use bytes::Bytes;

/// Where and how a field stands.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    /// Its name, with the path from the message down.
    pub(crate) field: &'static str,
    /// The message's version.
    pub(crate) version: i16,
    /// Whether lengths are compact and structs end with tagged fields.
    pub(crate) flexible: bool,
    /// Whether it may be null.
    pub(crate) nullable: bool,
}

/// What can be read, written and shown.
pub(crate) trait Field: Sized {
    fn read(reader: &mut Reader<'_>, place: Place) -> Result<Self, DecodeError>;

    fn write(&self, writer: &mut Writer<'_>, place: Place) -> Result<(), EncodeError>;

    #[cfg(feature = "json")]
    fn to_json(&self, version: i16) -> serde_json::Value;

    /// Calls `found` for the unknown tagged fields in it, with their path in the JSON form.
    #[cfg(feature = "json")]
    fn unknown_tags(&self, _path: &str, _found: &mut dyn FnMut(&str, &crate::TaggedField)) {}

    /// Any value that can stand at `place`.
    #[cfg(test)]
    fn arbitrary(source: &mut super::properties::Source, place: Place) -> Self;
}

macro_rules! fixed_size_fields {
    ($($type:ty: $method:ident;)+) => {
        $(impl Field for $type {
            #[inline]
            fn read(reader: &mut Reader<'_>, place: Place) -> Result<Self, DecodeError> {
                reader.$method(place.field)
            }

            #[inline]
            fn write(&self, writer: &mut Writer<'_>, _place: Place) -> Result<(), EncodeError> {
                writer.$method(*self);
                Ok(())
            }

            #[cfg(feature = "json")]
            fn to_json(&self, _version: i16) -> serde_json::Value {
                (*self).into()
            }

            #[cfg(test)]
            fn arbitrary(source: &mut super::properties::Source, _place: Place) -> Self {
                source.$method()
            }
        })+
    };
}

fixed_size_fields! {
    i8: i8;
    i16: i16;
    i32: i32;
    i64: i64;
    bool: bool;
}

impl Field for ErrorCode {
    #[inline]
    fn read(reader: &mut Reader<'_>, place: Place) -> Result<Self, DecodeError> {
        reader.i16(place.field).map(Self)
    }

    #[inline]
    fn write(&self, writer: &mut Writer<'_>, _place: Place) -> Result<(), EncodeError> {
        writer.i16(self.0);
        Ok(())
    }

    #[cfg(feature = "json")]
    fn to_json(&self, _version: i16) -> serde_json::Value {
        self.0.into()
    }

    #[cfg(test)]
    fn arbitrary(source: &mut super::properties::Source, _place: Place) -> Self {
        Self(source.i16())
    }
}

impl Field for Uuid {
    #[inline]
    fn read(reader: &mut Reader<'_>, place: Place) -> Result<Self, DecodeError> {
        reader.uuid(place.field)
    }

    #[inline]
    fn write(&self, writer: &mut Writer<'_>, _place: Place) -> Result<(), EncodeError> {
        writer.uuid(*self);
        Ok(())
    }

    #[cfg(feature = "json")]
    fn to_json(&self, _version: i16) -> serde_json::Value {
        self.to_string().into()
    }

    #[cfg(test)]
    fn arbitrary(source: &mut super::properties::Source, _place: Place) -> Self {
        Self(std::array::from_fn(|_| source.byte()))
    }
}

impl Field for String {
    #[inline]
    fn read(reader: &mut Reader<'_>, place: Place) -> Result<Self, DecodeError> {
        let start = reader.position();
        reader.nullable_string(place.flexible, place.field)?.ok_or_else(|| null(place, start))
    }

    fn write(&self, writer: &mut Writer<'_>, place: Place) -> Result<(), EncodeError> {
        writer.nullable_string(Some(self), place.flexible, place.field)
    }

    #[cfg(feature = "json")]
    fn to_json(&self, _version: i16) -> serde_json::Value {
        self.as_str().into()
    }

    #[cfg(test)]
    fn arbitrary(source: &mut super::properties::Source, _place: Place) -> Self {
        source.string()
    }
}

impl Field for Option<String> {
    #[inline]
    fn read(reader: &mut Reader<'_>, place: Place) -> Result<Self, DecodeError> {
        let start = reader.position();
        checked_null(reader.nullable_string(place.flexible, place.field)?, place, start)
    }

    fn write(&self, writer: &mut Writer<'_>, place: Place) -> Result<(), EncodeError> {
        writable_null(self, place)?;
        writer.nullable_string(self.as_deref(), place.flexible, place.field)
    }

    #[cfg(feature = "json")]
    fn to_json(&self, _version: i16) -> serde_json::Value {
        self.as_deref().into()
    }

    #[cfg(test)]
    fn arbitrary(source: &mut super::properties::Source, place: Place) -> Self {
        (!(place.nullable && source.bool())).then(|| source.string())
    }
}

/// Record data: not read any further here.
impl Field for Option<Bytes> {
    #[inline]
    fn read(reader: &mut Reader<'_>, place: Place) -> Result<Self, DecodeError> {
        let start = reader.position();
        checked_null(reader.nullable_bytes(place.flexible, place.field)?, place, start)
    }

    fn write(&self, writer: &mut Writer<'_>, place: Place) -> Result<(), EncodeError> {
        writable_null(self, place)?;
        writer.nullable_bytes(self.as_deref(), place.flexible, place.field)
    }

    #[cfg(feature = "json")]
    fn to_json(&self, _version: i16) -> serde_json::Value {
        self.as_ref().map(|bytes| format!("hex:{}", crate::json::hex(bytes))).into()
    }

    #[cfg(test)]
    fn arbitrary(source: &mut super::properties::Source, place: Place) -> Self {
        (!(place.nullable && source.bool())).then(|| source.bytes())
    }
}

impl<T: Field> Field for Vec<T> {
    #[inline]
    fn read(reader: &mut Reader<'_>, place: Place) -> Result<Self, DecodeError> {
        let start = reader.position();
        read_array(reader, place)?.ok_or_else(|| null(place, start))
    }

    fn write(&self, writer: &mut Writer<'_>, place: Place) -> Result<(), EncodeError> {
        writer.nullable_array(Some(self.len()), place.flexible, place.field)?;
        self.iter().try_for_each(|element| element.write(writer, Place { nullable: false, ..place }))
    }

    #[cfg(feature = "json")]
    fn to_json(&self, version: i16) -> serde_json::Value {
        self.iter().map(|element| element.to_json(version)).collect()
    }

    #[cfg(feature = "json")]
    fn unknown_tags(&self, path: &str, found: &mut dyn FnMut(&str, &crate::TaggedField)) {
        for (i, element) in self.iter().enumerate() {
            element.unknown_tags(&format!("{path}[{i}]"), found);
        }
    }

    #[cfg(test)]
    fn arbitrary(source: &mut super::properties::Source, place: Place) -> Self {
        let count = source.byte() % 4;
        (0..count).map(|_| T::arbitrary(source, Place { nullable: false, ..place })).collect()
    }
}

impl<T: Field> Field for Option<Vec<T>> {
    #[inline]
    fn read(reader: &mut Reader<'_>, place: Place) -> Result<Self, DecodeError> {
        let start = reader.position();
        checked_null(read_array(reader, place)?, place, start)
    }

    fn write(&self, writer: &mut Writer<'_>, place: Place) -> Result<(), EncodeError> {
        writable_null(self, place)?;
        match self {
            Some(elements) => elements.write(writer, place),
            None => writer.nullable_array(None, place.flexible, place.field),
        }
    }

    #[cfg(feature = "json")]
    fn to_json(&self, version: i16) -> serde_json::Value {
        self.as_ref().map_or(serde_json::Value::Null, |elements| elements.to_json(version))
    }

    #[cfg(feature = "json")]
    fn unknown_tags(&self, path: &str, found: &mut dyn FnMut(&str, &crate::TaggedField)) {
        if let Some(elements) = self {
            elements.unknown_tags(path, found);
        }
    }

    #[cfg(test)]
    fn arbitrary(source: &mut super::properties::Source, place: Place) -> Self {
        (!(place.nullable && source.bool())).then(|| Vec::arbitrary(source, place))
    }
}

#[inline]
fn read_array<T: Field>(reader: &mut Reader<'_>, place: Place) -> Result<Option<Vec<T>>, DecodeError> {
    let Some(count) = reader.nullable_array(place.flexible, size_of::<T>(), place.field)? else { return Ok(None) };
    let mut elements = Vec::with_capacity(reader.capacity_for(count, size_of::<T>()));
    for _ in 0..count {
        elements.push(T::read(reader, Place { nullable: false, ..place })?);
    }
    Ok(Some(elements))
}

#[cold]
fn null(place: Place, start: usize) -> DecodeError {
    DecodeError::new(place.field, start, DecodeErrorKind::Null)
}

#[inline]
fn checked_null<T>(value: Option<T>, place: Place, start: usize) -> Result<Option<T>, DecodeError> {
    if value.is_none() && !place.nullable { Err(null(place, start)) } else { Ok(value) }
}

fn writable_null<T>(value: &Option<T>, place: Place) -> Result<(), EncodeError> {
    if value.is_none() && !place.nullable {
        return Err(EncodeError::Null { field: place.field, version: place.version });
    }
    Ok(())
}

/// Makes a struct of a table; the module's head explains the columns.
macro_rules! message_struct {
    ($(
        $(#[$doc:meta])+
        $name:ident at $path:literal {
            $(
                $(#[$field_doc:meta])+
                $field:ident: $type:ty $(= $default:expr)?, $versions:expr, $loss:ident
                $(, nullable $nullable:expr)? $(, tag $tag:literal)?;
            )*
        }
    )+) => {$(
        $(#[$doc])+
        #[derive(Debug, Clone, PartialEq)]
        pub struct $name {
            $($(#[$field_doc])+ pub $field: $type,)*
            /// Tagged fields that are not in the schema: kept, and written back. Versions that are not flexible can't carry any.
            pub unknown_tagged_fields: Vec<$crate::TaggedField>,
        }

        impl Default for $name {
            /// The schema's defaults.
            fn default() -> Self {
                Self {
                    $($field: $crate::message::table::default_or!($type $(, $default)?),)*
                    unknown_tagged_fields: Vec::new(),
                }
            }
        }

        impl $crate::message::table::Field for $name {
            #[inline]
            fn read(
                reader: &mut $crate::reader::Reader<'_>,
                place: $crate::message::table::Place,
            ) -> Result<Self, $crate::DecodeError> {
                let mut read = Self::default();
                $(
                    if $crate::message::table::tag!($($tag)?).is_none() && ($versions).contains(&place.version) {
                        read.$field = $crate::message::table::Field::read(reader, $crate::message::table::place!(
                            place, $path, $field $(, $nullable)?
                        ))?;
                    }
                )*
                if place.flexible {
                    read.unknown_tagged_fields =
                        reader.tagged_fields(concat!($path, ".unknown_tagged_fields"), |reader, tag| {
                            $(
                                if $crate::message::table::tag!($($tag)?) == Some(tag) {
                                    let place =
                                        $crate::message::table::place!(place, $path, $field $(, $nullable)?);
                                    if !($versions).contains(&place.version) {
                                        return Err($crate::message::table::tag_too_new(place, reader.position()));
                                    }
                                    read.$field = $crate::message::table::Field::read(reader, place)?;
                                    return Ok(true);
                                }
                            )*
                            let (_, _) = (reader, tag);
                            Ok(false)
                        })?;
                }
                Ok(read)
            }

            fn write(
                &self,
                writer: &mut $crate::writer::Writer<'_>,
                place: $crate::message::table::Place,
            ) -> Result<(), $crate::EncodeError> {
                let mut known_count = 0;
                $(
                    if !($versions).contains(&place.version) {
                        if !$crate::message::table::ignorable!($loss)
                            && self.$field != $crate::message::table::default_or!($type $(, $default)?)
                        {
                            return Err($crate::EncodeError::NotInVersion {
                                field: concat!($path, ".", stringify!($field)),
                                version: place.version,
                            });
                        }
                    } else if $crate::message::table::tag!($($tag)?).is_none() {
                        $crate::message::table::Field::write(
                            &self.$field,
                            writer,
                            $crate::message::table::place!(place, $path, $field $(, $nullable)?),
                        )?;
                    } else if self.$field != $crate::message::table::default_or!($type $(, $default)?) {
                        known_count += 1;
                    }
                )*
                let field = concat!($path, ".unknown_tagged_fields");
                if !place.flexible {
                    if self.unknown_tagged_fields.is_empty() {
                        return Ok(());
                    }
                    return Err($crate::EncodeError::NotInVersion { field, version: place.version });
                }
                let tags = writer.tagged_fields(known_count, &self.unknown_tagged_fields, field);
                $(
                    let tags = match $crate::message::table::tag!($($tag)?) {
                        Some(tag)
                            if ($versions).contains(&place.version)
                                && self.$field != $crate::message::table::default_or!($type $(, $default)?) =>
                        {
                            let place = $crate::message::table::place!(place, $path, $field $(, $nullable)?);
                            tags.known(tag, |writer| $crate::message::table::Field::write(&self.$field, writer, place))?
                        }
                        _ => tags,
                    };
                )*
                tags.finish()
            }

            #[cfg(feature = "json")]
            fn to_json(&self, version: i16) -> serde_json::Value {
                let mut object = serde_json::Map::new();
                $(
                    if ($versions).contains(&version)
                        && !($crate::message::table::tag!($($tag)?).is_some()
                            && self.$field == $crate::message::table::default_or!($type $(, $default)?))
                    {
                        object.insert(
                            $crate::json::key(stringify!($field)),
                            $crate::message::table::Field::to_json(&self.$field, version),
                        );
                    }
                )*
                object.into()
            }

            #[cfg(feature = "json")]
            fn unknown_tags(&self, path: &str, found: &mut dyn FnMut(&str, &$crate::TaggedField)) {
                for tagged in &self.unknown_tagged_fields {
                    found(path, tagged);
                }
                $($crate::message::table::Field::unknown_tags(
                    &self.$field,
                    &format!("{path}/{}", $crate::json::key(stringify!($field))),
                    found,
                );)*
            }

            #[cfg(test)]
            fn arbitrary(
                source: &mut $crate::message::properties::Source,
                place: $crate::message::table::Place,
            ) -> Self {
                let mut any = Self::default();
                $(
                    let tagged = $crate::message::table::tag!($($tag)?).is_some();
                    if ($versions).contains(&place.version) && !(tagged && source.bool()) {
                        let place = $crate::message::table::place!(place, $path, $field $(, $nullable)?);
                        any.$field = $crate::message::table::Field::arbitrary(source, place);
                    }
                )*
                if place.flexible {
                    any.unknown_tagged_fields = source.tagged_fields();
                }
                any
            }
        }
    )+};
}

/// Makes a struct of [`message_struct`] a message: its API, its versions, the first flexible one.
macro_rules! message {
    ($($name:ident: $key:ident, $min:literal..=$max:literal, flexible $flexible:literal..;)+) => {$(
        impl $crate::Message for $name {
            const API_KEY: $crate::ApiKey = $crate::ApiKey::$key;
            const VERSIONS: $crate::VersionRange = $crate::VersionRange::new($min, $max);
            const FLEXIBLE_SINCE: i16 = $flexible;

            fn encode(&self, version: i16, out: &mut bytes::BytesMut) -> Result<(), $crate::EncodeError> {
                if !Self::VERSIONS.contains(version) {
                    return Err($crate::EncodeError::Version { version, min: $min, max: $max });
                }
                let place = $crate::message::table::top(stringify!($name), version, $flexible);
                $crate::message::table::Field::write(self, &mut $crate::writer::Writer::new(out), place)
            }

            fn decode(version: i16, body: &bytes::Bytes) -> Result<Self, $crate::DecodeError> {
                if !Self::VERSIONS.contains(version) {
                    let kind = $crate::DecodeErrorKind::Version { version, min: $min, max: $max };
                    return Err($crate::DecodeError::new(stringify!($name), 0, kind));
                }
                let place = $crate::message::table::top(stringify!($name), version, $flexible);
                $crate::message::table::Field::read(&mut $crate::reader::Reader::new(body), place)
            }

            #[cfg(feature = "json")]
            fn to_json(&self, version: i16) -> serde_json::Value {
                $crate::message::table::Field::to_json(self, version)
            }

            #[cfg(feature = "json")]
            fn for_each_unknown_tag(&self, found: &mut dyn FnMut(&str, &$crate::TaggedField)) {
                $crate::message::table::Field::unknown_tags(self, "", found);
            }
        }
    )+};
}

/// The place of a whole message.
pub(crate) fn top(field: &'static str, version: i16, flexible_since: i16) -> Place {
    Place { field, version, flexible: version >= flexible_since, nullable: false }
}

#[cold]
pub(crate) fn tag_too_new(place: Place, position: usize) -> DecodeError {
    let kind = DecodeErrorKind::Value { value: place.version.into(), expected: "this tag came with a newer version" };
    DecodeError::new(place.field, position, kind)
}

/// A field's tag, if it has one.
macro_rules! tag {
    () => {
        None::<u32>
    };
    ($tag:literal) => {
        Some::<u32>($tag)
    };
}

/// The column that says what happens to a field that the version has no place for.
macro_rules! ignorable {
    (ignorable) => {
        true
    };
    (required) => {
        false
    };
}

/// The given default, or the type's own.
macro_rules! default_or {
    ($type:ty) => {
        <$type>::default()
    };
    ($type:ty, $default:expr) => {
        $default
    };
}

/// A field's place in a struct at `$outer`.
macro_rules! place {
    ($outer:ident, $path:literal, $field:ident) => {
        $crate::message::table::Place { field: concat!($path, ".", stringify!($field)), nullable: false, ..$outer }
    };
    ($outer:ident, $path:literal, $field:ident, $nullable:expr) => {
        $crate::message::table::Place {
            field: concat!($path, ".", stringify!($field)),
            nullable: ($nullable).contains(&$outer.version),
            ..$outer
        }
    };
}

pub(crate) use {default_or, ignorable, message, message_struct, place, tag};
