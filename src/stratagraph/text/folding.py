"""Texts in a plain form, in which the marks of a prompt are looked for."""

from __future__ import annotations

import unicodedata
from itertools import chain

_LIKE = {
    "<": "\u00ab\u226a\u27ea\u2991\u2a79\u300a\u02c2\u1438\u16b2\u2039\u227a\u22d6\u276c\u276e\u2770"
    "\u27e8\u29fc\u3008\U0001d236",
    ">": "\u02c3\u1433\u203a\u227b\u22d7\u276d\u276f\u2771\u27e9\u29fd\u3009\U0001d237",
    "[": "\u2045\u2308\u230a\u23a1\u23a2\u23a3\u2772\u27e6\u27ec\u298b\u298d\u298f\u2997\u2e22\u2e24"
    "\u2e55\u2e57\u300c\u300e\u3010\u3014\u3016\u3018\u301a",
    "]": "\u2046\u2309\u230b\u23a4\u23a5\u23a6\u2773\u27e7\u27ed\u298c\u298e\u2990\u2998\u2e23\u2e25"
    "\u2e56\u2e58\u300d\u300f\u3011\u3015\u3017\u3019\u301b",
    "a": "\u0251\u03b1\u0430\u1d00", "b": "\u0432\u0299", "c": "\u0441\u1d04", "d": "\u0501\u1d05",
    "e": "\u03b5\u0435\u1d07", "f": "\ua730", "g": "\u0261\u0262\u0581", "h": "\u043d\u04bb\u029c",
    "i": "\u0131\u0269\u026a\u03b9\u0456\u04cf", "j": "\u03f3\u0458\u1d0a", "k": "\u03ba\u043a\u1d0b",
    "l": "\u029f", "m": "\u043c\u1d0d", "n": "\u03b7\u0274\u0578", "o": "\u03bf\u043e\u0585\u1d0f",
    "p": "\u03c1\u0440\u1d18", "q": "\u051b", "r": "\u0280\u0433", "s": "\u0455\ua731",
    "t": "\u03c4\u0442\u1d1b", "u": "\u03c5\u057d\u1d1c", "v": "\u03bd\u0475\u1d20", "w": "\u051d\u1d21",
    "x": "\u03c7\u0445", "y": "\u03b3\u0443\u028f", "z": "\u1d22",
}  # fmt: skip
_PLAIN = {other: plain for plain, others in _LIKE.items() for other in others}
_PLAIN |= {  # negative circled and squared letters, and those of flags
    chr(start + place): chr(ord("a") + place) for start in (0x1F150, 0x1F170, 0x1F1E6) for place in range(26)
}
_INVISIBLE = frozenset(  # default-ignorable code points that no category tells
    map(chr, chain((0x115F, 0x1160, 0x2065), range(0xFFF0, 0xFFF9), range(0xE0000, 0xE1000)))
)


class _Folded(dict[int, str]):
    """The plain form of each code point that was met."""

    def __missing__(self, code: int) -> str:
        self[code] = plain = "".join(map(_plain, unicodedata.normalize("NFKD", chr(code))))
        return plain


def _plain(letter: str) -> str:
    category = unicodedata.category(letter)
    is_control = category == "Cc" and not letter.isspace()
    if category in ("Cf", "Me", "Mn") or is_control or letter in _INVISIBLE:
        return ""
    digit = unicodedata.digit(letter, None)
    if digit is not None:
        return str(digit)
    if category in ("No", "Lo") and (number := unicodedata.numeric(letter, 0.5)).is_integer():
        return str(int(number))
    folded = letter.casefold()
    return _PLAIN.get(folded, folded)


_FOLDED = _Folded()


def folded(text: str) -> str:
    """A text without case and invisible code points, its look-alike letters, digits and brackets plain.

    Full-width, circled and enclosed forms are those of Unicode's compatibility decomposition (NFKD). Letters
    of other scripts that look like Latin ones become these. For finding marks, not for showing a text.
    """
    return text.translate(_FOLDED)
