"""What a person sees while a run is going on."""
