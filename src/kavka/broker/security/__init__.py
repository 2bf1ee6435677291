"""Security: the authorizer and its ACLs, what each API needs, the audit."""
