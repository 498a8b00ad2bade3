"""What is said on both sides: actions out of a model's text, and passages as the text that answers a search.

``search-r1`` is Search-R1's protocol, ``verl-agent`` that of verl-agent's search task: one turn less, passages inside JSON,
nothing said to an action that is none, and a search or answer that is not the only one is played and called invalid.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

Preset = Literal["search-r1", "verl-agent"]
INVALID: Final = (
    "\nMy previous action is invalid. If I want to search, I should put the query between <search> and </search>. "
    "If I want to give the final answer, I should put the answer between <answer> and </answer>. Let me try again.\n"
)
TEMPLATES: Final = ("<search><query></search>", "<answer><text></answer>")
NO_ANSWER: Final = "<answer></answer>"
"""Gives up: an answer that is never right."""
_PAIR: Final = re.compile(r"<(search|answer)>(.*?)</\1>", re.DOTALL)
_SEARCH: Final = re.compile(r"<search>(.*?)</search>", re.DOTALL | re.IGNORECASE)
_ANSWER: Final = re.compile(r"<answer>(.*?)</answer>", re.DOTALL | re.IGNORECASE)
_BEGINS: Final = "<information>"
_RANK: Final = re.compile(r"\nDoc [1-9][0-9]*(?:: |(?=\(Title: ))")
_OPENING: Final = re.compile(r"<(?:search|answer)>", re.IGNORECASE)


class Action(NamedTuple):
    """What a response asks for; kind "" is nothing."""

    kind: Literal["search", "answer", ""]
    content: str
    valid: bool
    """Whether that is well said; verl-agent plays also what is not."""


def cut(response: str) -> str:
    """A response up to its first ``</search>``, else up to its first ``</answer>``."""
    for end in ("</search>", "</answer>"):
        if end in response:
            return response.partition(end)[0] + end
    return response


@dataclass(frozen=True, slots=True)
class Rules:
    """The differences between the presets."""

    preset: Preset
    turns: int
    """Turns of an episode. A search of the last one is not carried out."""

    def action(self, response: str) -> Action:
        """The action in a response: what comes after the first closing tag is not played."""
        if self.preset == "verl-agent":
            return _verl_agent_action(response)
        pair = _PAIR.search(cut(response))
        if pair is None:
            return Action("", "", False)
        return Action("search" if pair[1] == "search" else "answer", pair[2].strip(), True)

    def invalid(self) -> str:
        """What is said to an invalid action."""
        return INVALID if self.preset == "search-r1" else ""

    def unread(self) -> str:
        """What is said to a search that is not carried out."""
        return self.information(()) if self.preset == "search-r1" else ""

    def information(self, passages: Sequence[str]) -> str:
        """What is said to a search.

        Args:
            passages: Contents, best first: a title in the first line, the text in the others.
        """
        if self.preset == "verl-agent":
            docs = "".join(f"Doc {i}: {contents.strip()}\n" for i, contents in enumerate(passages, 1))
            return f"\n<information>{json.dumps({'result': docs})}</information>\n"
        docs = ""
        for i, contents in enumerate(passages, 1):
            title, _, text = contents.partition("\n")
            docs += f"Doc {i}(Title: {title}) {text}\n"
        return f"\n\n<information>{docs.strip()}</information>\n\n"

    def shown(self, text: str) -> list[str]:
        """The passages in what :meth:`information` says, without their ranks; none in any other text."""
        text = text.strip()
        if not text.startswith(_BEGINS):
            return []
        inside = text[len(_BEGINS) :].removesuffix("</information>")
        if self.preset == "verl-agent":
            # A text that was cut ends within its JSON.
            inside = inside.removeprefix('{"result": "').removesuffix('"}').replace("\\n", "\n")
        return [passage for part in _RANK.split("\n" + inside) if (passage := part.strip())]

    def opening(self, question: str) -> str:
        """The first observation."""
        return (
            "Answer the question below. You may reason between <think> and </think> before each action. Look passages up "
            "with <search> your query </search>; they come back between <information> and </information>, and you may "
            f"search up to {self.turns - 1} times. When you know the answer, give it in a few words between <answer> and "
            f"</answer>.\nQuestion: {question}\n"
        )


RULES: Final[dict[Preset, Rules]] = {
    "search-r1": Rules("search-r1", turns=5),
    "verl-agent": Rules("verl-agent", turns=4),
}


def _verl_agent_action(response: str) -> Action:
    """The first search, else the first answer, in letters of any case; valid if nothing else opens anywhere."""
    valid = len(_OPENING.findall(response)) == 1
    if search := _SEARCH.search(cut(response)):
        query = search[1].strip()
        answers = _PAIR.findall(query)  # an answer inside of a search ends the episode too
        return Action("answer", answers[-1][1].strip(), valid) if answers else Action("search", query, valid)
    if answer := _ANSWER.search(cut(response)):
        return Action("answer", answer[1].strip(), valid)
    return Action("", "", False)


def asked(question: str) -> str:
    """A question as it is put: with a question mark at the end."""
    question = question.strip()
    return question if question.endswith("?") else question + "?"
