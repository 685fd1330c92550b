"""Raw output of models as text: without thoughts, marks of turns and the name of the speaker.

`Cleaner` reads a stream piece by piece, and `clean` gives it whole answers. The marks are those of chat
templates; servers mostly remove them, but not all do, and not for all models.
"""

from __future__ import annotations

import re
from enum import Enum, auto


class _Kind(Enum):
    OPEN = auto()  # a thought begins
    CLOSE = auto()  # it ends; where none had begun, all before it was thought
    ROLE = auto()  # who speaks, or in which channel, follows
    SPEECH = auto()  # what is said follows
    END = auto()  # the turn ends: what follows, another speaker says
    WRAP = auto()  # stands around an answer, at its beginning and end
    DROP = auto()
    QUOTED = auto()  # another mark as code


# What opens a thought, what closes it, and models whose templates have these marks.
_THOUGHTS = (
    ("<think>", "</think>", "DeepSeek-R1, Qwen3, GLM-4.5, Phi-4-reasoning, Nemotron, MiniMax-M2, Hunyuan"),
    ("<thinking>", "</thinking>", "Claude, asked to think aloud; Reflection"),
    ("<thought>", "</thought>", "EXAONE Deep, Gemini, Marco-o1"),
    ("<reasoning>", "</reasoning>", "models trained with GRPO's recipes"),
    ("<reflection>", "</reflection>", "Reflection"),
    ("<scratchpad>", "</scratchpad>", "Claude, asked to think aloud"),
    ("[THINK]", "[/THINK]", "Magistral"),
    ("<mm:think>", "</mm:think>", "MiniMax"),
    ("<seed:think>", "</seed:think>", "Seed-OSS"),
    ("<longcat_think>", "</longcat_think>", "LongCat-Flash-Thinking"),
    ("<|START_THINKING|>", "<|END_THINKING|>", "Command A Reasoning"),
    ("<|begin_of_thought|>", "<|end_of_thought|>", "Sky-T1, OpenThinker"),
    ("<|inner_prefix|>", "<|inner_suffix|>", "Apertus"),
    ("◁think▷", "◁/think▷", "Kimi-VL-Thinking"),
    ("<unused94>", "<unused95>", "MedGemma"),
    ("<|think|>", "", "Solar Open, whose thoughts end with their message"),
    ("", "<channel|>", "Gemma 4, whose thoughts begin with a channel"),
    ("", "[BEGIN FINAL RESPONSE]", "Apriel, whose template begins the thoughts"),
    ("analysis", "assistantfinal", "gpt-oss, where a server drops its special tokens"),
)
_OTHERS = (
    (_Kind.ROLE, "<|start|> <|channel|> <|constrain|>", "gpt-oss"),
    (_Kind.ROLE, "<|channel> <|turn>", "Gemma 4"),
    (_Kind.SPEECH, "<|message|>", "gpt-oss"),
    (_Kind.END, "<|end|> <|return|> <|call|>", "gpt-oss, Phi"),
    (_Kind.ROLE, "<|im_start|>", "Qwen, Hermes, Yi"),
    (_Kind.END, "<|im_end|> <|endoftext|>", "Qwen, Hermes, Yi, Kimi"),
    (_Kind.ROLE, "<|im_assistant|> <|im_user|> <|im_system|>", "Kimi"),
    (_Kind.SPEECH, "<|im_middle|>", "Kimi"),
    (_Kind.ROLE, "<|start_header_id|> <|header_start|>", "Llama"),
    (_Kind.SPEECH, "<|end_header_id|> <|header_end|>", "Llama"),
    (_Kind.END, "<|eot_id|> <|eom_id|> <|eot|> <|eom|> <|end_of_text|>", "Llama, Granite"),
    (_Kind.DROP, "<|begin_of_text|> <|python_tag|>", "Llama"),
    (_Kind.ROLE, "<start_of_turn>", "Gemma"),
    (_Kind.END, "<end_of_turn> <turn|> <eos>", "Gemma"),
    (_Kind.END, "</s> [INST]", "Mistral, Llama 2, Vicuna"),
    (_Kind.DROP, "[/INST] <bos>", "Mistral, Llama 2, Gemma"),
    (_Kind.ROLE, "<|begin|>", "Solar Open"),
    (_Kind.SPEECH, "<|content|>", "Solar Open"),
    (_Kind.DROP, "<|assistant|>", "GLM, Phi-3, Zephyr"),
    (_Kind.END, "<|user|> <|system|> <|observation|>", "GLM, Phi-3, Zephyr"),
    (_Kind.DROP, "<|begin_of_box|> <|end_of_box|>", "GLM-4.5V"),
    (_Kind.DROP, "<|START_RESPONSE|> <|START_TEXT|> <|CHATBOT_TOKEN|> <|START_OF_TURN_TOKEN|>", "Command A"),
    (_Kind.END, "<|END_RESPONSE|> <|END_TEXT|> <|END_OF_TURN_TOKEN|> <|USER_TOKEN|>", "Command A"),
    (_Kind.DROP, "<|begin_of_solution|> <|end_of_solution|>", "Sky-T1, OpenThinker"),
    (_Kind.END, "<\uff5cend\u2581of\u2581sentence\uff5c> <\uff5cUser\uff5c>", "DeepSeek"),
    (_Kind.DROP, "<\uff5cbegin\u2581of\u2581sentence\uff5c> <\uff5cAssistant\uff5c>", "DeepSeek"),
    (_Kind.END, "[|endofturn|] <|endofturn|> <|stop|>", "EXAONE, HyperCLOVA"),
    (_Kind.DROP, "[|assistant|]", "EXAONE"),
    (_Kind.END, "<|role_end|> [e~[ <eoa> [EOS]", "Ling, MiniMax, InternLM, Kimi"),
    (_Kind.WRAP, "<answer> </answer>", "Hunyuan, DeepSeek-R1-Zero"),
    (_Kind.WRAP, "<response> </response>", "ERNIE-4.5-Thinking"),
    (_Kind.WRAP, "<output> </output>", "Reflection, Marco-o1"),
)
_TEMPLATE_THINKS = re.compile(
    r"deepseek-(?:r1|v3\.[12])|qwq|qwen3?\S*thinking|qwen3\.5|exaone-deep|glm-z1|minimax-m2|apriel\S*think"
    r"|olmo-?3\S*think|ernie\S*thinking|nemotron-(?:nano|3)|r1-distill",
    re.IGNORECASE,
)
"""Models whose template begins the thought, so that they send its closing mark alone."""

