//! Error pages: the site's own where it has them, plain ones otherwise.

use std::collections::HashMap;

use flash_http::status::Status;

#[derive(Clone, Debug, Default)]
pub struct Pages {
    own: HashMap<u16, Vec<u8>>,
}

impl Pages {
    /// Pages by status code, in HTML.
    pub fn new(own: HashMap<u16, Vec<u8>>) -> Self {
        Self { own }
    }

    pub(crate) fn write(&self, status: Status, out: &mut Vec<u8>) {
        match self.own.get(&status.0) {
            Some(page) => out.extend_from_slice(page),
            None => out.extend_from_slice(plain(status).as_bytes()),
        }
    }
}

fn plain(status: Status) -> String {
    let (code, reason) = (status.0, status.reason());
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{code} {reason}</title>\n\
         <style>body {{ font: 1.1rem/1.5 system-ui, sans-serif; margin: 20vh auto; width: fit-content }}</style>\n\
         <h1>{code}</h1>\n<p>{reason}\n</html>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_pages_come_first() {
        let pages = Pages::new(HashMap::from([(404, b"lost".to_vec())]));
        let mut out = Vec::new();
        pages.write(Status::NOT_FOUND, &mut out);
        assert_eq!(out, b"lost");
        out.clear();
        pages.write(Status::FORBIDDEN, &mut out);
        assert!(out.starts_with(b"<!doctype html>"));
    }
}
