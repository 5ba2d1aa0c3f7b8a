"""What the stalls and freezes of a stage are blamed on."""
