"""Kerberos through MIT's library: contexts and credentials, and the login of connections. Needs `kavka[kerberos]`."""
