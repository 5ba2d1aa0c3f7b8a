"""What a run is: the scenario file, its checks, its packaged names and the `auto` table."""
