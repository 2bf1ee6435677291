"""Security: sessions by TLS and SASL, SCRAM credentials, the authorizer and its ACLs, the audit."""
