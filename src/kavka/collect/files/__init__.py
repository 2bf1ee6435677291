"""Following log files: `tracker` decides what each file is, `following` carries it out."""
