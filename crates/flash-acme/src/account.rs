//! The account with the authority: made once, and kept.

use std::fs;
use std::io;
use std::sync::PoisonError;

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use instant_acme::{Account, AccountCredentials, ExternalAccountKey, NewAccount};
use serde::{Deserialize, Serialize};

use crate::asker::Asker;
use crate::refusal::{Kind, Refusal};
use crate::settings::Settings;
use crate::store::Store;

/// What is kept of it.
#[derive(Serialize, Deserialize)]
struct Kept {
    credentials: AccountCredentials,
    email: Option<String>,
}

impl Asker<'_> {
    /// The account, which is opened once, and made if there is none.
    pub(crate) fn account(&self) -> Result<Account, Refusal> {
        // Others wait meanwhile, so that there is one.
        let mut opened = self.account.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(account) = &*opened {
            return Ok(account.clone());
        }
        let account = match open(self) {
            Err(Refusal { kind: Kind::NoAccount, .. }) => {
                put_aside(self)?;
                open(self)?
            }
            account => account?,
        };
        Ok(opened.insert(account).clone())
    }

    /// Puts an account aside that the authority does not know. Another thread may have done so.
    pub(crate) fn forget(&self, unknown: &Account) -> io::Result<()> {
        let mut opened = self.account.lock().unwrap_or_else(PoisonError::into_inner);
        match opened.take_if(|account| account.id() == unknown.id()) {
            Some(_) => put_aside(self),
            None => Ok(()),
        }
    }
}

fn open(asker: &Asker<'_>) -> Result<Account, Refusal> {
    let Asker { settings, store, http, binding, .. } = asker;
    let path = store.account(&settings.directory);
    let builder = Account::builder_with_http(Box::new(http.clone()));
    let contact = settings.email.as_ref().map(|email| format!("mailto:{email}"));
    let contact: Vec<&str> = contact.iter().map(String::as_str).collect();
    // What cannot be read now may be there tomorrow.
    if let Some(Kept { credentials, email }) = Store::read_json(&path)? {
        let account = asker.ask(builder.from_credentials(credentials))?;
        if email != settings.email {
            asker.ask(account.update_contacts(&contact))?;
            if let Some(kept) = Store::read_json::<Kept>(&path)? {
                store.write_json(&path, &Kept { email: settings.email.clone(), ..kept })?;
            }
        }
        return Ok(account);
    }
    let new = NewAccount { contact: &contact, terms_of_service_agreed: true, only_return_existing: false };
    let made = builder.create(&new, settings.directory.clone(), binding.as_ref());
    let (account, credentials) = asker.ask(made)?;
    store.write_json(&path, &Kept { credentials, email: settings.email.clone() })?;
    Ok(account)
}

fn put_aside(asker: &Asker<'_>) -> io::Result<()> {
    let path = asker.store.account(&asker.settings.directory);
    fs::rename(&path, path.with_extension("unknown"))
}

/// The number and the key of an account elsewhere, with a blank between them.
pub(crate) fn binding(settings: &Settings) -> Result<Option<ExternalAccountKey>, Refusal> {
    let Some(path) = &settings.account_binding else { return Ok(None) };
    let wrong = |why: String| Refusal::new(format_args!("{}: {why}", path.display()));
    let text = fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let mut words = text.split_whitespace();
    let (Some(number), Some(key), None) = (words.next(), words.next(), words.next()) else {
        return Err(wrong("it has to have the number of an account, a blank, and its key".into()));
    };
    let key = BASE64_URL_SAFE_NO_PAD
        .decode(key.trim_end_matches('='))
        .map_err(|_| wrong("its key is not in the form of base64url".into()))?;
    Ok(Some(ExternalAccountKey::new(number.into(), &key)))
}
