"""Text that an agent or an environment wrote, made harmless for a prompt and for whoever reads it.

What it promises: after :func:`neutralise` a text holds no tag of any kind (every angle bracket is ``‹`` or ``›``, so that
no chat template, reasoning block or delimiter can be spelt in it), no bracketed chat token, no role at the start of a line,
no code fence and no character that cannot be seen; what was replaced can still be read. All of it takes linear time.

What it leaves to you: what the words say. A text that asks for a label in plain words stays as it is; it has to stand as a
JSON string inside of a marked block, between instructions (:mod:`triage_gym.judges.prompting`).
"""

from __future__ import annotations

import re
from typing import Final

UNSEEN: Final = (
    (0x0000, 0x0008),
    (0x000B, 0x001F),  # C0 controls; tab and newline stay, since JSON escapes them
    (0x007F, 0x009F),  # DEL and the C1 controls
    (0x00AD, 0x00AD),  # soft hyphen
    (0x034F, 0x034F),  # combining grapheme joiner
    (0x061C, 0x061C),  # Arabic letter mark
    (0x115F, 0x1160),  # Hangul fillers
    (0x17B4, 0x17B5),  # Khmer inherent vowels
    (0x180B, 0x180F),  # Mongolian variation selectors
    (0x200B, 0x200F),  # zero width, direction marks
    (0x2028, 0x202E),  # line and paragraph separators, bidi embeddings and overrides
    (0x2060, 0x206F),  # word joiner, invisible operators, bidi isolates, deprecated formats
    (0x3164, 0x3164),  # Hangul filler
    (0xD800, 0xDFFF),  # lone surrogates: no encoding holds them
    (0xE000, 0xF8FF),  # private use
    (0xFDD0, 0xFDEF),  # no characters
    (0xFE00, 0xFE0F),  # variation selectors
    (0xFEFF, 0xFEFF),  # byte order mark
    (0xFFA0, 0xFFA0),  # halfwidth Hangul filler
    (0xFFF0, 0xFFFB),  # interlinear annotation, and what stands for nothing
    (0xFFFE, 0xFFFF),  # no characters
    (0x13430, 0x1345F),  # format controls of hieroglyphs
    (0x1BCA0, 0x1BCA3),  # shorthand format controls
    (0x1D173, 0x1D17A),  # musical format controls
    (0xE0000, 0xE0FFF),  # tag characters, variation selectors
    (0xF0000, 0x10FFFF),  # private use
)
"""First and last of each range of characters that are replaced by a visible escape such as ``\\u200b``."""
_UNSEEN: Final = re.compile("[" + "".join(f"{re.escape(chr(a))}-{re.escape(chr(b))}" for a, b in UNSEEN) + "]")
_UNSEEN_ASCII: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f]")
_ANGLES: Final = {"<": "‹", "＜": "‹", "﹤": "‹", ">": "›", "＞": "›", "﹥": "›"}
_TOKENS: Final = re.compile(
    r"[\[［](\s{0,4}/?\s{0,4}(?:INST|SYS|SYSTEM|SYSTEM_PROMPT|THINK|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT|AVAILABLE_TOOLS|ARGS|CALL_ID"
    r"|IMG|PREFIX|MIDDLE|SUFFIX|BOS|EOS|PAD|UNK|(?:BEGIN|END)[\s_]DATA)\s{0,4})[\]］]",
    re.IGNORECASE,
)
"""Chat tokens in square brackets, as Mistral's and Llama's templates have them."""
_ROLE: Final = re.compile(
    r"([\s›#*_\d.()-]*(?:system|assistant|user|human|ai|model|developer|tool|function|ipython|instructions?|response)"
    r"[\s*_]*)[:：﹕︓]",
    re.IGNORECASE,
)
"""A line that begins like the turn of a chat."""
_FENCE: Final = re.compile("[`｀]{3,}|[~～]{3,}")
_NAMES: Final = "think|thinks|thinking|thought|thoughts|reason|reasoning|analysis|reflection|scratchpad|cot"
_THOUGHT: Final = re.compile(
    rf"<\s{{0,4}}(?P<end>/?)\s{{0,4}}(?:\w{{1,20}}:)?(?:{_NAMES})\b[^<>]{{0,80}}>|\[(?P<end2>/?)THINK\]|◁(?P<end3>/?)think▷",
    re.IGNORECASE,
)
_REACT: Final = re.compile(r"[\s*#_]*(?:thoughts?|reasoning)\s*\d{0,4}\s*[*_]{0,3}\s*:", re.IGNORECASE)
_ACTION: Final = re.compile(r"\baction\s{0,4}\d{0,4}\s{0,4}[*_]{0,3}\s{0,4}:[\s*_]*", re.IGNORECASE)
UNCLOSED: Final = "(a thought that was never closed is left out)"


def neutralise(text: str) -> str:
    """``text`` with every character and mark that could be taken for more than data replaced by one that can be seen."""
    text = text.replace("\r\n", "\n")
    unseen = _UNSEEN_ASCII if text.isascii() else _UNSEEN
    if unseen.search(text):
        text = unseen.sub(_escaped, text)
    for angle, shown in _ANGLES.items():
        if angle in text:
            text = text.replace(angle, shown)
    if "[" in text or "［" in text:
        text = _TOKENS.sub(r"⟦\1⟧", text)
    if any(colon in text for colon in ":：﹕︓"):
        # Line by line: a pattern that looks for the starts of lines itself reads every character.
        lines = text.split("\n")
        text = "\n".join([_ROLE.sub(r"\1꞉", line, count=1) if _ROLE.match(line) else line for line in lines])
    return _FENCE.sub("'''", text) if any(mark * 3 in text for mark in "`~") or not text.isascii() else text


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def without_thoughts(action: str) -> str:
    """What an agent did, without what it thought: reasoning blocks (``<think>…</think>`` and its like) are cut out.

    Blocks may be nested. Where one is closed that was not opened, all before it was thought (templates open it); where one
    is not closed, all after it is left out, and a remark says so. ``Thought: … Action: …``, numbered or not, is cut to the
    action. Thoughts
    without any mark cannot be told from an action, and stay.
    """
    kept: list[str] = []
    depth = at = 0
    for found in _THOUGHT.finditer(action):
        if depth == 0:
            kept.append(action[at : found.start()])
        if not (found["end"] or found["end2"] or found["end3"]):
            depth += 1
        elif depth:
            depth -= 1
        else:
            kept = []
        at = found.end()
    kept.append(UNCLOSED if depth else action[at:])
    text = "".join(kept)
    if _REACT.match(text) and (acted := _ACTION.search(text)):
        text = text[acted.end() :]
    return text.strip() if text != action else action


def cut(text: str, longest: int) -> str:
    """``text`` in at most ``longest`` characters, the middle left out: what matters often stands at an end."""
    if len(text) <= longest:
        return text
    tail = longest // 3
    return f"{text[: longest - tail - 1]}…{text[len(text) - tail :]}"
