"""Bytes to events and events to bytes, without I/O or a clock."""
