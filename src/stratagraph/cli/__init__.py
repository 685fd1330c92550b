"""The command line; `stratagraph.cli.main` has the commands.

loading     what the values of options name: models, settings, search options
options     options that several commands have
output      JSON or lines; errors
lines       results for people
exporting   the command `export`
serving     the commands `serve` and `mcp`
"""
