"""TLS: key and trust stores, contexts that are reloaded from their files, and the transport of a listener."""
