"""`python -m stratagraph` is `stratagraph`."""

from stratagraph.cli import main

if __name__ == "__main__":
    main(prog_name="stratagraph")
