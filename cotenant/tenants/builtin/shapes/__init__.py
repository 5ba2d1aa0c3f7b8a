"""The models behind the built-in servers (weights are random) and the records of their sizes."""
