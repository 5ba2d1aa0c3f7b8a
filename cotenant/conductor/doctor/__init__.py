"""`cotenant doctor` without its words: what a scenario's run depends on, looked at and tried."""
