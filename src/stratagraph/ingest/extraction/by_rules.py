"""Extraction without a model: names, co-occurrences and units of the prose of a passage by rules.

`extract` is a pure function of one chunk, so that inserting a document gives what a rebuild would. It reads
the title, the names of each sentence (`mentions`, `uncased`), subjects that a sentence only refers to,
relations and semantic units (`units`), and lower-case phrases (`candidates`).
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple

from stratagraph.ingest.extraction.candidates import noun_phrases, occurrences, uncased
from stratagraph.ingest.extraction.mentions import DATE, DOUBTFUL, Mention, mentions
from stratagraph.ingest.headings import blank, is_byline, unfenced
from stratagraph.text.sentences import sentences
from stratagraph.text.statements import markup_free, statements, title_line, whole_fields
from stratagraph.text.stopwords import ENGLISH, stop_words
from stratagraph.types.records import EntityMention, Extraction, RelationMention, SemanticUnit

# A name and where a sentence has it; an implied one (start = end) stands where the sentence begins.
Named = tuple[str, int, int]


class Sentence(NamedTuple):
    """A sentence `text[start:end]`, or a record, and the names in it, in order, each once.

    `line` is a record in one line after its heads; empty of a sentence.
    """

    start: int
    end: int
    named: list[Named]
    line: str = ""

    def stated(self, text: str) -> str:
        """The whole statement in one line."""
        return self.line or passage(text, self.start, self.end)


LONGEST_NAME = 120  # characters; what is longer is no name
QUALIFIER = re.compile(r"(?<=\w) \([^()]*\)\Z")  # "Forbidden Ground (2013 film)"
# A sentence that goes on about its predecessor's subject, or about "the journal" that the passage is on.
_ANAPHOR = re.compile(r"(?:He|She|It|They|His|Her|Its|Their)\b|(?:The|This) (?P<noun>[a-z]{3,})\b")

_MARKUP = re.compile(
    r"^[ \t]*(?:\$[ ][a-z]|>>>[ ])[^\n]*(?:\n[ \t]*\.\.\.[ ][^\n]*)*$"  # a session in a terminal
    r"|^[ \t]*(?:/{3}|!{3}|\?{3}\+?)[ \t]*[\w-]*"  # an admonition and its kind
    r"|^[ \t]*\.\.[ ][\w:-]+::[^\n]*$|^[ \t]*:\w+:[^\n]*$"  # a directive of reStructuredText, and its options
    r"|^[^\n|]*\|[^\n]*\n(?=[ \t]*\|?[ \t]*:?-{2,}:?[ \t]*(?:\||$))"  # the header of a table
    r"|<!--.{0,2000}?-->|</?[a-zA-Z][^<>\n]{0,500}>"
    r"|(?<=\])\([^()\s]{1,500}(?:[ ]\"[^\"\n]*\")?\)|\bhttps?://[^\s)>\]]+"  # where a link leads
    r"|\{[ ]?[#.:%*{][^{}\n]{0,200}\}{1,2}"  # attributes and templates
    # Code in a line that is more than a name, or a keyword; ``a quotation'' is none.
    r"|(?<!`)(`{1,2})(?![\s`])(?:(?:True|False|None)"
    r"|(?=[^`\n]*[^\w`\n.])(?:(?!'')[^`\n]){1,200})\1(?!`)",
    re.MULTILINE,
)


class _Names:
    """The names of a chunk, each in the spelling met first; capitals make no difference."""

    def __init__(self) -> None:
        self.doubtful: dict[str, bool] = {}
        self._spelling: dict[str, str] = {}
        self._full: dict[str, str] = {}

    def add(self, name: str, *, doubtful: bool = False) -> str:
        """The spelling of the name that is kept; one mention beyond doubt is enough."""
        spelling = name
        if name not in self.doubtful:
            key = name.lower()
            spelling = self._spelling.setdefault(key, name)
            if spelling is name and " " in key and " of " not in key:
                last = key[key.rindex(" ") + 1 :]
                self._full[last] = "" if last in self._full else name
        self.doubtful[spelling] = doubtful and self.doubtful.get(spelling, True)
        return spelling

    def mentioned(self, name: str, *, doubtful: bool) -> str:
        """As `add`; but a word stands for the one longer name before it that ends with it ("Hayek")."""
        full = "" if " " in name else self._full.get(name.lower(), "")
        spelling = self.add(name, doubtful=doubtful)
        return full or spelling


def extract(text: str, *, title: str = "", found: Sequence[Mention] | None = None) -> Extraction:
    """What one chunk says, by rules.

    Parameters
    ----------
    text
        The chunk, in any language. Its first line is taken for the document's title if it looks like one.
    title
        The title, where it is known; it is an entity of the chunk then whether the text has it or not.
    found
        The names in the text with their types, in order, instead of those that the rules find.

    Returns
    -------
    Entities in the order of the text, the title first; one that a sentence begins with has that sentence as
    its description. Dates are in the units and are no entities. Relations join names of one sentence, with
    the sentence as description and a strength in (0, 1] that falls with the distance. Doubtful entities and
    terms are candidates, which the corpus decides on.
    """
    text = _composed(text)
    body = prose(text)
    if title:
        line, newline, rest = body.partition("\n")
        repeated = newline and rest.strip() and markup_free(line) == title.strip()
        title, begin = title.strip(), len(line) + 1 if repeated else 0
    else:
        title, begin = title_line(body)
    names = _Names()
    topic = _title_names(title, body[begin:], names, heading=text[:1] == "#")
    stops, foreign = stop_words(body), uncased(body)
    parsed: list[Sentence] = []
    for statement in statements(text, begin):
        named: list[Mention] = []
        for start, end in statement.sentences(text):  # of a record: its lines, whose first words are no names
            if found is None:
                mentioned = mentions(body, start, end, stops)
            else:
                first, last = (bisect_left(found, place, key=itemgetter(1)) for place in (start, end))
                mentioned = list(found[first:last])
            if topic and topic in text:
                mentioned = _with_topic(body, start, end, topic, mentioned)
            if foreign.names and found is None:
                mentioned += occurrences(body, start, end, foreign.names)
                mentioned.sort(key=itemgetter(1))
            named += mentioned
        line = statement.line(text) if statement.record else ""
        parsed.append(Sentence(statement.start, statement.end, _named(named, names), line))
    _imply(text, topic, parsed)

    types = {name.lower(): kind for name, _, _, kind in reversed(found or ()) if kind}
    described = descriptions(text, [each for each in parsed if not is_byline(text, each.start, each.end)])
    return Extraction(
        units=tuple(units(text, parsed)),
        entities=tuple(
            EntityMention(name, types.get(name.lower(), ""), described.get(name, ""), doubtful)
            for name, doubtful in names.doubtful.items()
        ),
        relations=tuple(relation for sentence in parsed for relation in relations(text, sentence)),
        terms=tuple(noun_phrases(body, stops) | foreign.terms),
    )


def question_entities(question: str) -> tuple[str, ...]:
    """The names, titles and dates in a question, in order; question words are none."""
    return _mentioned(question, dates=True)


def proper_names(text: str) -> tuple[str, ...]:
    """As `question_entities`, without dates."""
    return _mentioned(text, dates=False)


def _mentioned(text: str, *, dates: bool) -> tuple[str, ...]:
    text = _composed(text)
    stops, foreign = stop_words(text), uncased(text)
    names = _Names()
    for start, end in sentences(text):
        for name, _, _, kind in mentions(text, start, end, stops):
            if dates or kind != DATE:
                names.add(name)
    for name in [*foreign.names, *foreign.terms]:  # a question is too short to repeat
        names.add(name)
    return tuple(name for name in names.doubtful if len(name) <= LONGEST_NAME)


def _composed(text: str) -> str:
    """With letters and accents in one character (NFC), which the patterns count on."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def prose(text: str) -> str:
    """A text of the same length with spaces in place of code, tags, targets of links and headers of tables.

    Documentation in Markdown is full of capitals that name nothing: keywords, classes, headers of tables.
    """
    return _MARKUP.sub(blank, unfenced(text))


