//! A site, or a [place](crate::site::places) in it: its rules, its error pages and its routes. All connections share it, and none
//! changes it.

pub mod access;
pub mod configuration_number;
pub mod fallback;
pub mod field_rules;
pub mod fixed_response;
pub(crate) mod held;
pub mod hosts;
pub mod id;
pub mod media_types;
pub mod methods;
pub mod network;
pub mod page;
pub mod path_rules;
pub mod places;
pub mod private_root;
pub mod proxy_rules;
pub mod redirect;
pub mod redirect_table;
pub mod root;
pub mod routes;
pub mod sticky;

use std::sync::Arc;

use flash_http::head::{RequestHead, Target};
use flash_http::method::Method;
use flash_http::negotiate::CodingSet;
use flash_http::status::Status;

use crate::clients::Rates;
use crate::clients::login::Users;
use crate::connection::transport::{SiteCertificates, TransportInfo};
use crate::file::entry::Resource;
use crate::file::header::HeaderTemplate;
use crate::path::SitePath;
use crate::record::log_choice::LogChoice;
use crate::site::access::AccessRules;
use crate::site::configuration_number::ConfigurationNumber;
use crate::site::fallback::Fallback;
use crate::site::fixed_response::FixedResponse;
use crate::site::id::SiteId;
use crate::site::methods::Methods;
use crate::site::page::Pages;
use crate::site::path_rules::PathRules;
use crate::site::places::Places;
use crate::site::private_root::PrivateRoot;
use crate::site::redirect::Redirect;
use crate::site::redirect_table::RedirectTable;
use crate::site::root::Generation;
use crate::site::routes::Routes;

#[derive(Debug, Default)]
pub struct Site {
    /// Under which number the caches and the disk know its files. Sites and places that see the same files in the same way have
    /// the same number.
    pub id: SiteId,
    pub settings: Arc<SiteSettings>,
    pub template: Arc<HeaderTemplate>,
    pub pages: Arc<Pages>,
    /// The generation of the root that is served, shared with the disk side.
    pub generation: Arc<Generation>,
    /// The same site with another root, for what this one lacks.
    pub next_root: Option<Arc<Self>>,
    /// The routes to upstreams, if there are any.
    pub routes: Option<Arc<Routes>>,
    /// A client's requests to sites and places with the same number and the same limit count together.
    pub limit_group: u32,
    /// Parts of the site with rules of their own. A place has none.
    pub places: Option<Places<Site>>,
    /// The certificates that are shown for it, if it is served over TLS.
    pub certificates: Option<SiteCertificates>,
    /// Its clients have to show certificates in their TLS handshake. A trusted proxy cannot do that for them.
    pub requires_client_certificate: bool,
    /// A place of the site is [internal](SiteSettings::internal), so its programs may hand files on.
    pub hands_files_on: bool,
    /// Requests without TLS are redirected to this port.
    pub https_port: Option<u16>,
    /// The number under which its responses are counted. 0 stands for all sites without a name.
    pub counted_as: u32,
    /// The configuration that the site belongs to.
    pub configuration: Arc<ConfigurationNumber>,
}

/// The rules of a site or a place. A place has inherited those that it does not set itself.
#[derive(Clone, Debug)]
pub struct SiteSettings {
    /// The limit for request bodies. A body that is of no use to a file is read and dropped.
    pub body_bytes_max: u64,
    pub dotfiles: bool,
    /// What a client has to pass first, if there is anything.
    pub access: Option<AccessRules>,
    /// How fast clients get what is here.
    pub rates: Rates,
    /// Paths that lead nowhere, whatever lies there.
    pub deny: PathRules,
    pub list: bool,
    /// The codings in which listings are compressed.
    pub compress_listings: CodingSet,
    /// Clients get the digests of files, in a field and as files that are not there.
    pub digests: bool,
    /// What answers for paths without a file.
    pub fallback: Option<Fallback>,
    /// What answers every request.
    pub respond: Option<Arc<FixedResponse>>,
    /// Single paths that are sent elsewhere.
    pub redirects: Option<Arc<RedirectTable>>,
    /// Where all requests are sent instead.
    pub redirect: Option<Redirect>,
    /// Nothing is here any more: 410.
    pub gone: bool,
    /// The methods that are answered. `None` stands for those that files and programs have.
    pub methods: Option<Methods>,
    /// The site's own `/404.html` is the page for names that lead nowhere, as long as there is one.
    pub own_missing_page: bool,
    /// The codings in which the answers of programs are compressed.
    pub compress_programs: CodingSet,
    /// Clients and programs get each request's id.
    pub request_id: bool,
    /// Which access log has lines for its requests.
    pub access_log: LogChoice,
    /// Nothing is here for clients but what programs hand on to them.
    pub internal: bool,
    /// The folders whose files programs name by their paths on the disk.
    pub files: Arc<[PrivateRoot]>,
}

impl Default for SiteSettings {
    fn default() -> Self {
        Self {
            body_bytes_max: 1 << 20,
            dotfiles: false,
            access: None,
            rates: Rates::default(),
            deny: PathRules::default(),
            list: false,
            compress_listings: CodingSet::EMPTY,
            digests: false,
            fallback: None,
            respond: None,
            redirects: None,
            redirect: None,
            gone: false,
            methods: None,
            own_missing_page: false,
            compress_programs: CodingSet::EMPTY,
            request_id: false,
            access_log: LogChoice::default(),
            internal: false,
            files: Arc::default(),
        }
    }
}

impl SiteSettings {
    /// Whether no request is about a file or a program.
    pub fn answers_all(&self) -> bool {
        let is_fixed = self.respond.as_ref().is_some_and(|respond| respond.except.is_empty());
        self.redirect.is_some() || self.gone || is_fixed
    }

