"""The script `stratagraph`, which is also `python -m stratagraph`."""

import sys


def main() -> None:
    """Run the command line; a package or compiled module that is missing is one line, not a traceback."""
    try:
        from stratagraph.cli.main import main as commands

        commands(prog_name="stratagraph")
    except ImportError as error:
        if "--debug" in sys.argv:
            raise
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
