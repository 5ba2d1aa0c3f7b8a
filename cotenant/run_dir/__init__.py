"""The run directory: the only boundary between measuring and everything computed from it."""
