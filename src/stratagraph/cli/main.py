"""The command line: `stratagraph demo | estimate | build | insert | delete | query | stats | ...`.

Every command has `--json`. An error is one line on standard error and exit code 1 (2 for wrong usage, 3 if
files were skipped or rows of an evaluation failed); `--debug` shows the traceback.
"""

from __future__ import annotations

from importlib import import_module

import click

import stratagraph as sg

_HOMES = {
    "building": "batch build compact delete estimate insert reembed regroup sync",
    "reading": "demo export list query skill stats verify",
    "serving": "mcp serve",
}
_HOME = {name: module for module, names in _HOMES.items() for name in names.split()}


class Program(click.Group):
    """The commands, each imported when it is used: what a command needs takes most of a second."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return sorted([*_HOME, "eval"])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command by name."""
        if cmd_name == "eval":
            from stratagraph.cli.options import models_options
            from stratagraph.cli.output import command
            from stratagraph.eval.command import eval_command

            return eval_command(command, models_options)
        if cmd_name not in _HOME:
            return None
        module = import_module(f"stratagraph.cli.{_HOME[cmd_name]}")
        found: click.Command = getattr(module, "list_" if cmd_name == "list" else cmd_name)
        return found


@click.group(cls=Program, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(sg.__version__, prog_name="stratagraph")
def main() -> None:
    """Graph RAG over a folder of texts. Needs no key, server or network.

    INPUTS are files and folders: text, Markdown, CSV, JSON, .jsonl files with one document per line,
    HTML, DOCX, PPTX, ODT, EPUB, mail, and with the extra `files` PDF and XLSX. Exit code 3 means that some
    could not be read.

    A document's id is its path inside the folder that is given, whatever way the folder is spelt. `build
    notes` makes the id sub/b.txt, which `insert idx notes/sub/b.txt` updates and `delete idx sub/b.txt`
    deletes. Of several folders, ids begin with the folder's name; the id of a file given by itself is its
    name. The index remembers its folders; --as NAME begins the ids of a new one, and --moved OLD=NEW tells
    where one of them is now. A line of a .jsonl file has its "id"; a row of a table is file:id, or file: and
    a hash of the row. A file owns its rows: reading it again deletes those that it has no more.
    """
