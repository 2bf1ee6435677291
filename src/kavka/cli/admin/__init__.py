"""What commands that use the admin client share: connection, failures, elections, replicas, tables."""
