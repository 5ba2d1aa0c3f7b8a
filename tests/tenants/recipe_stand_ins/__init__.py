"""Modules under other packages' names, with their signatures, for a folder on the path; no model in them."""
