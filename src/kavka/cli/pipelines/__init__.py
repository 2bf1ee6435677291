"""Parts of `kavka pipelines`."""
