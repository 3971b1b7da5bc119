//! Error pages: the site's own, and plain ones for all other statuses.

use std::borrow::Cow;
use std::collections::HashMap;

use flash_http::status::Status;

#[derive(Clone, Debug)]
pub struct Pages {
    /// The site's own pages, and plain ones for the most frequent statuses.
    ready: HashMap<u16, Vec<u8>>,
    /// Whether the site has a page of its own for 404.
    has_missing: bool,
}

impl Pages {
    /// Pages by status code, in HTML.
    pub fn new(mut own: HashMap<u16, Vec<u8>>) -> Self {
        let has_missing = own.contains_key(&Status::NOT_FOUND.0);
        for status in [Status::FORBIDDEN, Status::NOT_FOUND, Status::SERVICE_UNAVAILABLE] {
            own.entry(status.0).or_insert_with(|| plain(status).into_bytes());
        }
        Self { ready: own, has_missing }
    }

    /// Whether the site has a page of its own for names that lead nowhere.
    pub fn has_missing(&self) -> bool {
        self.has_missing
    }

    pub(crate) fn get(&self, status: Status) -> Cow<'_, [u8]> {
        match self.ready.get(&status.0) {
            Some(page) => Cow::Borrowed(page),
            None => Cow::Owned(plain(status).into_bytes()),
        }
    }
}

impl Default for Pages {
    fn default() -> Self {
        Self::new(HashMap::new())
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
        assert_eq!(*pages.get(Status::NOT_FOUND), *b"lost");
        assert!(pages.get(Status::FORBIDDEN).starts_with(b"<!doctype html>"));
        assert!(pages.get(Status::BAD_REQUEST).starts_with(b"<!doctype html>"));
    }
}
