"""Names in writing without capitals: Chinese, Japanese, Korean, Thai, Arabic, Hebrew, Hindi and others.

Without a dictionary a name shows by its marks (titles in 《》 or 「」, a Katakana run, a word that ends in
"大学") or by repetition: a string or word that occurs twice in a passage and is no word of grammar.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

from stratagraph.ingest.extraction.mentions import Mention
from stratagraph.ingest.names.spelling import MARKS, UNSPACED

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
# Characters of grammar, which end a name; those that many names contain (有, 其, 会) are not among them.
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


def has_uncased(text: str) -> bool:
    """Whether anything in the text is in a script without capitals."""
    return not text.isascii() and _UNCASED.search(text) is not None


def uncased(text: str) -> Uncased:
    """The names of a text in scripts without capitals, with their types (`date` or empty)."""
    candidates = Uncased({}, {})
    for title in _TITLE.findall(text):
        candidates.names.setdefault(title.strip(), "")
    for date in _DATE.findall(text):
        candidates.names.setdefault(date, "date")
    if _HIRAGANA.search(text):
        for name in _KATAKANA.findall(text):
            candidates.names.setdefault(name, "")
    _han(text, candidates)
    _repeated_words(
        [_PARTICLE.sub("", _PARTICLE.sub("", word)) for word in _HANGUL.findall(text)], candidates, shortest=2
    )
    _repeated_words(_WORD.findall(text), candidates, shortest=3)
    for gram in _repeated(_THAI.findall(text), shortest=4, longest=14):
        candidates.names.setdefault(gram, "")
    candidates.names.pop("", None)
    return candidates


def occurrences(text: str, start: int, end: int, names: Mapping[str, str]) -> list[Mention]:
    """Where a sentence has names, the longest at each place."""
    mentioned: list[Mention] = []
    sizes = sorted({len(name) for name in names}, reverse=True)
    at = start
    while at < end:
        for size in sizes:
            name = text[at : at + size]
            if name in names and at + size <= end:
                mentioned.append((name, at, at + size, names[name]))
                at += size - 1
                break
        at += 1
    return mentioned


def _han(text: str, candidates: Uncased) -> None:
    segments = _SEGMENT.findall(_DATE.sub(" ", text))
    for segment in segments:
        for body in _BODY.findall(segment):
            candidates.names.setdefault(body, "")
        if 2 <= len(segment) <= 6:
            candidates.terms[segment] = None
    for gram in _repeated(segments, shortest=2, longest=6):
        candidates.names.setdefault(gram, "")


def _repeated(segments: list[str], *, shortest: int, longest: int) -> list[str]:
    """The strings that occur twice or more in segments, none part of another with the same count."""
    counts: Counter[str] = Counter()
    for size in range(shortest, longest + 1):
        for segment in segments:
            counts.update(segment[at : at + size] for at in range(len(segment) - size + 1))
    often = {gram: count for gram, count in counts.items() if count > 1}
    covered = {
        part for gram, count in often.items() for part in (gram[1:], gram[:-1]) if often.get(part) == count
    }
    return [gram for gram in often if gram not in covered]


def _repeated_words(found_words: list[str], candidates: Uncased, *, shortest: int) -> None:
    content = [word if len(word) >= shortest and word not in _STOPS else "" for word in found_words]
    pairs = [f"{first} {second}" for first, second in pairwise(content) if first and second]
    for word, count in Counter(content).items():
        if word and count > 1:
            candidates.names.setdefault(word, "")
    for pair, count in Counter(pairs).items():
        if count > 1:
            candidates.names.setdefault(pair, "")
        else:
            candidates.terms[pair] = None
