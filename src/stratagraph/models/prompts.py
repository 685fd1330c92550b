"""Prompts are Markdown files beside the code that uses them; a user may replace any by its name."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from stratagraph.models.gate import Prompt

PACKAGES = (
    "stratagraph.ingest",
    "stratagraph.search",
    "stratagraph.methods",
    "stratagraph.methods.lshtree",
    "stratagraph.methods.archrag",
    "stratagraph.methods.noderag",
    "stratagraph.methods.hirag",
)


@cache
def prompt_names() -> tuple[str, ...]:
    """The names of all prompts, as a configuration may replace them."""
    return tuple(
        sorted(
            f"{package.rsplit('.', 1)[-1]}/{file.name.removesuffix('.md')}"
            for package in PACKAGES
            for file in files(package).joinpath("prompts").iterdir()
            if file.name.endswith(".md")
        )
    )


def check_template(name: str, template: object) -> None:
    """`TypeError` or `ValueError` if a template cannot replace the prompt of this name."""
    if not isinstance(template, str):
        raise TypeError(f"prompt {name!r} must be a text, not {template!r}")
    folder, _, file = name.partition("/")
    package = next(each for each in PACKAGES if each.rsplit(".", 1)[-1] == folder)
    names = load_prompt(package, file).names
    if strange := sorted(Prompt(name, template).names - names):
        raise ValueError(
            f"prompt {name!r} asks for {', '.join(strange)}; it may ask for {', '.join(sorted(names))}"
        )


@cache
def load_prompt(package: str, name: str) -> Prompt:
    """The prompt `prompts/<name>.md` of a package, known to users as `<last part of package>/<name>`."""
    template = files(package).joinpath("prompts", f"{name}.md").read_text("utf-8")
    return Prompt(name=f"{package.rsplit('.', 1)[-1]}/{name}", template=template)
