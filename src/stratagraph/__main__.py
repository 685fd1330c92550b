"""`python -m stratagraph` is `stratagraph`."""

from stratagraph.cli.main import main

if __name__ == "__main__":
    main(prog_name="stratagraph")
