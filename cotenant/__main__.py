"""`python -m cotenant`: the same as the `cotenant` command."""

from cotenant.cli.main import main

if __name__ == "__main__":
    main()
