"""From start to stop: identity, registration with the cluster, listeners, periodic tasks."""
