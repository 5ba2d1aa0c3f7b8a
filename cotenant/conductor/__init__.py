"""The conductor: composes scenario, tenants, load, observers and run directory into one run."""
