"""Settings: one declaration each, from which parsing, checks, DescribeConfigs and the reference page come."""
