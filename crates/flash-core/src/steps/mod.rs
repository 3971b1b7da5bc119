//! The steps of a request, in the order of its way (Flash §2): read request, find file, send header, read file,
//! send data. The last two repeat for large files. Accepting is the driver's step.

pub(crate) mod find_file;
pub(crate) mod read_file;
pub(crate) mod read_request;
pub(crate) mod send_data;
pub(crate) mod send_header;
