"""Pages: one module per subject, which asks the cluster and hands the answers to `views`."""
