//! Programs behind the server, under every architecture: CGI (RFC 3875), PHP, and what faulty ones do to it.

#![forbid(unsafe_code)]

mod cgi;
mod chunked;
mod direct;
mod faults;
mod front_controllers;
mod handed_on;
mod held;
mod kept_out;
mod leaving;
mod php;
mod sites;
mod slow_folder;
