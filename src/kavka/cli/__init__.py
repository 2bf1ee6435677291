"""The command line: `main` finds a command in `commands`; the other packages hold what commands share."""
