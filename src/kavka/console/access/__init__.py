"""Access to the console: logins, roles, masks, and where it may listen.

`roles` and `permissions` decide, `masks` changes records, `scope` puts both around the connection to the cluster, and
`gate` asks them for each request. `config` reads the file of `--access`.
"""