def _title_names(title: str, body: str, names: _Names, *, heading: bool) -> str:
    """Add the title to the names, with and without its qualifier, and the names that it holds.

    A title is a name if it consists of one, without words of grammar, or if the body has it. What has
    capitals only in a title is doubtful. Returns the name of the passage's subject, empty if the title is
    none.
    """
    title = " ".join(title.split())
    if not title or len(title) > LONGEST_NAME:
        return ""
    topic = QUALIFIER.sub("", title)
    parts = mentions(title, 0, len(title), frozenset())
    stated = topic.lower().removeprefix("the ").split()  # "The Span Opened", "News from Perrow"
    says = not ENGLISH.isdisjoint(stated) or stated[-1].endswith("ed")
    whole = len(parts) == 1 and topic.endswith(parts[0][0]) and not says
    listed = heading and says and len(stated) == 1  # "### Fixed"
    doubtful = listed or (not whole and topic.lower() not in body.lower())
    names.add(topic, doubtful=doubtful)
    names.add(title, doubtful=doubtful)
    for name, _, _, kind in parts:
        if kind != DATE:
            names.add(name, doubtful=True)
    return "" if doubtful else topic


def _with_topic(text: str, start: int, end: int, topic: str, mentioned: list[Mention]) -> list[Mention]:
    """The mentions with the title as one name where the sentence has it, unless as part of a longer name."""
    at = text.find(topic, start, end)
    if at < 0:
        return mentioned
    last = at + len(topic)
    apart = [mention for mention in mentioned if mention[2] <= at or mention[1] >= last]
    inside = [mention for mention in mentioned if mention[1] >= at and mention[2] <= last]
    if len(apart) + len(inside) < len(mentioned) or text[last : last + 1].isalnum():
        return mentioned
    return sorted([*apart, (topic, at, last, "")], key=itemgetter(1))


