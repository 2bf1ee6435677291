"""A partition's leader and the coordinators of transactions that write to it (KIP-890): what it asks them. Pure."""
