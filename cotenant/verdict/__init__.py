"""From a recording to a verdict: metrics, comparisons, validity, gates. Pure: the same input gives the same
bytes."""
