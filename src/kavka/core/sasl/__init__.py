"""SASL, as Kafka speaks it: mechanisms on both sides, and the conversation of a connection; pure.

plain           user and password in one token (RFC 4616)
scram           neither side sends the password (RFC 5802, RFC 7677)
digest_md5      that of ZooKeeper's clients and servers (RFC 2831)
oauthbearer     a bearer token (RFC 7628); `unsecured_jwt` makes and reads those without a signature
gssapi          Kerberos (RFC 4752), over a library; `kerberos_names` has the users of principals
mechanisms      the table of all, with their login modules
jaas            the text of `sasl.jaas.config`
exchange        the results of a step of a mechanism
conversation    the requests of a connection until it is authenticated, and again later (KIP-152, KIP-368)
"""
