"""The code of the recipes' models itself, small, with random weights, on the CPU: needs no checkpoint."""
