"""Users in `kavka configs`: their SCRAM credentials, by brokers or before a broker runs."""
