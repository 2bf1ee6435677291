"""Access to the console: logins, roles, masks, and where it may listen.

`roles` and `permissions` decide, `masks` changes records, `config` reads the file of `--access`. Above them,
`kavka.console.scope` puts both around the connection to the cluster, and `kavka.console.gate` asks for each request.
"""
