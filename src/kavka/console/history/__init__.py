"""History of a cluster: samples of what charts show, kept for 30 days in a file of its own.

`snapshot` is what one look at the cluster finds, `look` takes it, `series` names what is kept of it, `file` keeps it
in SQLite with downsampling, `groups` finds groups that are stuck or fall behind.
"""
