"""One entry of `log.dirs`: the unit of failure, with its queue of writes and the creation of its logs."""
