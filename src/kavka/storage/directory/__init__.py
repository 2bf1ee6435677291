"""A log directory, an entry of `log.dirs`: the unit of failure, with its write queue and the creation of logs."""
