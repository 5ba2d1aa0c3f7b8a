"""`cotenant doctor` in words: what was found out, what it means for a run, and both as text."""
