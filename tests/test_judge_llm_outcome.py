"""No prompt tells how an attempt ended: neither its words nor its fields, in any of the six environments."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from judge_windows import ENVS, literals_of, played, turned

from triage_gym.judges.prompting import Prompter, batches
from triage_gym.records import EpisodeRecord
from triage_gym.windows import OUTCOME_LITERALS, OUTCOME_OPENINGS, build_windows

PLAYERS = ("expert", "lost", "random")
KEYS = {"task", "start", "turns", "i", "seen", "action", "observation"}


def prompts_of(record: EpisodeRecord, name: str, most: int) -> list[str]:
    prompts = Prompter(most=most, nonce_seed=0)
    windows = build_windows(record, outcome_text=literals_of(name))
    written = [prompts.write([windows[k] for k in asked]) for asked in batches(windows, most)]
    return ["\n".join(message["content"] for message in prompt.messages) for prompt in written]


def blocks_of(record: EpisodeRecord, name: str, most: int) -> list[str]:
    return [prompt.partition("\n<data-")[2].partition("</data-")[0] for prompt in prompts_of(record, name, most)]


@pytest.mark.parametrize("name", ENVS)
def test_won_and_lost_attempts_are_among_those_tested(name: str) -> None:
    ends = {played(name, player).success for player in PLAYERS}
    assert ends == {True, False}


@pytest.mark.parametrize("most", [1, 4])
@pytest.mark.parametrize("player", PLAYERS)
@pytest.mark.parametrize("name", ENVS)
def test_no_words_of_an_outcome_reach_a_prompt(name: str, player: str, most: int) -> None:
    record = played(name, player)
    told = (*literals_of(name), *OUTCOME_LITERALS, *OUTCOME_OPENINGS)
    for block in blocks_of(record, name, most):
        found = [literal for literal in told if literal in block]
        assert not found
        data = json.loads(block.partition("\n")[2])
        assert {key for turn in data["turns"] for key in turn} | set(data) <= KEYS


@pytest.mark.parametrize("most", [1, 4])
@pytest.mark.parametrize("name", ENVS)
def test_equal_texts_give_equal_prompts_however_it_ended(name: str, most: int) -> None:
    record = played(name, "expert")
    won, lost = (prompts_of(turned(record, end), name, most) for end in (True, False))
    assert won == lost == prompts_of(record, name, most)


@pytest.mark.parametrize("name", ENVS)
def test_what_is_declared_as_outcome_text_makes_no_difference_wherever_it_stands(name: str) -> None:
    record = played(name, "expert")
    last = record.segments[-1]
    told = [literal for literal in OUTCOME_LITERALS if not any(own in literal for own in literals_of(name))]
    for literal in (*literals_of(name), *told):
        plain, ended = (
            replace(record, segments=(*record.segments[:-1], replace(last, next_observation=text)))
            for text in (f"It is done. {getattr(literal, 'shown', '')}".rstrip(), f"It is done. {literal}")
        )
        assert prompts_of(ended, name, 1) == prompts_of(plain, name, 1)
