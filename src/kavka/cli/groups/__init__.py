"""Parts of `kavka consumer-groups`."""
