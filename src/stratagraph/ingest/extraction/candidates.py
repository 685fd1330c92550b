"""Candidates for entities that no capital shows, and the choice of those that the corpus supports.

Writing without capitals (Chinese, Japanese, Korean, Thai, Arabic, Hebrew, Hindi and others): a name shows by
its marks (titles in 《》 or 「」, a Katakana run, a word that ends in "大学") or by repetition: a string or
word that occurs twice in a passage and is no word of grammar. Other writing: lower-case noun phrases.
`graph.grouping` decides on these phrases, and on doubtful names, by the corpus.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

from stratagraph.ingest.extraction.mentions import CAPITALS, Mention
from stratagraph.ingest.names.spelling import MARKS, UNSPACED
from stratagraph.text.stopwords import ENGLISH, NO_THINGS

# Hebrew to N'Ko, Indic, Thai, Tibetan, Burmese, Georgian; Hangul jamo to Mongolian; Kana to Hangul.
UNCASED = (
    "\u0590-\u08ff\u0900-\u109f\u10d0-\u10ff\u1100-\u137f\u1780-\u18af\u3005-\u3007\u3040-\u318f\u31a0-\u31ff"
    "\u3400-\u4dbf\u4e00-\ua4cf\ua840-\uabff\uac00-\ud7af\uf900-\ufaff\ufb1d-\ufdff\ufe70-\ufeff\U00020000-\U0003ffff"
)
_UNCASED = re.compile(f"[{UNCASED}]")

_TITLE = re.compile(r"[《〈「『【]([^《》〈〉「」『』【】\n]{1,40})[》〉」』】]")
_DIGIT = r"[〇一二三四五六七八九十\d]"
_DATE = re.compile(
    rf"{_DIGIT}{{2,4}}年(?:{_DIGIT}{{1,3}}月(?:{_DIGIT}{{1,3}}日)?)?|{_DIGIT}{{1,3}}月{_DIGIT}{{1,3}}日"
)
_HAN = "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
# Characters of grammar, which end a name, without those that many names contain (有, 其, 会).
_GRAMMAR = (
    "的了在是和与與及或就而以于於对對从從到被把让讓向由为為这這那之也不又很更最但并並且则則若如因已"
    "我你您他她它们們吗嗎呢吧啊哪谁誰什么麼怎"
)
_SEGMENT = re.compile(f"(?:(?![{_GRAMMAR}])[{_HAN}])+")
_BODY = re.compile(
    "[^\\W_]{1,8}?(?:大学|大學|学院|學院|研究所|研究院|公司|集团|集團|银行|銀行|医院|醫院|委员会|委員会|委員會|协会|協會|博物馆|博物館|出版社|共和国"
    "|共和國|王国|王國|帝国|帝國|政府|省|县|縣|群岛|群島|山脉|山脈|半岛|半島)"
)
_KATAKANA = re.compile("[\u30a1-\u30fa\u30fc-\u30ff]{2,}(?:[・＝][\u30a1-\u30fa\u30fc-\u30ff]{2,})*")
_HIRAGANA = re.compile("[\u3041-\u3096]")
_HANGUL = re.compile("[\uac00-\ud7af]{2,}")
_PARTICLES = "에서|에게|으로|까지|부터|이다|입니다|했다|하는|은|는|이|가|을|를|의|에|와|과|도|로|만"
_PARTICLE = re.compile(rf"(?<=..)(?:{_PARTICLES})$")
_THAI = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]{3,}")
_WORD = re.compile(
    rf"(?:(?![{UNSPACED}])[\u0590-\u08ff\u0900-\u0dff\u0f00-\u0fff\u10d0-\u10ff\u1200-\u137f\ufb1d-\ufdff\ufe70-\ufefc])"
    rf"(?:(?![{UNSPACED}])[\w{MARKS}])+"
)
_WORDS_OF_GRAMMAR = """
    في من على إلى الى عن مع هذا هذه ذلك تلك التي الذي الذين كان كانت يكون هو هي هم أن ان إن لا ما لم لن
    قد كما بعد قبل بين كل أو او ثم حيث عند منذ حتى غير بعض أي وهو وهي وقد وكان وفي ومن عام خلال أيضا لها
    له بها به فيها فيه
    של את על עם זה זו הוא היא הם הן לא כי אם גם או אשר היה היתה הייתה היו יש אין כל אל מן בין עד רק כך
    לאחר אחרי לפני אך אבל כמו יותר מאוד ידי שנת בשנת
    के का की में है हैं से को ने और पर यह वह एक था थे थी हो कि जो भी तो ही इस उस लिए साथ कर किया गया गई
    जाता ये वे अपने तक बाद हुआ हुई हुए द्वारा नहीं होता रहा करने
    و ہے ہیں کے کا کی میں سے کو نے اور پر یہ وہ ایک تھا کہ جو بھی که از به در با را این آن است بود برای
    تا یک های