    /// Where this path alone is sent.
    pub(crate) fn moved(&self, head: &RequestHead<'_>) -> Option<Redirect> {
        self.redirects.as_ref()?.find(head)
    }

    /// Those who may log in.
    pub(crate) fn users(&self) -> Option<&Arc<dyn Users>> {
        self.access.as_ref()?.users.as_ref()
    }

    /// Whether only some clients get what is here.
    pub(crate) fn is_private(&self) -> bool {
        self.access.as_ref().is_some_and(AccessRules::are_private)
    }

    /// Whether these rules may refuse or count a request for this path that the others have let pass.
    pub(crate) fn add_to(&self, others: &Self, path: &SitePath<'_>) -> bool {
        let of_clients = self.access.as_ref().is_some_and(|access| access.adds_to(others.access.as_ref()));
        of_clients
            || self.gone
            || self.redirect.is_some()
            || (self.methods.is_some() && self.methods != others.methods)
            || self.deny.cover(path)
    }

    /// The status that refuses requests of this method, whatever they ask for.
    pub(crate) fn refusal(&self, method: Method) -> Option<Status> {
        match method {
            Method::Unknown if self.methods.is_some() => Some(Status::NOT_IMPLEMENTED),
            // Both are meant for proxies (RFC 9110 §9.3.6, §9.3.8). A program could misunderstand them.
            Method::Known("CONNECT" | "TRACE") => Some(Status::METHOD_NOT_ALLOWED),
            _ if self.methods.as_ref().is_some_and(|methods| !methods.contain(method)) => {
                Some(Status::METHOD_NOT_ALLOWED)
            }
            _ => self.gone.then_some(Status::GONE),
        }
    }

    /// The value of `Allow`.
    pub(crate) fn allow(&self) -> &[u8] {
        self.methods.as_ref().map_or(methods::OF_FILES, Methods::allow)
    }
}

/// A file of at most this size is sent in one piece with its head, without a second slice.
pub(crate) const INLINE_BYTES_MAX: u64 = 4 << 10;

/// A large file is made ready and sent in windows of at most this size.
pub const WINDOW_BYTES: u64 = 1 << 20;

impl Site {
    /// Whether requests for it may come over this transport: the certificates that the client was shown have to be its own (RFC
    /// 9110 §15.5.20).
    #[inline]
    pub(crate) fn is_served_over(&self, transport: &TransportInfo) -> bool {
        let own = |shown| self.certificates.as_ref().is_some_and(|own| own.include(shown));
        transport.tls.is_none_or(|tls| own(tls.certificates))
    }

    /// The site itself, or the place in it that this target belongs to. Does not allocate if the target is canonical. If the target
    /// is by its name a file's compressed copy, also the file's path and its place, if that is another one.
    #[inline]
    pub(crate) fn of_target(
        self: &Arc<Self>,
        target: Target<'_>,
    ) -> (&Arc<Self>, Option<(SitePath<'static>, &Arc<Self>)>) {
        let (Some(places), Target::Origin { path, .. }) = (&self.places, target) else { return (self, None) };
        let Ok(path) = SitePath::parse(path) else { return (self, None) };
        let own = places.find(&path).unwrap_or(self);
        let file = path.copy_of().map(|file| (places.find(&file).unwrap_or(self), file));
        let file = file.filter(|(there, _)| !Arc::ptr_eq(there, own));
        (own, file.map(|(there, file)| (file.into_owned(), there)))
    }

    /// The same site with the root so far behind this one.
    pub(crate) fn root_behind(self: &Arc<Self>, roots: u8) -> &Arc<Self> {
        let next = self.next_root.as_ref().filter(|_| roots > 0);
        next.map_or(self, |next| next.root_behind(roots - 1))
    }

    /// What answers a path: the site, or a place in it.
    pub(crate) fn at_path(self: &Arc<Self>, path: &SitePath<'_>) -> &Arc<Self> {
        self.places.as_ref().and_then(|places| places.find(path)).unwrap_or(self)
    }

    /// The position of the place that a path belongs to. For explanations: it takes its time.
    pub fn position_of(self: &Arc<Self>, path: &SitePath<'_>) -> Option<usize> {
        let there = self.at_path(path);
        self.with_places().position(|place| Arc::ptr_eq(place, there))?.checked_sub(1)
    }

    /// The site, and then its places.
    pub fn with_places(self: &Arc<Self>) -> impl Iterator<Item = &Arc<Self>> {
        [self].into_iter().chain(self.places.iter().flat_map(Places::iter))
    }

    /// The fallback, if it answers this request, whose path leads to `found`.
    pub(crate) fn fallback_for(
        &self,
        head: &RequestHead<'_>,
        raw_path: &[u8],
        found: &Resource,
    ) -> Option<&Fallback> {
        let fallback = self.settings.fallback.as_ref()?;
        let path = SitePath::parse(raw_path).ok()?;
        (fallback.answers(head, &path, found, self.settings.list) && fallback.covers(&path))
            .then_some(fallback)
    }

    /// Whether an upstream may answer this path, be it as the fallback.
    pub(crate) fn may_lead_to_program(&self, raw_path: &[u8]) -> bool {
        let Some(routes) = &self.routes else { return false };
        let Ok(path) = SitePath::parse(raw_path) else { return false };
        let fallback = self.settings.fallback.as_ref();
        routes.may_lead_to_program(&path)
            || fallback.is_some_and(|fallback| {
                fallback.path().is_none_or(|path| routes.may_lead_to_program(path)) && fallback.covers(&path)
            })
    }
}