def _named(mentioned: list[Mention], names: _Names) -> list[Named]:
    named: dict[str, Named] = {}
    for name, start, end, kind in mentioned:
        if len(name) <= LONGEST_NAME and kind != DATE:
            spelling = names.mentioned(name, doubtful=kind == DOUBTFUL)
            if spelling not in named:
                named[spelling] = (spelling, start, end)
    return list(named.values())


def _imply(text: str, topic: str, parsed: list[Sentence]) -> None:
    """Give sentences that begin with "He" or "The journal" the name of their subject."""
    subject = topic
    for at, (start, _, named, _) in enumerate(parsed):
        anaphor = _ANAPHOR.match(text, start)
        if anaphor and subject and all(name != subject for name, _, _ in named):
            noun = anaphor["noun"]
            if not noun or (at and topic and f" {noun}" in text[parsed[0].start : parsed[0].end]):
                named.insert(0, (subject, start, start))
        if not topic and named:
            subject = named[0][0]


_LONG = 320  # characters; a longer sentence is several units
_CLAUSE = 80  # the least that is worth a unit of its own
_SHORT = 240  # sentences about the same are joined up to here
_DESCRIPTION = 400
_HALF = 60.0  # characters between two names at which their relation is half as strong
_FROM_SUBJECT = 8  # names of a sentence that are related to its first one
_PER_SENTENCE = 32
_BORDER = re.compile(
    r"[;\u061b\uff1b]\s*|\s[\u2013\u2014]\s|[,\uff0c\u060c]\s*(?:(?:and|but|while|whereas|although|because|so"
    r"|which|who|whom|whose|where|when|with|including|und|aber|wobei|et|mais|qui|y|pero|que|e|ma|che)\s)?"
)