"""
_STOPS = frozenset(_WORDS_OF_GRAMMAR.split())


class Uncased(NamedTuple):
    """Names with their types, in order, and candidates that the corpus decides on."""

    names: dict[str, str]
    terms: dict[str, None]


def uncased(text: str) -> Uncased:
    """The names of a text in scripts without capitals, with their types (`date` or empty)."""
    if text.isascii() or _UNCASED.search(text) is None:
        return Uncased({}, {})
    titles = [title.strip() for title in _TITLE.findall(text)]
    dates = {date: "date" for date in _DATE.findall(text) if date not in titles}
    katakana = _KATAKANA.findall(text) if _HIRAGANA.search(text) else []
    segments = _SEGMENT.findall(_DATE.sub(" ", text))
    bodies = [body for segment in segments for body in _BODY.findall(segment)]
    strings = _repeated(segments, shortest=2, longest=6)
    korean = [_PARTICLE.sub("", _PARTICLE.sub("", word)) for word in _HANGUL.findall(text)]
    korean_names, korean_terms = _repeated_words(korean, shortest=2)
    spaced_names, spaced_terms = _repeated_words(_WORD.findall(text), shortest=3)
    thai = _repeated(_THAI.findall(text), shortest=4, longest=14)
    names = [*titles, *dates, *katakana, *bodies, *strings, *korean_names, *spaced_names, *thai]
    terms = [*(each for each in segments if 2 <= len(each) <= 6), *korean_terms, *spaced_terms]
    return Uncased({name: dates.get(name, "") for name in names if name}, dict.fromkeys(terms))


def occurrences(text: str, start: int, end: int, names: Mapping[str, str]) -> list[Mention]:
    """Where a sentence has names, the longest at each place."""
    longest_first = re.compile("|".join(map(re.escape, sorted(names, key=len, reverse=True))))
    return [(match[0], *match.span(), names[match[0]]) for match in longest_first.finditer(text, start, end)]


def _repeated(segments: list[str], *, shortest: int, longest: int) -> list[str]:
    """The strings that occur twice or more in segments, without parts of a longer one that is as frequent."""
    counts: Counter[str] = Counter()
    for size in range(shortest, longest + 1):
        for segment in segments:
            counts.update(segment[at : at + size] for at in range(len(segment) - size + 1))
    often = {gram: count for gram, count in counts.items() if count > 1}
    covered = {
        part for gram, count in often.items() for part in (gram[1:], gram[:-1]) if often.get(part) == count
    }
    return [gram for gram in often if gram not in covered]


def _repeated_words(words: list[str], *, shortest: int) -> tuple[list[str], list[str]]:
    """Words and pairs of neighbours that occur twice or more, and the pairs that occur once."""
    content = [word if len(word) >= shortest and word not in _STOPS else "" for word in words]
    pairs = Counter(f"{first} {second}" for first, second in pairwise(content) if first and second)
    counts = Counter(filter(None, content)) | pairs
    return [each for each, count in counts.items() if count > 1], [pair for pair in pairs if pairs[pair] == 1]


# A lower-case word with a hyphen or an apostrophe, and what may stand around it.
_COMPOUND = re.compile(rf"[^\W\d_{CAPITALS}{UNCASED}]+(?:[-'\u2019][^\W\d_{CAPITALS}{UNCASED}]+)*")
_OPENING = "([{\"'\u201c\u2018\u00ab"
_CLOSING = ".,;:!?)]}\"'\u201d\u2019\u00bb\u2026"
_END_WORDS = """
    of in on at by for from with without within into onto upon over under above below between among amongst
    through throughout during before after about against along across around behind beside beyond despite
    near past per toward towards via like unlike except including to and or but nor than as that which who
    whom whose where when while because since if until is are was were be been being has have had do does did
    can could will would shall should may might must
