//! What holds for any bytes: one property for each fuzz target. The fuzzer looks for bytes that break it, and a test replays the
//! corpora.

pub(crate) mod cgi_response;
pub(crate) mod cgi_variables;
pub(crate) mod chunked;
pub(crate) mod configuration;
pub(crate) mod fastcgi;
pub(crate) mod foreign_configuration;
pub(crate) mod h2_frames;
pub(crate) mod head;
pub(crate) mod helper_answer;
pub(crate) mod helper_question;
pub(crate) mod hpack;
pub(crate) mod password_file;
pub(crate) mod proxy_header;
pub(crate) mod range;
pub(crate) mod site_path;
pub(crate) mod tls_session;