def relations(text: str, sentence: Sentence) -> Iterator[RelationMention]:
    """Join each name of a sentence to the next and to the first, its likely subject.

    So n names give at most 2n - 3 relations and never more than 40. The strength is 1 / (1 + gap / 60
    characters).
    """
    named = sentence.named
    if len(named) < 2:
        return
    description = sentence.stated(text)
    long = len(description) > _DESCRIPTION and not sentence.line
    subject, _, subject_end = before, _, before_end = named[0]
    for at, (name, start, end) in enumerate(named[1:_PER_SENTENCE]):
        stated = _around(text, sentence, before_end, end) if long else description
        if start >= before_end:
            strength = _HALF / (_HALF + start - before_end)
            yield RelationMention(before, name, stated, strength)
        if 0 < at < _FROM_SUBJECT and start >= subject_end:
            strength = _HALF / (_HALF + start - subject_end)
            yield RelationMention(subject, name, stated, strength)
        before, before_end = name, end


def descriptions(text: str, sentences: Sequence[Sentence]) -> dict[str, str]:
    """The first statement that begins with each name, in one line, cut at a field or blank if it is long."""
    described: dict[str, str] = {}
    for sentence in sentences:
        if sentence.named and sentence.named[0][0] not in described:
            stated = sentence.stated(text)
            if len(stated) > _DESCRIPTION:
                stated = whole_fields(stated, _DESCRIPTION, len)
            described[sentence.named[0][0]] = stated
    return described


def passage(text: str, start: int, end: int) -> str:
    """`text[start:end]` with single spaces."""
    part = text[start:end]
    return " ".join(part.split()) if "\n" in part or "  " in part else part


def _around(text: str, sentence: Sentence, first: int, last: int) -> str:
    """The part of a very long sentence around `text[first:last]` for a description, cut at blanks."""
    margin = max(_DESCRIPTION - (last - first), _DESCRIPTION // 4) // 2
    start, end = (
        max(sentence.start, first - margin),
        min(sentence.end, last + margin, first + 2 * _DESCRIPTION),
    )
    if start > sentence.start:
        start = max(start, text.find(" ", start, first) + 1)
    if end < sentence.end:
        end = max(text.rfind(" ", first + _DESCRIPTION // 4, end), first + _DESCRIPTION // 4)
    return passage(text, start, end)


def units(text: str, sentences: list[Sentence]) -> Iterator[SemanticUnit]:
    """Records, and sentences or the clauses of long ones, as semantic units.

    Short neighbouring sentences with the same names (or the names of one among the other's) become one unit.
    """
    start, end = -1, -1
    names: dict[str, int] = {}
    for first, last, named, line in _pieces(text, sentences):
        own = {name: at for name, at, _ in named}
        if line:
            if start >= 0:
                yield SemanticUnit(passage(text, start, end), tuple(names))
            yield SemanticUnit(line, tuple(own))
            start = -1
            continue
        if start >= 0:
            if last - start <= _SHORT and (own.keys() <= names.keys() or names.keys() <= own.keys()):
                end = last
                names |= own
                continue
            yield SemanticUnit(passage(text, start, end), tuple(names))
        start, end, names = first, last, own
    if start >= 0:
        yield SemanticUnit(passage(text, start, end), tuple(names))


def _pieces(text: str, sentences: list[Sentence]) -> Iterator[Sentence]:
    for sentence in sentences:
        if sentence.end - sentence.start > _LONG and len(sentence.named) > 1 and not sentence.line:
            yield from _clauses(text, sentence)
        else:
            yield sentence


def _clauses(text: str, sentence: Sentence) -> Iterator[Sentence]:
    """Cut where a clause ends, if both sides are long enough and have a name."""
    start, end, named, _ = sentence
    for border in _BORDER.finditer(text, start + _CLAUSE, end - _CLAUSE):
        cut = border.start() + 1
        if cut - start < _CLAUSE or any(first < cut < last for _, first, last in named):
            continue
        here = [name for name in named if name[1] < cut]
        if here and len(here) < len(named):
            yield Sentence(start, cut, here)
            start, named = cut + text[cut : cut + 1].isspace(), named[len(here) :]
    yield Sentence(start, end, named)
