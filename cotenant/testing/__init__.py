"""Fakes that ship with the package: servers of known send times, a loop whose time is a number."""