"""
_ENDS = frozenset(_END_WORDS.split())
"""Words before which a noun phrase ends. Before articles and pronouns, which are not here, stands a verb."""

_LONGEST = 80  # characters of a phrase
_COMMON = 0.01  # share of all chunks beyond which a phrase tells nothing
_ALWAYS = 3  # chunks that are never too many


def noun_phrases(text: str, stops: frozenset[str]) -> dict[str, None]:
    """Lower-case noun phrases that may be names, in order, as dictionary keys.

    In English a noun phrase ends at a preposition, a conjunction, an auxiliary, a verb in the past tense or a
    mark of punctuation: "the relief boat stopped" has one, "he stayed aboard until the" has none. Its last
    two and three words are taken, and the first two of these three (`parts_of`). In other languages all
    pairs and triples of neighbouring content words are taken.
    """
    english = stops is ENGLISH
    phrases: dict[str, None] = {}
    for run, ends in _runs(text, stops):
        if not english:
            parts = [run[max(0, end - size) : end] for end in range(2, len(run) + 1) for size in (2, 3)]
        else:
            parts = [run[-3:], run[-3:-1], run[-2:]] if ends else []
        for part in parts:
            if len(part) > 1 and sum(map(len, part)) < _LONGEST:
                phrases[" ".join(part)] = None
    return phrases


def _runs(text: str, stops: frozenset[str]) -> Iterator[tuple[list[str], bool]]:
    """Runs of lower-case content words, and whether each ends where a noun phrase may end."""
    run: list[str] = []
    for word in text.split():
        bare = word.strip(_OPENING + _CLOSING)
        opens = word[0] in _OPENING
        if bare in stops or not _COMPOUND.fullmatch(bare):
            yield run, bare in _ENDS or not bare or opens
            run = []
            continue
        # A word like a verb in the past tense; "shed" is none.
        verb = stops is ENGLISH and len(bare) > 4 and bare.endswith("ed") and bare[-3] != "e"
        if opens or verb:
            yield run, True
            run = []
        if not verb:
            run.append(bare)
        if word[-1] in _CLOSING:
            yield run, True
            run = []
    yield run, True


def most_common(chunks: int) -> int:
    """The maximum number of chunks that a term may occur in, of all `chunks`."""
    return max(_ALWAYS, int(chunks * _COMMON))


def is_thing(term: str) -> bool:
    """Whether each word of a term may name a thing."""
    return NO_THINGS.isdisjoint(term.split())


def parts_of(term: str) -> tuple[str, ...]:
    """A term without its first and without its last word (or character, in unspaced writing)."""
    if " " in term:
        return term.partition(" ")[2], term.rpartition(" ")[0]
    return (term[1:], term[:-1]) if not term.isascii() else ()


DOUBTFUL_SHARE = 1.0
"""Chunks that must have a name beyond doubt, for each chunk that has it as a lower-case word."""

_ADDRESSES = "aunt baron baroness count countess dame lady madame miss mistress uncle widow"
ADDRESSES = frozenset(_ADDRESSES.split())
"""Forms of address: "Miss Lettice Dunmore" is "Lettice Dunmore", and "Miss Dunmore" is she too, if no other
Miss Dunmore is named in full."""


def short_of(name: str) -> str:
    """The form of address with the last name, of a person named in full under it; else ""."""
    front, _, rest = name.partition(" ")
    return f"{front} {rest.rpartition(' ')[2]}" if front in ADDRESSES and " " in rest else ""
