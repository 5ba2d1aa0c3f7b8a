"""The simulated player and what it says: pure functions over recorded arrivals, exact to the nanosecond."""