_KINDS = {
    **{opens: _Kind.OPEN for opens, _, _ in _THOUGHTS if opens},
    **{closes: _Kind.CLOSE for _, closes, _ in _THOUGHTS if closes},
    **{mark: kind for kind, marks, _ in _OTHERS for mark in marks.split()},
}
_KINDS = {mark.lower(): kind for mark, kind in _KINDS.items()}
_KINDS |= {f"`{mark}`": _Kind.QUOTED for mark in _KINDS}
_SPECIAL = sorted(_KINDS.keys() - {"analysis"}, key=len, reverse=True)
_FIRST = re.escape("".join(sorted({mark[0] for mark in _KINDS})))
# The look-ahead spares most characters the alternatives: a thought is read in a sixth of the time.
_TOKEN = re.compile(
    rf'(?=[{_FIRST}~\n"\\])(?:{"|".join(map(re.escape, _SPECIAL))}|(?-i:analysis(?=[A-Z]))'
    r'|`+|~{3,}|\n|"|\\[\\"`])',
    re.IGNORECASE,
)
_WORDS = ("analysis", "assistantfinal")
"""The marks that are words. Without them the search for a mark takes an eightieth of the time."""
_MARK = re.compile("|".join(re.escape(mark) for mark in _SPECIAL if mark not in _WORDS), re.IGNORECASE)
_LONGEST = max(map(len, _KINDS))
_BEGINNINGS = {"\\", *(mark[:length] for mark in _KINDS for length in range(1, len(mark)))}
_SPEAKER = re.compile(r"\A(?:assistant[:\n]\s*)+", re.IGNORECASE)
_JSON = re.compile(r'\s*(?:\{|\[\s*["{\[])')


