"""Pages: one module per subject, which asks the cluster and hands the responses to `views`."""
