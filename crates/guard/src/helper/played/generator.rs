//! Values of any type that can be read, made of its definition alone: so that a message, or a variant of one, that is added is
//! generated with the others.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::value::U32Deserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error as _, IntoDeserializer as _,
    MapAccess, SeqAccess, VariantAccess, Visitor,
};

/// Makes values. Of an enumeration it takes the variant that it has taken least.
pub(super) struct Generator {
    random: u64,
    texts: Vec<String>,
    taken: BTreeMap<(&'static str, &'static str), u32>,
}

/// A value that its type does not allow, such as a prefix that is too long.
#[derive(Debug)]
pub(super) struct Impossible(String);

impl fmt::Display for Impossible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Impossible {}

impl serde::de::Error for Impossible {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Impossible(message.to_string())
    }
}

impl Generator {
    /// Texts and bytes are taken from `texts`.
    pub(super) fn new(texts: Vec<String>) -> Self {
        Generator { random: 0x9e37_79b9_7f4a_7c15, texts, taken: BTreeMap::new() }
    }

    /// A value of that type.
    pub(super) fn next<T: DeserializeOwned>(&mut self) -> T {
        loop {
            if let Ok(value) = T::deserialize(&mut *self) {
                return value;
            }
        }
    }

    /// How often each variant of the enumeration of that name was taken.
    pub(super) fn taken(&self, name: &str) -> BTreeMap<&'static str, u32> {
        self.taken.iter().filter(|((of, _), _)| *of == name).map(|((_, it), count)| (*it, *count)).collect()
    }

    /// A number below `limit` (xorshift, Marsaglia 2003).
    fn below(&mut self, limit: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        usize::try_from(self.random >> 33).unwrap_or_default() % limit.max(1)
    }

    fn number(&mut self) -> u8 {
        [0, 1, 2, 3, 7, 24][self.below(6)]
    }

    fn text(&mut self) -> String {
        let place = self.below(self.texts.len());
        self.texts[place].clone()
    }

    fn variant(&mut self, name: &'static str, variants: &'static [&'static str]) -> u32 {
        for variant in variants {
            self.taken.entry((name, variant)).or_default();
        }
        let start = self.below(variants.len());
        let order = (start..variants.len()).chain(0..start);
        let least = order.min_by_key(|place| self.taken.get(&(name, variants[*place])).copied());
        let place = least.unwrap_or_default();
        *self.taken.entry((name, variants[place])).or_default() += 1;
        u32::try_from(place).unwrap_or_default()
    }
}

macro_rules! numbers {
    ($($method:ident $visit:ident),*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Impossible> {
            visitor.$visit(self.number().try_into().unwrap_or_default())
        })*
    };
}

impl<'de> Deserializer<'de> for &mut Generator {
    type Error = Impossible;

    numbers!(
        deserialize_u8 visit_u8, deserialize_u16 visit_u16, deserialize_u32 visit_u32, deserialize_u64 visit_u64,
        deserialize_i8 visit_i8, deserialize_i16 visit_i16, deserialize_i32 visit_i32, deserialize_i64 visit_i64,
        deserialize_f32 visit_f32, deserialize_f64 visit_f64
    );

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Impossible> {
        Err(Impossible::custom("a type that does not say what it is"))
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Impossible> {
        visitor.visit_bool(self.below(2) == 1)
    }

    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Impossible> {
        visitor.visit_char('/')
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Impossible> {
        visitor.visit_string(self.text())
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Impossible> {
        visitor.visit_string(self.text())
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Impossible> {
        visitor.visit_byte_buf(self.text().into_bytes())
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Impossible> {
        visitor.visit_byte_buf(self.text().into_bytes())
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Impossible> {
        match self.below(2) {
            0 => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Impossible> {
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Impossible> {
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Impossible> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Impossible> {
        let left = self.below(4);
        visitor.visit_seq(Several { generator: self, left })
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, left: usize, visitor: V) -> Result<V::Value, Impossible> {
        visitor.visit_seq(Several { generator: self, left })
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        left: usize,
        visitor: V,
    ) -> Result<V::Value, Impossible> {
        visitor.visit_seq(Several { generator: self, left })
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Impossible> {
        let left = self.below(3);
        visitor.visit_map(Several { generator: self, left })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Impossible> {
        visitor.visit_seq(Several { generator: self, left: fields.len() })
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Impossible> {
        let place = self.variant(name, variants);
        visitor.visit_enum(Variant { generator: self, place })
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Impossible> {
        self.deserialize_any(visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Impossible> {
        self.deserialize_any(visitor)
    }

    /// As postcard.
    fn is_human_readable(&self) -> bool {
        false
    }
}

/// Elements of a sequence, or entries of a map.
struct Several<'a> {
    generator: &'a mut Generator,
    left: usize,
}

impl<'de> SeqAccess<'de> for Several<'_> {
    type Error = Impossible;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Impossible> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
        self.left = left;
        seed.deserialize(&mut *self.generator).map(Some)
    }
}

impl<'de> MapAccess<'de> for Several<'_> {
    type Error = Impossible;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Impossible> {
        self.next_element_seed(seed)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Impossible> {
        seed.deserialize(&mut *self.generator)
    }
}

/// A variant of an enumeration.
struct Variant<'a> {
    generator: &'a mut Generator,
    place: u32,
}

impl<'de> EnumAccess<'de> for Variant<'_> {
    type Error = Impossible;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Impossible> {
        let place: U32Deserializer<Impossible> = self.place.into_deserializer();
        Ok((seed.deserialize(place)?, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'_> {
    type Error = Impossible;

    fn unit_variant(self) -> Result<(), Impossible> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Impossible> {
        seed.deserialize(self.generator)
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Impossible> {
        self.generator.deserialize_tuple(len, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Impossible> {
        self.generator.deserialize_tuple(fields.len(), visitor)
    }
}
