"""The services under test and how they are started: built-in servers, commands, running servers."""
