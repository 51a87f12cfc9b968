//! Closed lists of words that operators see: labels of metrics, details and reasons of answers.
//!
//! A list stands in one place, where its enum is. Whoever needs all of its words, or a place for each, asks the enum.

/// A value of a closed list.
pub trait Word: Copy + PartialEq + 'static {
    /// All values, each at its [`Word::place`].
    const ALL: &'static [Self];

    /// The word that operators see.
    fn word(self) -> &'static str;

    /// Its place in [`Word::ALL`].
    fn place(self) -> usize {
        Self::ALL.iter().position(|each| *each == self).unwrap_or_default()
    }
}

/// Declares an enum with a word for each variant.
#[macro_export]
macro_rules! words {
    ($(
        $(#[$attribute:meta])*
        $visible:vis enum $name:ident { $($(#[$of_variant:meta])* $variant:ident = $word:literal,)+ }
    )+) => {$(
        $(#[$attribute])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $visible enum $name { $($(#[$of_variant])* $variant,)+ }

        impl $name {
            /// All of them, each at its place.
            $visible const ALL: [Self; [$($word),+].len()] = [$(Self::$variant),+];

            /// Its name for operators.
            #[must_use]
            $visible const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }

            /// Its place in [`Self::ALL`].
            #[must_use]
            $visible const fn place(self) -> usize {
                self as usize
            }
        }

        impl $crate::words::Word for $name {
            const ALL: &'static [Self] = &Self::ALL;

            fn word(self) -> &'static str {
                self.as_str()
            }

            fn place(self) -> usize {
                self as usize
            }
        }
    )+};
}

#[cfg(test)]
mod tests {
    use super::Word;

    crate::words! {
        enum Fruit { Apple = "apple", Pear = "a_pear", }
    }

    #[test]
    fn each_word_is_at_its_place() {
        assert_eq!(Fruit::ALL.map(Fruit::as_str), ["apple", "a_pear"]);
        assert_eq!(<Fruit as Word>::ALL.iter().map(|each| each.place()).collect::<Vec<_>>(), [0, 1]);
    }
}
