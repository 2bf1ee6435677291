"""TLS: key and trust stores, contexts that follow their files, and the transport of a listener."""
