"""Observers: processes that record what the host and the GPU did while the load ran."""
