"""`python -m stratarag` is `stratarag`."""

from stratarag.cli import main

if __name__ == "__main__":
    main(prog_name="stratarag")
