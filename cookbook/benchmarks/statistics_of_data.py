"""Documents, tokens and questions of corpora (HiRAG, Tables 3 and 4; ArchRAG, Table 2).

usage: python cookbook/benchmarks/statistics_of_data.py DATA ...

DATA are corpora with questions (see `papers/layouts.py`). Tokens are counted as an index does.
"""

from __future__ import annotations

import argparse

from corpora import read

from stratagraph.text.tokens import choose


def main() -> None:
    """A line for each corpus."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", nargs="+")
    count_tokens = choose()
    print(f"{'':20} documents      tokens  questions  with evidence  with answers")
    for data in parser.parse_args().data:
        dataset = read(data)
        tokens = sum(count_tokens(item.text) for item in dataset.documents)
        asked = dataset.questions
        evident = sum(bool(each.supporting_ids) for each in asked)
        answered = sum(bool(each.answers) for each in asked)
        print(
            f"{dataset.name:20} {len(dataset.documents):9,}  {tokens:10,}  {len(asked):9,}"
            f"  {evident:13,}  {answered:12,}"
        )


if __name__ == "__main__":
    main()
