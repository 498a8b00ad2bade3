"""EnvContract: the promises of a text environment, as tests that anyone can run on theirs.

Derive a test class and say how the environment is made; pytest (or unittest, with ``TestCase`` as a second base) runs
every promise as a test of its own::

    class TestMine(EnvContract):
        def make_env(self):
            return MyEnv()

pytest is not imported. What it leaves to you: whether the task makes sense.
"""

from __future__ import annotations

import json
import unittest
from copy import deepcopy
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils.env_checker import check_env, data_equivalence

from triage_gym.errors import StateError
from triage_gym.protocols import Restorable
from triage_gym.testing.play import Answer, act, begin, episode, facts, shares_containers, walk
from triage_gym.windows import outcome_text_of

TASK_NAMES = ("task_id", "task_type")
"""What an environment may call its tasks in the info of reset; the instruction itself, ``task``, must be there."""


class EnvContract:
    """The promises of a text environment: seeds, spaces, infos, tasks by id, state in and out, restore at every turn."""

    seeds: tuple[int, ...] = (0, 1, 2)
    """Seeds that each promise is tried with."""
    turns: int = 30
    """Most turns of an episode that are played."""
    invalid_action: Any = "xyzzy the plugh"
    """An action that the environment must refuse."""

    def make_env(self) -> gym.Env[Any, Any]:
        """A fresh environment, without a time limit. Override this."""
        raise NotImplementedError("Override make_env() to make the environment that is to be checked")

    def restorable(self) -> tuple[Any, Any]:
        """Two environments whose state goes out and in; skips the test when there are none."""
        env, other = self.make_env(), self.make_env()
        if not isinstance(env, Restorable):
            raise unittest.SkipTest(f"{env} has no get_state and set_state")
        return env, other

    def test_gymnasium_finds_nothing_wrong(self) -> None:
        """``gymnasium.utils.env_checker.check_env`` passes."""
        check_env(self.make_env(), skip_render_check=True)

    def test_metadata_names_the_domain_and_what_tells_the_outcome(self) -> None:
        """``metadata`` has ``render_modes``, a ``domain`` and the literals of ``outcome_text``, a tuple or one text."""
        metadata = self.make_env().metadata
        assert isinstance(metadata.get("domain"), str), 'metadata["domain"] must name the family of the environment'
        assert isinstance(metadata.get("outcome_text"), tuple | str), (
            'metadata["outcome_text"] must be a tuple or a text'
        )
        literals = outcome_text_of(metadata)
        assert all(isinstance(x, str) and x for x in literals), 'metadata["outcome_text"] must hold texts'

    def test_same_seed_same_episode(self) -> None:
        """A seed repeats the whole episode, in another instance and in the same one."""
        env = self.make_env()
        for seed in self.seeds:
            first = episode(env, seed, self.turns)
            assert data_equivalence(facts(first), facts(episode(self.make_env(), seed, self.turns)), exact=True), (
                f"seed {seed} does not repeat in another instance"
            )
            assert data_equivalence(facts(first), facts(episode(env, seed, self.turns)), exact=True), (
                f"seed {seed} does not repeat in the same instance"
            )

    def test_resets_without_a_seed_follow_from_the_seed(self) -> None:
        """The second episode after a seed repeats too."""
        starts = []
        for _ in range(2):
            env = self.make_env()
            env.reset(seed=self.seeds[0])
            starts.append([begin(env).observation for _ in range(3)])
        assert data_equivalence(starts[0], starts[1], exact=True), (
            "resets without a seed do not follow from the last seed"
        )

    def test_observations_and_actions_are_in_their_spaces(self) -> None:
        """Every observation and every admissible command is in its space."""
        env = self.make_env()
        for seed in self.seeds:
            for answer in episode(env, seed, self.turns):
                assert answer.observation in env.observation_space, f"{answer.observation!r} is not in the space"
                for command in answer.info["admissible_commands"]:
                    assert command in env.action_space, f"{command!r} is not in the action space"

    def test_infos_say_what_they_must(self) -> None:
        """Reset: task and admissible commands. Step: ``invalid_action``. End: ``success`` (only there) and ``score``.

        The names of tasks, ``task_id`` and ``task_type``, come with every reset or with none. A ``score`` may come at every step, and should where rewards come on the way: a time limit outside can make any
        step the last.
        """
        env = self.make_env()
        named = [key for key in TASK_NAMES if key in begin(env, seed=self.seeds[0]).info]
        for seed in self.seeds:
            first, *rest = episode(env, seed, self.turns)
            assert [key for key in TASK_NAMES if key in first.info] == named, "some resets name their task, some do not"
            for key in ("task", *named):
                assert isinstance(first.info.get(key), str), f'the info of reset must have the text "{key}"'
            for answer in (first, *rest):
                commands = answer.info.get("admissible_commands")
                assert isinstance(commands, list), 'every info must have the list "admissible_commands"'
            for answer in rest:
                assert type(answer.info.get("invalid_action")) is bool, 'every step\'s info must have "invalid_action"'
                told = "success" in answer.info
                assert "score" in answer.info or not told, '"success" must not come without "score"'
                assert told or not answer.terminated, 'the last info must have "success" and "score"'
                assert answer.ended or not told, '"success" may come only at the end'
                assert type(answer.info.get("success", True)) is bool
                assert type(answer.info.get("score", 0.0)) is float

    def test_infos_keep_their_types(self) -> None:
        """A key has the same type in every info, as vector environments need."""
        types: dict[str, type] = {}
        env = self.make_env()
        for seed in self.seeds:
            for answer in episode(env, seed, self.turns):
                for key, value in answer.info.items():
                    assert types.setdefault(key, type(value)) is type(value), f'info["{key}"] changes its type'
                    assert isinstance(key, str), "info keys must be text"
                    assert not key.startswith("_"), f'info["{key}"] would vanish in a vector environment'

    def test_what_is_handed_out_is_new(self) -> None:
        """No two answers share a container, and writing into an old one changes nothing."""
        env = self.make_env()
        answers = episode(env, self.seeds[0], self.turns)
        for number, answer in enumerate(answers):
            for other in answers[number + 1 :]:
                assert not shares_containers(answer.info, other.info), "two infos share a container"
                assert not shares_containers(answer.observation, other.observation), (
                    "two observations share a container"
                )
        env = self.make_env()
        again = []
        for before in answers:
            answer = begin(env, seed=self.seeds[0]) if before.action is None else act(env, before.action)
            again.append(deepcopy(answer))
            for value in answer.info.values():
                if isinstance(value, list):
                    value.clear()
            answer.info.clear()
        assert data_equivalence(facts(again), facts(answers), exact=True), "writing into an info changed the episode"

    def test_a_task_can_be_chosen_by_its_id(self) -> None:
        """``reset(options={"task_id": …})`` begins that task whatever the generator says; options stay untouched.

        Skipped for an environment whose tasks have no ids.
        """
        env = self.make_env()
        for seed in self.seeds:
            wanted = begin(env, seed=seed)
            if "task_id" not in wanted.info:
                raise unittest.SkipTest(f'{env} gives no "task_id"')
            options = {"task_id": wanted.info["task_id"]}
            other = self.make_env()
            other.reset(seed=seed + 1000)
            found = begin(other, options=options)
            assert options == {"task_id": wanted.info["task_id"]}, "reset must not write into its options"
            for key in ("task", *TASK_NAMES):
                assert found.info.get(key) == wanted.info.get(key), f'the task by id differs in "{key}"'

    def test_an_invalid_action_is_told_apart(self) -> None:
        """A refused action is called invalid, an admissible one is not, and refusing changes no admissible command."""
        env = self.make_env()
        first = begin(env, seed=self.seeds[0])
        refused = act(env, self.invalid_action)
        assert refused.info["invalid_action"] is True, f"{self.invalid_action!r} was not called invalid"
        assert refused.info["admissible_commands"] == first.info["admissible_commands"]
        accepted = act(env, refused.info["admissible_commands"][0])
        assert accepted.info["invalid_action"] is False, "an admissible command was called invalid"

    def test_the_state_goes_through_json_into_another_instance(self) -> None:
        """``get_state`` is JSON, and another instance goes on from it in the same way."""
        env, other = self.restorable()
        for seed in self.seeds:
            other.reset(seed=seed + 1000)
            answer = episode(env, seed, 5)[-1]
            if answer.ended:
                continue
            state = json.loads(json.dumps(env.get_state()))
            other.set_state(state)
            assert json.dumps(other.get_state()) == json.dumps(state), "set_state and get_state do not agree"
            self._same_walk(env, other, answer, seed)

    def test_every_turn_can_be_restored(self) -> None:
        """From the state of any turn the rest of the episode is the same, to the generator."""
        env, _ = self.restorable()
        for seed in self.seeds:
            answer = begin(env, seed=seed)
            states, answers = [env.get_state()], [answer]
            for given in walk(env, answer, np.random.default_rng(seed), self.turns):
                states.append(env.get_state())
                answers.append(deepcopy(given))
            final = env.unwrapped.np_random.bit_generator.state
            for turn in reversed(range(len(answers) - 1)):
                env.set_state(states[turn])
                rest = answers[turn + 1 :]
                again = [act(env, before.action) for before in rest]
                assert data_equivalence(facts(again), facts(rest), exact=True), (
                    f"seed {seed}: restored at turn {turn}, the episode goes on differently"
                )
                assert env.unwrapped.np_random.bit_generator.state == final, (
                    f"restored at turn {turn}: another generator"
                )

    def test_a_foreign_state_is_refused(self) -> None:
        """``set_state`` raises StateError for what is no state of it, and stays playable."""
        env, _ = self.restorable()
        answer = begin(env, seed=self.seeds[0])
        for junk in ({}, {"no": "state"}):
            try:
                env.set_state(junk)
            except StateError:
                continue
            raise AssertionError(f"set_state took {junk!r} without a StateError")
        act(env, answer.info["admissible_commands"][0])

    def test_close_may_be_called_twice(self) -> None:
        """``close`` works before a reset and a second time."""
        env = self.make_env()
        env.close()
        env = self.make_env()
        env.reset(seed=self.seeds[0])
        env.close()
        env.close()

    def _same_walk(self, env: Any, other: Any, answer: Answer, seed: int) -> None:
        one = [*walk(env, answer, np.random.default_rng(seed), self.turns)]
        two = [*walk(other, answer, np.random.default_rng(seed), self.turns)]
        assert data_equivalence(facts(one), facts(two), exact=True), (
            f"seed {seed}: the other instance goes on differently"
        )
