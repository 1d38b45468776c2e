//! adit's data plane: sessions, framing, AEAD, replay, routes, segmentation and merging.
#![forbid(unsafe_code)]
