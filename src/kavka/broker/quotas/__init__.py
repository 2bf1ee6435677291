"""Quotas of clients: what is stored of them, and how they are enforced. Nothing is enforced until there is one."""
