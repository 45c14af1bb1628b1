//! What a `.npy` file says about itself: magic, version, length, and a Python dict of three entries.
//!
//! Read here and not by a crate for Python literals: the one that was used multiplied the sizes of a shape
//! unchecked and reserved whatever length a file claims, and the dict of a plain array has no more to it than
//! a string, a truth value and some numbers.

/// The header of an array of plain elements.
#[derive(Debug, PartialEq)]
pub(super) struct Header {
    /// NumPy's code for an element, e.g. `<f4`.
    pub(super) descriptor: String,
    pub(super) fortran_order: bool,
    pub(super) shape: Vec<u64>,
    /// Bytes before the first element.
    pub(super) length: usize,
}

impl Header {
    pub(super) fn read(file: &[u8]) -> Result<Header, String> {
        let rest = file
            .strip_prefix(b"\x93NUMPY")
            .ok_or("it does not begin like one")?;
        let (prefix, length) = match rest {
            [1, _, a, b, ..] => (10, usize::from(u16::from_le_bytes([*a, *b]))),
            [2 | 3, _, a, b, c, d, ..] => (12, u32::from_le_bytes([*a, *b, *c, *d]) as usize),
            [version, ..] if !(1..=3).contains(version) => {
                return Err(format!("its version {version} is not known"));
            }
            _ => return Err("it is cut off".to_string()),
        };
        let end = prefix + length.min(super::MOST_HEADER_BYTES);
        let text = match file.get(prefix..end) {
            Some(text) if text.len() == length => std::str::from_utf8(text),
            Some(_) => return Err("its header is too long".to_string()),
            None => return Err("its header is cut off".to_string()),
        };
        let text = text.map_err(|_| "its header is not text")?;
        let mut reader = Reader { rest: text };
        let mut header = reader.dict()?;
        header.length = end;
        Ok(header)
    }

    /// `None` when there are more than can be counted.
    pub(super) fn elements(&self) -> Option<u64> {
        self.shape.iter().try_fold(1u64, |n, e| n.checked_mul(*e))
    }
}

/// Reads the dict from the front of what is left.
struct Reader<'t> {
    rest: &'t str,
}

impl<'t> Reader<'t> {
    fn dict(&mut self) -> Result<Header, String> {
        let (mut descriptor, mut fortran_order, mut shape) = (None, None, None);
        self.expect('{')?;
        while !self.accept('}') {
            let key = self.string()?;
            self.expect(':')?;
            match key {
                "descr" => {
                    descriptor = Some(self.string().map_err(|_| "it has no plain elements")?)
                }
                "fortran_order" => fortran_order = Some(self.boolean()?),
                "shape" => shape = Some(self.tuple()?),
                _ => return Err("its header has a key that is not known".to_string()),
            }
            if !self.accept(',') {
                self.expect('}')?;
                break;
            }
        }
        let missing = |key: &str| format!("its header has no `{key}`");
        Ok(Header {
            descriptor: descriptor.ok_or_else(|| missing("descr"))?.to_string(),
            fortran_order: fortran_order.ok_or_else(|| missing("fortran_order"))?,
            shape: shape.ok_or_else(|| missing("shape"))?,
            length: 0,
        })
    }

    fn accept(&mut self, wanted: char) -> bool {
        let rest = self.rest.trim_start();
        match rest.strip_prefix(wanted) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, wanted: char) -> Result<(), String> {
        match self.accept(wanted) {
            true => Ok(()),
            false => Err(format!("its header has no `{wanted}` where one must be")),
        }
    }

    /// Between quotes of either kind; what is asked for has no escapes.
    fn string(&mut self) -> Result<&'t str, String> {
        let quote = match self.accept('\'') {
            true => '\'',
            false => {
                self.expect('"')?;
                '"'
            }
        };
        let (text, rest) = self
            .rest
            .split_once(quote)
            .ok_or("its header has a string without an end")?;
        self.rest = rest;
        Ok(text)
    }

    fn boolean(&mut self) -> Result<bool, String> {
        match self.word() {
            "True" => Ok(true),
            "False" => Ok(false),
            _ => Err("its order is neither `True` nor `False`".to_string()),
        }
    }

    fn tuple(&mut self) -> Result<Vec<u64>, String> {
        let mut numbers = Vec::new();
        self.expect('(')?;
        while !self.accept(')') {
            let number = self.word().parse();
            numbers.push(number.map_err(|_| "its shape is not of whole numbers")?);
            if !self.accept(',') {
                self.expect(')')?;
                break;
            }
        }
        Ok(numbers)
    }

    fn word(&mut self) -> &'t str {
        let rest = self.rest.trim_start();
        let end = rest
            .find(|c: char| !c.is_ascii_alphanumeric())
            .unwrap_or(rest.len());
        self.rest = &rest[end..];
        &rest[..end]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dict(text: &str) -> Result<Header, String> {
        Reader { rest: text }.dict()
    }

    #[test]
    fn reads_what_numpy_writes() {
        let read = dict("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }      \n");
        let read = read.unwrap();
        assert_eq!(
            (read.descriptor.as_str(), read.fortran_order),
            ("<f4", false)
        );
        assert_eq!(read.shape, [2, 3]);
        let scalar = dict("{\"shape\":(),\"fortran_order\":True,\"descr\":\"|u1\"}").unwrap();
        assert_eq!((scalar.elements(), scalar.fortran_order), (Some(1), true));
    }

    #[test]
    fn refuses_what_is_no_plain_array() {
        for text in [
            "",
            "{",
            "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}",
            "{'descr': '<f4', 'fortran_order': 0, 'shape': (2,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': 2}",
            "{'descr': '<f4', 'fortran_order': False}",
            "{'descr': '<f4",
        ] {
            assert!(dict(text).is_err(), "{text}");
        }
        assert!(Header::read(b"\x93NUMPY\x01\x00").is_err());
        assert!(Header::read(b"\x93NUMPY\x09\x00\x00\x00").is_err());
        // A length that promises more than there is costs nothing.
        assert!(Header::read(b"\x93NUMPY\x02\x00\xff\xff\xff\xff{").is_err());
    }
}
