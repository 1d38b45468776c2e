//! Network namespaces, processes and peers for adit's demo and tests.
#![forbid(unsafe_code)]
