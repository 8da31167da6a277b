//! The macro that declares a choice of words.

/// Declares an enum whose variants are words in the config.
macro_rules! choice {
    (
        $(#[doc = $about:literal])+
        $vis:vis enum $name:ident {
            $($(#[doc = $doc:literal])+ $(#[default $($default:lifetime)?])? $variant:ident = $word:expr,)+
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        $vis enum $name {
            $($(#[doc = $doc])+ $(#[default $($default)?])? $variant,)+
        }

        impl $name {
            const WORDS: &'static [$crate::key::ChoiceWord] =
                &[$($crate::key::ChoiceWord { name: $word, meaning: concat!($($doc, "\n"),+) },)+];

            /// The word of the config.
            $vis const fn name(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }
        }

        impl $crate::key::ConfigValue for $name {
            fn kind(_: $crate::key::Bounds) -> $crate::key::ValueKind {
                $crate::key::ValueKind::Choice(Self::WORDS)
            }

            fn read(
                node: &$crate::source::TreeNode,
                bounds: $crate::key::Bounds,
                reader: &mut $crate::key::TreeReader<'_>,
            ) -> Option<Self> {
                let text = reader.text(node, &Self::kind(bounds))?;
                let word = text.value.as_str();
                let found = [$(Self::$variant),+].into_iter().find(|choice| choice.name() == word);
                if found.is_none() {
                    reader.report_word(node, word, &Self::kind(bounds));
                }
                found
            }

            fn write(&self) -> String {
                $crate::key::ConfigValue::write(&Box::<str>::from(self.name()))
            }
        }
    };
}

pub(crate) use choice;
