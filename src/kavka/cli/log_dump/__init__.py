"""Parts of `kavka dump-log`."""
