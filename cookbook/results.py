"""Measure what searches find on public corpora, and write it up as cookbook/RESULTS.md.

    python cookbook/results.py DATA --work FOLDER [--only CORPUS ...] [--rows ROW ...]
    python cookbook/results.py --assemble

DATA holds one folder for each corpus of `CORPORA`. The first command builds an index for each in FOLDER, or
opens the one that is there, and measures rows (`SEARCHES`) that no record of the present code has. `--rows`
measures the named ones, whatever there is. Each row is kept at once in `measured/CORPUS.json`, so a run that
was stopped goes on. The second command, with which the first one ends, writes RESULTS.md and its plot from
these records.
"""

import argparse
import json
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from functools import cache, partial
from pathlib import Path
from random import Random

import results_page

import stratagraph as sg
from stratagraph.eval.datasets import Dataset, Question, load_dataset
from stratagraph.eval.embedding import shared_embedder
from stratagraph.eval.metrics import contains_answer, context_of, is_yes_no

HERE = Path(__file__).resolve().parent
KEPT = HERE / "measured"
MOST = 150
"""Questions of a corpus at most; of a larger set, this many are drawn."""
FIRST = 5
BUDGETS = (1000, 2000)
METHODS = results_page.METHODS
SEARCHES = {
    **{name: {"method": "walk", "rank": name} for name in results_page.PLAIN},
    results_page.WHOLE: {"method": "walk", "rank": "dense"},
    "walk": {"method": "walk"},
    **{name: {"method": name} for name in METHODS},
    **{f"{name}/nodes": {"method": name, "fill": False} for name in METHODS},
}
"""Arguments of `Index.retrieve`, by row."""


CORPORA = {
    "musique": ("musique_train100", None),
    "musique-given": ("musique_train100", "openie.jsonl"),
    "hotpotqa": ("hotpotqa_train100", None),
    "2wiki": ("2wiki_dev164", None),
    "lihua": ("lihua_world", None),
    "multihop": ("multihop_rag_dev", None),
}
"""A folder of DATA, and a file in it of given entities and facts, by name."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--work", type=Path, help="holds indexes and vectors")
    parser.add_argument("--only", nargs="+", choices=CORPORA, default=CORPORA, metavar="CORPUS")
    parser.add_argument("--rows", nargs="+", choices=SEARCHES, metavar="ROW")
    parser.add_argument("--assemble", action="store_true", help="measure nothing")
    given = parser.parse_args()
    if not given.assemble:
        if given.data is None or given.work is None:
            parser.error("name DATA and --work FOLDER, or give --assemble")
        for name in given.only:
            measure(name, given.data, given.work, given.rows)
    assemble(HERE)


def assemble(out: Path) -> None:
    """Write RESULTS.md and the plot."""
    records = {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(KEPT.glob("*.json"))}
    (out / "RESULTS.md").write_text(results_page.page(records, KEPT), "utf-8")
    results_page.draw(records, out.parent / results_page.PLOT)


def measure(corpus: str, data: Path, work: Path, rows: Sequence[str] | None) -> None:
    """Measure rows of a corpus, and keep each in its record as it ends."""
    folder, extraction = CORPORA[corpus]
    dataset = load_dataset(data / folder, extraction=extraction)
    questions = Random(0).sample(dataset.questions, min(MOST, len(dataset.questions)))
    place = KEPT / f"{corpus}.json"
    with opened(corpus, dataset, work) as index:
        record = json.loads(place.read_text("utf-8")) if place.exists() else {"rows": {}}
        record |= {
            "documents": len(dataset.documents),
            "passages": len(index.chunks()),
            "gold": "".join(str(len(set(each.supporting_ids))) for each in questions),
        }
        for name in rows or SEARCHES:
            if not rows and record["rows"].get(name, {}).get("code") == code():
                continue
            k = index.answer_k(SEARCHES[name]["method"])
            ask = partial(index.retrieve, k=k, **SEARCHES[name])
            measured = {"date": date.today().isoformat(), "code": code()}
            record["rows"][name] = measured | scored(ask, questions, name != results_page.WHOLE)
            record["rows"] = {each: record["rows"][each] for each in SEARCHES if each in record["rows"]}
            place.write_text(json.dumps(record, indent=1) + "\n", "utf-8")
            print(f"{corpus}: {name}", flush=True)


@contextmanager
def opened(corpus: str, dataset: Dataset, work: Path) -> Iterator[sg.Index]:
    """The index of a corpus, with all methods and without a model."""
    path, extraction = work / corpus, dataset.extractions or None
    with shared_embedder(work / "cache") as embedder:
        if (path / "CURRENT").exists():
            index = sg.open_index(path, embedder=embedder)
        else:
            index = sg.build_index(
                dataset.documents,
                METHODS,
                path,
                embedder=embedder,
                config={"tokenizer": "estimate-1"},  # the same chunks whatever is installed
                progress=False,
                extraction=extraction,
            )
        with index:
            yield index


def scored(
    ask: Callable[[str], sg.Retrieval], questions: Sequence[Question], is_packed: bool = True
) -> dict[str, str]:
    """A character for each question.

    `found` is how many gold documents are among the first five: a hit of several documents takes a place for
    each. `answer@N` is 1 if a gold answer stands in the context of N tokens, else 0; `-` if there is none, or
    it is yes or no, which any text contains.
    """
    columns = {metric: "" for metric in ("found", *(f"answer@{budget}" for budget in BUDGETS))}
    for question in questions:
        retrieval = ask(question.question)
        documents = [document for hit in retrieval for document in hit.documents]
        columns["found"] += str(len(set(documents[:FIRST]) & set(question.supporting_ids)))
        for budget in BUDGETS:
            if not question.answers or is_yes_no(question.answers):
                columns[f"answer@{budget}"] += "-"
                continue
            if is_packed:
                context = retrieval.context(budget).text
            else:
                context = context_of([hit.text for hit in retrieval], budget, retrieval.count_tokens)
            columns[f"answer@{budget}"] += str(int(contains_answer(context, question.answers)))
    return columns


@cache
def code() -> str:
    """The last commit of the measured package, `+` if its files differ; `unknown` outside a checkout."""

    def git(*words: str) -> str:
        where = Path(sg.__file__).parent
        done = subprocess.run(["git", *words, "--", "."], cwd=where, capture_output=True, text=True)
        return done.stdout.strip()

    commit = git("log", "-1", "--format=%h")
    return commit + "+" * bool(git("status", "--porcelain", "-uno")) if commit else "unknown"


if __name__ == "__main__":
    main()
