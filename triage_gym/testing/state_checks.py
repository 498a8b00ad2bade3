"""StateChecks: the state goes out and in, whole, as small plain data, and a copy is one."""

from __future__ import annotations

import json
import unittest
from copy import deepcopy
from typing import Any

import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import data_equivalence

from triage_gym.errors import StateError
from triage_gym.testing.contract import FEW, LONGEST_WAY, ContractBase
from triage_gym.testing.play import Answer, act, begin, facts, scribble, shares_containers, walk


class StateChecks(ContractBase):
    """``get_state``, ``set_state`` and copies; skipped for an environment without them."""

    def test_the_state_goes_through_json_into_another_instance(self) -> None:
        """``get_state`` is JSON, and another instance goes on from it in the same way.

        Fix: put everything that step reads into the state, and take all of it back in set_state.
        """
        env, other = self.restorable()
        for seed in self.seeds:
            other.reset(seed=seed + 1000)
            answer = self._partway(env, seed, 5)
            state = json.loads(json.dumps(env.get_state()))
            other.set_state(state)
            assert json.dumps(other.get_state()) == json.dumps(state), "set_state and get_state do not agree"
            self._same_walk(env, other, answer, seed, "the other instance")

    def test_the_state_goes_into_an_instance_that_was_never_reset(self) -> None:
        """``set_state`` needs no reset before it.

        Fix: build in set_state what reset builds, from what the state says.
        """
        env, _ = self.restorable()
        for seed in self.seeds[:FEW]:
            fresh = self._make()
            answer = self._partway(env, seed, 3)
            fresh.set_state(json.loads(json.dumps(env.get_state())))  # type: ignore[attr-defined]
            self._same_walk(env, fresh, answer, seed, "an instance that was never reset")

    def test_every_turn_can_be_restored(self) -> None:
        """From the state of any turn the rest of the episode is the same, to the generator.

        Text, admissible commands, reward, end, turn limit and random numbers: all of it.

        Fix: what the first differing answer shows is missing in get_state or not taken back by set_state: a counter, a
        list, the flag of the end, or self.np_random.bit_generator.state.
        """
        env, _ = self.restorable()
        for seed in self.seeds:
            answer = begin(env, seed=seed)
            states, answers = [env.get_state()], [answer]
            for given in walk(env, answer, np.random.default_rng(seed), self.turns, self.valid_action):
                states.append(env.get_state())
                answers.append(deepcopy(given))
            final = env.unwrapped.np_random.bit_generator.state
            for turn in reversed(range(len(answers) - 1)):
                env.set_state(states[turn])
                rest = answers[turn + 1 :]
                self._replays(env, rest, f"seed {seed}: restored at turn {turn}")
                assert env.unwrapped.np_random.bit_generator.state == final, (
                    f"restored at turn {turn}: another generator"
                )

    def test_a_state_can_be_restored_again_and_again(self) -> None:
        """A second restore of a state leads to the same as the first: set_state takes nothing out of it.

        Fix: copy in set_state what step writes to.
        """
        env, _ = self.restorable()
        for seed in self.seeds[:FEW]:
            answer = begin(env, seed=seed)
            state = env.get_state()
            before = json.dumps(state)
            rest = deepcopy(self._walk(env, answer, seed))
            for number in (1, 2):
                env.set_state(state)
                assert json.dumps(env.get_state()) == before, f"after restore {number} get_state is another"
                self._replays(env, rest, f"seed {seed}: restored for the {number}. time")
                assert json.dumps(state) == before, f"playing on after restore {number} wrote into the state"

    def test_the_generator_is_part_of_the_state(self) -> None:
        """After a restore, the episodes that later resets begin are the same too.

        Fix: put self.np_random.bit_generator.state into the state, and write it back in set_state.
        """
        env, other = self.restorable()
        for seed in self.seeds[:FEW]:
            other.reset(seed=seed + 1000)
            self._episode(env, seed, 3)
            other.set_state(json.loads(json.dumps(env.get_state())))
            generators = [e.unwrapped.np_random.bit_generator.state for e in (env, other)]
            assert generators[0] == generators[1], f"seed {seed}: the restored instance has another generator"
            for _ in range(2):
                assert data_equivalence(facts([begin(env)]), facts([begin(other)]), exact=True), (
                    f"seed {seed}: the resets after a restore begin other episodes"
                )

    def test_the_end_is_part_of_the_state(self) -> None:
        """Restored to its end, an episode is over; restored to before it, it goes on, also after it has ended.

        Fix: put the flag of the end into the state, and take it back in set_state.
        """
        env, other = self.restorable()
        actions = [answer.action for answer in self._to_the_end(env)[1:]]
        over = json.loads(json.dumps(env.get_state()))
        first = begin(other, seed=self.seeds[0])
        running = other.get_state()
        rest = deepcopy(self._walk(other, first, 0, 1))
        other.set_state(over)
        try:
            act(other, actions[-1])
        except ResetNeeded:
            pass
        else:
            raise AssertionError("restored to the end of an episode, step goes on instead of raising ResetNeeded")
        env.set_state(running)
        self._replays(env, rest, "restored to a running episode after an end")

    def test_the_turn_limit_is_part_of_the_state(self) -> None:
        """Restored in the middle, an episode is truncated at the same turn, in this instance and in another.

        Played with invalid actions, which end nothing else; skipped for an environment without a limit of its own.

        Fix: put the count of turns into the state, and take it back in set_state.
        """
        env, other = self.restorable()
        if self.invalid_ends:
            raise unittest.SkipTest("invalid actions end the episode, so that none is played to the limit")
        answer = begin(env, seed=self.seeds[0])
        states, answers = [env.get_state()], [answer]
        while not answer.ended and len(answers) <= LONGEST_WAY:
            answer = act(env, self.invalid_action)
            states.append(env.get_state())
            answers.append(deepcopy(answer))
        if not answer.truncated:
            raise unittest.SkipTest(f"no turn limit within {LONGEST_WAY} turns")
        middle = (len(answers) - 1) // 2
        begin(other, seed=self.seeds[0])
        for one in (env, other):
            one.set_state(states[middle])
            self._replays(one, answers[middle + 1 :], f"restored at turn {middle} of {len(answers) - 1}")

    def test_what_it_says_of_its_state_comes_back_with_it(self) -> None:
        """``task_state()`` and ``belief()``, where it has them, are JSON values and those of the state that was restored.

        Fix: derive both from what get_state gives; see triage_gym.facts.
        """
        env, other = self.restorable()
        methods = [name for name in ("task_state", "belief") if env.has_wrapper_attr(name)]
        for seed in self.seeds[:FEW] if methods else ():
            other.reset(seed=seed + 1000)
            answer = begin(env, seed=seed)
            for _ in walk(env, answer, np.random.default_rng(seed), self.turns, self.valid_action):
                other.set_state(json.loads(json.dumps(env.get_state())))
                for name in methods:
                    said, again = (json.dumps(one.get_wrapper_attr(name)()) for one in (env, other))
                    assert said == again, f"seed {seed}: restored, {name}() gives {again:.120} instead of {said:.120}"

    def test_a_state_is_independent_of_the_environment(self) -> None:
        """Playing on changes no state that was handed out, and writing into one changes no environment.

        Fix: copy every container on its way out in get_state and on its way in in set_state.
        """
        env, other = self.restorable()
        for seed in self.seeds[:FEW]:
            answer = begin(env, seed=seed)
            state, second = env.get_state(), env.get_state()
            assert not shares_containers(state, second), "two states share a container"
            before = json.dumps(state)
            rest = deepcopy(self._walk(env, answer, seed))
            assert json.dumps(state) == before, "playing on changed a state that was handed out"
            other.set_state(json.loads(before))
            scribble(other.get_state())
            self._replays(other, rest, f"seed {seed}: after writing into a state of get_state")
            other.set_state(second)
            scribble(second)
            self._replays(other, rest, f"seed {seed}: after writing into a state of set_state")

    def test_states_are_small_plain_json(self) -> None:
        """A state is made of dicts with text keys, lists, texts, numbers and None, of ``max_state_bytes`` at most.

        No object, tuple, array, NaN or bytes that only pickle could carry.

        Fix: store names and numbers, and build again from them; keep data that never changes out of the state.
        """
        env, _ = self.restorable()
        for seed in self.seeds[:FEW]:
            self._episode(env, seed)
            state = env.get_state()
            text = json.dumps(state, allow_nan=False)
            assert data_equivalence(_plain(state), json.loads(text), exact=True), "JSON changes the state"
            size = len(text.encode())
            assert size <= self.max_state_bytes, f"a state takes {size} bytes, more than {self.max_state_bytes}"

    def test_a_foreign_state_is_refused(self) -> None:
        """``set_state`` raises StateError for what is no state of it, changes nothing then, and stays playable.

        Fix: look at the whole state before anything changes; raise triage_gym.errors.StateError.
        """
        env, _ = self.restorable()
        answer = begin(env, seed=self.seeds[0])
        before = json.dumps(env.get_state())
        for junk in ({}, {"no": "state"}):
            try:
                env.set_state(junk)
            except StateError:
                assert json.dumps(env.get_state()) == before, f"refusing {junk!r} changed the state"
                continue
            raise AssertionError(f"set_state took {junk!r} without a StateError")
        self._walk(env, answer, 0, 1)

    def test_a_deep_copy_goes_on_alike(self) -> None:
        """``copy.deepcopy`` gives an environment that goes on from the same point, apart from the original.

        Fix: hold plain data; where something cannot be copied, define __getstate__ and __setstate__ over get_state and
        set_state. EzPickle copies the constructor's arguments only.
        """
        self._skip_unless("copies")
        for seed in self.seeds[:FEW]:
            env = self._make()
            answer = self._partway(env, seed, 3)
            copy, second = deepcopy(env), deepcopy(env)
            try:
                expected = facts(deepcopy(self._walk(copy, answer, seed)))
                for name, one in (("copy", second), ("original, after its copy was played,", env)):
                    assert data_equivalence(facts(self._walk(one, answer, seed)), expected, exact=True), (
                        f"seed {seed}: the {name} goes on differently"
                    )
            finally:
                copy.close()
                second.close()

    def _replays(self, env: Any, rest: list[Answer], when: str) -> None:
        for number, expected in enumerate(rest):
            try:
                answer = act(env, expected.action)
            except ResetNeeded as error:
                raise AssertionError(f"{when}, the episode is over: turn {number} after it raises {error!r}") from error
            for name, got, wanted in zip(_NAMES, facts([answer])[0], facts([expected])[0], strict=True):
                assert data_equivalence(got, wanted, exact=True), (
                    f"{when}, the episode goes on differently: turn {number} after it gives another {name}: "
                    f"{got!r:.120} instead of {wanted!r:.120}"
                )

    def _same_walk(self, env: Any, other: Any, answer: Answer, seed: int, who: str) -> None:
        rest = deepcopy(self._walk(env, answer, seed))
        self._replays(other, rest, f"seed {seed}: {who}, restored")


_NAMES = ("observation", "reward", "terminated", "truncated", "info")


def _plain(value: Any) -> Any:
    """``value`` rebuilt where it is plain data; what is not raises AssertionError."""
    if isinstance(value, dict):
        assert all(type(key) is str for key in value), f"a state has keys that are no texts: {[*value]!r:.120}"
        return {key: _plain(inner) for key, inner in value.items()}
    if type(value) is list:
        return [_plain(inner) for inner in value]
    assert value is None or type(value) in (str, int, float, bool), (
        f"a state holds {value!r:.80}, a {type(value).__name__}"
    )
    return value