def template_thinks(model: str) -> bool:
    """Whether a model of this name is known to send the closing mark of its thoughts alone."""
    return _TEMPLATE_THINKS.search(model) is not None


def clean(raw: str) -> str:
    """The text in the whole output of a model."""
    return Cleaner.of(raw).text


class Cleaner:
    """Raw output as text, piece by piece, in linear time.

    A mark within code, or within a string of JSON, is text. What may be the beginning of a mark is held back
    until that is known, and so is white space, which is dropped at both ends of the text. With `thinking`
    the template has begun a thought: nothing is text before a closing mark; if none comes, all is.
    `unannounced` tells that a thought ended which no mark had begun, so that `feed` may have returned some
    of it.
    """

    def __init__(self, *, thinking: bool = False) -> None:
        self.unannounced = False
        self._assumed = thinking
        self._final = False  # a channel of this name has begun
        self._wrapped = ""  # the mark that ends what is wrapped
        self._held = ""  # the end of what was read, if it may be the beginning of a mark
        # What follows a closing mark that is not the last one, or stands in code: if the thought or the code
        # has no other end, this was the end of the thought.
        self._since: list[str] | None = None
        self._begin()
        if thinking:
            self._depth, self._since = 1, []

    def _begin(self) -> None:
        """Begin the text: whatever was before is none."""
        self._kept: list[str] = []
        self._fresh: list[str] = []  # of these, what was not returned
        self._blank = self._silent = True  # white space alone is kept; nothing was returned
        self._spoken = False  # more than white space is fresh
        self._over = False  # the turn
        self._depth = 0  # of open thoughts
        self._role: str | None = None  # while it is read
        self._code = ""  # the mark that opened it
        self._json: bool | None = None  # whether the text is JSON, where quotation marks tell
        self._string = False  # of JSON
        self._since = None

    @classmethod
    def of(cls, raw: str) -> Cleaner:
        """A cleaner that has read a whole output; one without marks is text, which is soon told."""
        cleaner = cls()
        if _MARK.search(raw) or any(word in raw.lower() for word in _WORDS):
            cleaner.feed(raw)
            cleaner.close()
        else:
            cleaner._kept = [raw]
        return cleaner

    @property
    def text(self) -> str:
        """The whole text, once the output was closed."""
        return _SPEAKER.sub("", "".join(self._kept).lstrip()).strip()

    def feed(self, piece: str) -> str:
        """Read a piece; returns the text that is known now."""
        return self._read(piece, last=False)

    def close(self, *, cut: bool = False) -> str:
        """End the output, which a limit may have `cut`; returns the rest of the text."""
        if cut and self._assumed:
            self._since = None
        return self._read("", last=True)

    def _read(self, piece: str, *, last: bool) -> str:
        buffer, at = self._held + piece, 0
        certain = len(buffer) if last else self._certain(buffer)
        for token in _TOKEN.finditer(buffer, 0, certain):
            self._add(buffer[at : token.start()])
            at = token.end()
            self._take(token[0], buffer[at : at + 1])
        self._add(buffer[at:certain])
        self._held = buffer[certain:]
        if last:
            self._end_thought()
        if not last and not self._spoken:
            return ""
        text, self._fresh = "".join(self._fresh), []
        if self._silent:
            text = text.lstrip()
            if not last and "assistant".startswith(text.lower()):
                self._fresh = [text]
                return ""
            text = _SPEAKER.sub("", text)
        known = text.rstrip()
        self._silent, self._spoken = self._silent and not known, False
        self._fresh = [text[len(known) :]]
        return known

    def _certain(self, buffer: str) -> int:
        """The length of a buffer without what may be the beginning of a mark."""
        first = buffer.lstrip()[:9] if self._blank else ""
        if first and "analysis".startswith(first):
            return 0
        letters = self._depth or first.startswith("analysis")  # else no letter begins a mark, or is held back
        run = len(buffer.rstrip("`~"))
        for at in range(max(0, run - _LONGEST), run):
            if (letters or not buffer[at].isalnum()) and buffer[at:run].lower() in _BEGINNINGS:
                return at
        return run if len(buffer) - run < _LONGEST else len(buffer)

    def _add(self, text: str) -> None:
        if self._role is not None:
            self._role = (self._role + text)[:_LONGEST]
            return
        if self._since is not None and not self._over:
            self._since.append(text)
        if text and not self._depth and not self._over:
            self._kept.append(text)
            self._fresh.append(text)
            if not text.isspace():
                self._blank, self._spoken = False, True

    def _take(self, token: str, following: str) -> None:
        kind = _KINDS.get(token.lower())
        hidden = self._depth or self._over or self._role is not None
        if token == "\n" and self._role is not None:
            self._hear()
        elif kind is None or kind is _Kind.QUOTED:
            self._add(token)
            if kind is None and not hidden:
                self._quote(token, following)
        elif not hidden and (self._code or self._string):
            self._add(token)
            if kind is _Kind.CLOSE:
                self._since = []
        else:
            self._follow(kind, token)

    def _quote(self, token: str, following: str) -> None:
        """Follow where code, and a string of JSON, begins and ends."""
        if token == '"':
            if self._json is None:
                self._json = _JSON.match("".join(self._kept)) is not None
            if self._json and not self._code:
                self._string = not self._string
                self._since = None
        elif token == "\n":
            if 0 < len(self._code) < 3:  # code within a line has no end there
                self._code = ""
                self._end_thought()
        elif token[0] in "`~" and not self._string:
            fence = len(token) > 2 and following.isalnum()  # as in ```json, which ends no code
            if not self._code or fence:
                self._end_thought()
                self._code = token
            elif token == self._code or (len(self._code) > 2 and token.startswith(self._code)):
                self._code, self._since = "", None

    def _follow(self, kind: _Kind, token: str) -> None:
        """Do what a mark says."""
        if kind is _Kind.ROLE:
            self._role = f"{self._role or ''} "
        elif self._role is not None:
            self._hear()
            if kind is not _Kind.SPEECH:
                self._follow(kind, token)
        elif token == "analysis" and (self._depth or not self._blank):
            self._add(token)  # a word
        elif kind is _Kind.OPEN and not self._over:
            self._depth += not self._assumed
            self._assumed, self._since = False, None
        elif kind is _Kind.CLOSE and self._depth:
            self._depth -= 1
            self._assumed, self._since = False, [] if self._depth else None
        elif kind is _Kind.CLOSE:
            self.unannounced = self.unannounced or not self._blank
            self._begin()
        elif kind is _Kind.END and not self._assumed:
            self._end_thought()
            self._depth = 0
            self._over = not self._blank
        elif kind is _Kind.WRAP and self._blank and not self._depth and token[1] != "/":
            self._wrapped = f"</{token[1:]}".lower()
        elif kind is _Kind.WRAP and (self._depth or token.lower() != self._wrapped):
            self._add(token)

    def _hear(self) -> None:
        """Begin the message of a role, or of a channel of the model."""
        role, self._role = (self._role or "").lower(), None
        if "final" in role or "to=functions" in role:
            if not self._final:
                self.unannounced = self.unannounced or not self._blank
                self._begin()
            self._over = self._final
            self._final = True
        elif any(each in role for each in ("analysis", "commentary", "thought")):
            self._depth, self._over, self._since = 1, self._final, None
        elif any(each in role for each in ("user", "system", "developer", "tool")):
            self._over = True

    def _end_thought(self) -> None:
        """Take the last closing mark as the end of the thought."""
        since, self._since = self._since, None
        if since is None:
            return
        if self._depth:
            self._depth = 0
            self._kept += since
            self._fresh += since
            self._spoken = True
        else:
            self.unannounced = True
            self._kept = since
        self._blank = not any(map(str.strip, self._kept))
