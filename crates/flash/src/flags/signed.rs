//! Which links are signed, and how.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use flash_auth::{Arguments, Expression};

/// A value of `--signed`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Signed {
    /// Every link is right. In a place, although its site asks for signed ones.
    Off,
    /// The file of a key.
    Key(PathBuf),
    Form(LinkForm),
    /// The value of nginx's `secure_link_md5`.
    Md5(Expression),
    /// The value of nginx's `secure_link`.
    Link(Arguments),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkForm {
    Flash,
    Nginx,
}

impl LinkForm {
    pub(crate) const NAMES: [(&str, Self); 2] = [("flash", Self::Flash), ("nginx", Self::Nginx)];
}

impl Signed {
    /// The names in a table of the file, and before the values of flags.
    pub(crate) const KEY: &str = "key";
    pub(crate) const FORM: &str = "form";
    pub(crate) const MD5: &str = "md5";
    pub(crate) const LINK: &str = "link";

    pub(crate) fn key(&self) -> Option<&Path> {
        match self {
            Self::Key(path) => Some(path),
            Self::Off | Self::Form(_) | Self::Md5(_) | Self::Link(_) => None,
        }
    }
}

impl FromStr for Signed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text.split_once('=') {
            None if text == "off" => Self::Off,
            Some((Self::KEY, path)) if !path.is_empty() => Self::Key(path.into()),
            Some((Self::FORM, form)) => {
                let known = LinkForm::NAMES.iter().find(|(name, _)| *name == form);
                Self::Form(known.ok_or("the forms are flash and nginx")?.1)
            }
            Some((Self::MD5, expression)) => Self::Md5(expression.parse()?),
            Some((Self::LINK, arguments)) => Self::Link(arguments.parse()?),
            _ => return Err("write key=FILE, form=nginx, md5=EXPRESSION, link=ARGUMENTS or off".into()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        assert_eq!("off".parse(), Ok(Signed::Off));
        assert_eq!("key=/a=b".parse(), Ok(Signed::Key("/a=b".into())));
        assert_eq!("form=nginx".parse(), Ok(Signed::Form(LinkForm::Nginx)));
        assert!(matches!("md5=$uri=$secret".parse(), Ok(Signed::Md5(_))));
        assert!(matches!("link=$arg_a,$arg_b".parse(), Ok(Signed::Link(_))));
        for wrong in ["", "on", "key=", "/key", "form=apache", "md5=", "md5=$uri", "link=md5", "secret=x"] {
            assert!(wrong.parse::<Signed>().is_err(), "{wrong}");
        }
    }
}
