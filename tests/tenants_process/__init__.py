"""Tests of how tenants are started, watched and ended, with real processes."""
