"""Cut an attempt into windows: what a judge may see of each segment, and nothing of how the attempt ended.

A window holds the task, the segment and the (action, observation) pairs around it (TRIAGE, arXiv:2606.32017: at most 5
before and 5 after). Promised: rewards, score, success, ``terminated``, ``truncated`` and infos have no influence on it,
except that actions the environment refused are left out of ``earlier_actions``, and that facts which somebody measured on
purpose (``info["state_facts"]``, :mod:`triage_gym.facts`) stand in a field of their own; and every literal that tells the
outcome, declared by the environment or in :data:`OUTCOME_LITERALS`, is cut out of the task and of every observation
without a trace (a mark in its place would tell the outcome just as well). Actions stay as the agent wrote them. Left to
you: to declare in ``metadata["outcome_text"]`` what else your environment says at the end, as an :class:`Instead` where
a gap would show.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

from triage_gym.errors import InputError
from triage_gym.protocols import OUT_OF_REACH, Facts, Pair, Window
from triage_gym.records import EpisodeRecord, Segment

OUTCOME_LITERALS: Final = (
    "*** The End ***",
    "*** You have won ***",
    "*** You lost! ***",
    "*** You have died ***",
    "You won!",
    "You lost!",
)
"""Terminal wording of TextWorld, Z-machine games and ALFWorld, cut out whether declared or not."""
OUTCOME_OPENINGS: Final = (
    "You scored ",
    "Your score has just ",
    "Your score (min 0.0, max 1.0)",
)
"""Openings of a sentence that goes on with the score; the text is cut off here, the score with it."""
STATUS_LINE: Final = re.compile(r"\n>[ ]*-= [^\n]* =--?[0-9]+/[0-9]+\s*\Z")
"""The last line of TextWorld's answers, points and turns so far after the room's name; cut out whole."""
FACTS: Final = "state_facts"
"""The key of an info under which measured facts travel."""
_TEXTS: Final = ("task", "domain", "observation", "action", "next_observation")
_NEEDED: Final = {*_TEXTS, "step", "past", "future"}
NO_EFFECT: Final = "Nothing happens."
"""The reply by which parser games refuse an action; such an action changed nothing."""


class Instead(str):
    """A literal that tells the outcome and is shown as another text, where a gap would tell it just as well.

    Minesweeper's row with a mine in it would be one cell short: ``Instead("*", "?")`` shows the mine as a closed cell.

    Args:
        literal: What the environment says.
        shown: What a judge reads.

    Raises:
        InputError: If ``shown`` holds the literal.
    """

    __slots__ = ("shown",)
    shown: str

    def __new__(cls, literal: str, shown: str) -> Self:
        """The literal, with what is shown."""
        if literal in shown:
            raise InputError(f"Expected a text to show instead of {literal!r} that does not hold it, got {shown!r}")
        made = super().__new__(cls, literal)
        made.shown = shown
        return made

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override]  # goes to our own __new__
        """What copies and pickles make it of."""
        return str(self), self.shown


def build_windows(
    record: EpisodeRecord,
    past: int = 5,
    future: int = 5,
    outcome_text: Sequence[str] = (),
    *,
    steps: range | None = None,
) -> list[Window]:
    """One window a segment, in order.

    Every window holds all valid actions before it, so memory grows with the square of the turns (4 MB for 1,000).

    Args:
        record: The attempt. Only its texts are used (see the module's promise).
        past: Pairs shown before the segment.
        future: Pairs shown after it.
        outcome_text: Literals that tell the outcome (``metadata["outcome_text"]`` of the environment).
        steps: Positions to build windows for; None for all. The windows are the same as in a call for all.

    Raises:
        InputError: For a negative ``past`` or ``future``, steps outside the attempt, or an empty literal.
    """
    n = len(record.segments)
    chosen = range(n) if steps is None else steps
    if past < 0 or future < 0:
        raise InputError(f"Expected `past` and `future` to be at least 0, got {past} and {future}")
    if chosen and (chosen.step != 1 or chosen[0] < 0 or chosen[-1] >= n):
        raise InputError(f"Expected `steps` to be a range with step 1 within the {n} segments, got {steps}")
    literals = _check_literals(outcome_text)
    if not chosen:
        return []
    first, last = max(0, chosen[0] - past), min(n, chosen[-1] + future + 1)
    segments = record.segments[first:last]
    pairs = tuple([Pair(s.action, redact(s.next_observation, literals)) for s in segments])
    before = _observations_before(segments, pairs, literals)
    valid, valid_until = _valid_actions(record.segments[: chosen[-1] + 1])
    task = redact(record.task or record.start_observation or record.segments[0].observation, literals)
    windows = []
    for k in chosen:
        at = k - first
        pair = pairs[at]
        windows.append(
            Window(
                task,
                record.domain,
                record.segments[k].index,
                pairs[max(0, at - past) : at],
                before[at],
                pair.action,
                pair.observation,
                pairs[at + 1 : at + 1 + future],
                valid[: valid_until[k]],
                _facts(record.segments[k].info),
            )
        )
    return windows


def _facts(info: Mapping[str, Any]) -> Facts | None:
    """The measured facts of a turn, when there are any."""
    found = info.get(FACTS)
    return read_facts(found) if found is not None else None


def read_facts(data: Any) -> Facts:
    """Facts out of a JSON object with the fields of :class:`~triage_gym.protocols.Facts`; those left out are None.

    Raises:
        InputError: For anything else.
    """
    if not isinstance(data, Mapping) or not data.keys() <= set(Facts._fields):
        raise InputError(f"Expected facts out of {Facts._fields}, got {data!r:.200}")
    for name in ("changed", "learnt"):
        if data.get(name) is not None and type(data[name]) is not bool:
            raise InputError(f"Expected the fact {name} to be true, false or null, got {data[name]!r:.80}")
    for name in ("before", "after"):
        turns = data.get(name)
        if turns is not None and (type(turns) is not int or turns < OUT_OF_REACH):
            raise InputError(
                f"Expected the fact {name} to be turns of at least {OUT_OF_REACH} or null, got {turns!r:.80}"
            )
    return Facts(**data)


def window_to_json(window: Window) -> dict[str, Any]:
    """A JSON object that :func:`window_from_json` reads back."""
    data = window._asdict()
    for name in ("past", "future"):
        data[name] = [list(pair) for pair in data[name]]
    data["earlier_actions"] = list(window.earlier_actions)
    data["facts"] = None if window.facts is None else window.facts._asdict()
    return data


def window_from_json(data: Any) -> Window:
    """The window written by :func:`window_to_json`.

    Raises:
        InputError: For anything else.
    """
    if not isinstance(data, Mapping) or not _NEEDED <= data.keys() <= set(Window._fields):
        raise InputError(f"Expected a window with the fields {Window._fields}, got {data!r:.200}")
    for name in _TEXTS:
        if type(data[name]) is not str:
            raise InputError(f"Expected {name} of a window to be text, got {data[name]!r:.80}")
    if type(data["step"]) is not int or data["step"] < 0:
        raise InputError(f"Expected step of a window to be an index, got {data['step']!r:.80}")
    earlier = data.get("earlier_actions", [])
    if type(earlier) is not list or not all(type(action) is str for action in earlier):
        raise InputError(f"Expected earlier_actions of a window to be a list of texts, got {earlier!r:.80}")
    facts = data.get("facts")
    pairs = {name: _pairs(name, data[name]) for name in ("past", "future")}
    return Window(
        **{**data, **pairs, "earlier_actions": tuple(earlier), "facts": None if facts is None else read_facts(facts)}
    )


def _pairs(name: str, data: Any) -> tuple[Pair, ...]:
    if type(data) is not list or not all(
        type(pair) is list and len(pair) == 2 and all(type(text) is str for text in pair) for pair in data
    ):
        raise InputError(f"Expected {name} of a window to be a list of [action, observation], got {data!r:.80}")
    return tuple([Pair(*pair) for pair in data])


def redact(text: str, outcome_text: Sequence[str] = ()) -> str:
    """``text`` without what tells the outcome: the declared literals and the wording known from common games.

    That includes the points that TextWorld counts in its answers.

    White space before a literal goes with it, so that "Done. You won!" becomes what "Done." is.
    """
    while True:
        shown = text
        for literal in outcome_text:
            if literal in text:
                text = text.replace(literal, literal.shown) if type(literal) is Instead else _cut_out(text, literal)
        # Almost no text holds any of these four; looking for all nine openings in each would cost more than the judge.
        if "*** " in text or "cor" in text or " won" in text or " lost" in text:
            for literal in OUTCOME_LITERALS:
                if literal in text:
                    text = _cut_out(text, literal)
            for opening in OUTCOME_OPENINGS:
                kept, found, _ = text.partition(opening)
                text = kept.rstrip() if found else text
        if "=-" in text and (line := STATUS_LINE.search(text)):
            text = text[: line.start()].rstrip()
        # What stood around a literal may spell another one.
        if text == shown:
            return text


def _cut_out(text: str, literal: str) -> str:
    *before, last = text.split(literal)
    kept = "".join([part.rstrip() for part in before])
    return kept + last if kept else last.lstrip()


def _check_literals(outcome_text: Sequence[str]) -> tuple[str, ...]:
    """The literals, longest first, so that one which holds another is cut out whole."""
    if isinstance(outcome_text, str):
        raise InputError(f"Expected `outcome_text` to be a sequence of strings, got the string {outcome_text!r}")
    for literal in outcome_text:
        if not isinstance(literal, str) or not literal:
            raise InputError(f"Expected `outcome_text` to hold non-empty strings, got {literal!r}")
    return tuple(sorted(outcome_text, key=lambda s: (-len(s), s)))


def _observations_before(segments: Sequence[Segment], pairs: Sequence[Pair], literals: Sequence[str]) -> list[str]:
    """What the agent saw before each action, redacted once where it is the answer to the action before."""
    before = []
    for k, segment in enumerate(segments):
        if k and segment.observation == segments[k - 1].next_observation:
            before.append(pairs[k - 1].observation)
        else:
            before.append(redact(segment.observation, literals))
    return before


def _valid_actions(segments: Sequence[Segment]) -> tuple[tuple[str, ...], list[int]]:
    """The actions that were not refused, and how many of them came before each segment."""
    valid: list[str] = []
    until = []
    for segment in segments:
        until.append(len(valid))
        if segment.info.get("invalid_action") is not True and segment.next_observation != NO_EFFECT:
            valid.append(segment.action)
    return tuple(valid), until


def domain_of(metadata: Mapping[str, Any]) -> str:
    """The family that an environment declares, ``"generic"`` when it declares none."""
    return str(metadata.get("domain", "generic"))


def outcome_text_of(metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """The literals that an environment declares as telling the outcome."""
    declared = metadata.get("outcome_text", ())
    return (declared,) if isinstance(declared, str) else tuple(declared)
