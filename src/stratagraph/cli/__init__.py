"""The command line; `stratagraph.cli.main` has the list of commands.

options     options that several commands have, and what their values mean
output      JSON or lines; errors
lines       results for people
reading     the commands that read an index
building    the commands that build and change an index
serving     the commands `serve` and `mcp`
"""
