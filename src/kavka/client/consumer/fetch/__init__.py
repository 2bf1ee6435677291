"""Reading: the fetcher, what it asks of each leader, and what of a response a consumer gets."""
