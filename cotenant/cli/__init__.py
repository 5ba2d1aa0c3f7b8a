"""The command line: one file per command, flags to frozen options to a plain function."""
