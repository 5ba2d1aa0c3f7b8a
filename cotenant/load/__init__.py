"""The load: listeners and askers, each request on a connection of its own, every arrival stamped."""
