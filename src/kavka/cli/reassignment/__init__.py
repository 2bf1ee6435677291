"""Parts of `kavka reassign-partitions`."""
