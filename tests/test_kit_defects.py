"""Every check of the contract fails for someone: the small defects that the broken environments of the kit leave out."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest

from triage_gym.errors import StateError
from triage_gym.spaces import UnicodeText
from triage_gym.testing import EnvContract, check_text_env
from triage_gym.testing.broken import BROKEN, JARS, Cellar
from triage_gym.testing.probes import BAD

Options = dict[str, Any] | None


class Altered(Cellar):
    """Alters what reset and step give back."""

    def reset(self, *, seed: int | None = None, options: Options = None) -> tuple[str, dict[str, Any]]:
        observation, info = super().reset(seed=seed, options=options)
        return self.alter(observation, 0.0, False, False, info)[0], info

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        return self.alter(*super().step(action))

    def alter(self, observation: Any, reward: Any, terminated: Any, truncated: Any, info: Any) -> Any:
        return observation, reward, terminated, truncated, info


class Nameless(Cellar):
    metadata = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012


class Crowded(Cellar):
    def __init__(self) -> None:
        super().__init__()
        self.observation_space = UnicodeText(40)


class Endless(Altered):
    def alter(self, observation: Any, reward: Any, terminated: Any, truncated: Any, info: Any) -> Any:
        return observation, reward if terminated else float("inf"), terminated, truncated, info


class Twofold(Altered):
    def alter(self, observation: Any, reward: Any, terminated: Any, truncated: Any, info: Any) -> Any:
        return observation, reward, terminated, terminated, info


class Mute(Altered):
    def alter(self, observation: Any, reward: Any, terminated: Any, truncated: Any, info: Any) -> Any:
        info.pop("task", None)
        return observation, reward, terminated, truncated, info


class Secretive(Altered):
    def alter(self, observation: Any, reward: Any, terminated: Any, truncated: Any, info: Any) -> Any:
        for key in ("success", "score"):
            info.pop(key, None)
        return observation, reward, terminated, truncated, info


class Changeable(Altered):
    def alter(self, observation: Any, reward: Any, terminated: Any, truncated: Any, info: Any) -> Any:
        info["left"] = len(self.jars) if len(self.jars) > 4 else "few"
        return observation, reward, terminated, truncated, info


class Repeating(Cellar):
    def commands(self) -> list[str]:
        return [*super().commands(), "wait"]


class Drawing(Cellar):
    def render(self) -> str:
        return f"Jars: {self.jars} {self.np_random.integers(10)}"


class Numb(Cellar):
    def render(self) -> Any:
        return None


class Patient(Cellar):
    """Takes a blank for waiting, and says so nowhere."""

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        return super().step("wait" if not action.strip() else action)


class Started(Cellar):
    def __init__(self) -> None:
        super().__init__()
        self.done = False


class ClosedOnce(Cellar):
    """Lets go of what it holds a second time."""

    handle: object | None = object()

    def close(self) -> None:
        if self.handle is None:
            raise OSError("closed")
        self.handle = None


class Credulous(Cellar):
    def set_state(self, state: Any) -> None:
        if state:
            super().set_state(state)


class HalfRestored(Cellar):
    """Sees too late that a state is none of its own."""

    def set_state(self, state: Any) -> None:
        self.turns += 1
        super().set_state(state)


class Wearing(Cellar):
    """A state is good for one restore."""

    def set_state(self, state: Any) -> None:
        super().set_state(state)
        if isinstance(state, dict):
            state["turns"] += 1


class Renaming(Cellar):
    def reset(self, *, seed: int | None = None, options: Options = None) -> tuple[str, dict[str, Any]]:
        observation, info = super().reset(seed=seed, options=None)
        return observation, info


class Fresh(Cellar):
    """Makes a new generator where no seed is given."""

    def reset(self, *, seed: int | None = None, options: Options = None) -> tuple[str, dict[str, Any]]:
        if seed is None:
            self._np_random = None
        return super().reset(seed=seed, options=options)


class Unsure(Altered):
    """Calls no action invalid."""

    def alter(self, observation: Any, reward: Any, terminated: Any, truncated: Any, info: Any) -> Any:
        if "invalid_action" in info:
            info["invalid_action"] = False
        return observation, reward, terminated, truncated, info


class Partial(Cellar):
    """Forgets on a restore which jars were opened."""

    def set_state(self, state: Any) -> None:
        if not isinstance(state, dict) or "jars" not in state:
            raise StateError("Expected a state")
        super().set_state({**state, "jars": self.jars or state["jars"]})


class Huge(Cellar):
    def get_state(self) -> dict[str, Any]:
        return {**super().get_state(), "coin": self.coin + " " * 70_000}

    def set_state(self, state: Any) -> None:
        super().set_state({**state, "coin": state["coin"].strip()} if "coin" in state else state)


class Reusing(Altered):
    def alter(self, observation: Any, reward: Any, terminated: Any, truncated: Any, info: Any) -> Any:
        self.__dict__.setdefault("shared", {})["turns"] = 0
        info["more"] = self.__dict__["shared"]
        return observation, reward, terminated, truncated, info


class SilentWhenTruncated(Altered):
    def alter(self, observation: Any, reward: Any, terminated: Any, truncated: Any, info: Any) -> Any:
        if truncated:
            del info["success"], info["score"]
        return observation, reward, terminated, truncated, info


class CountingWhenTruncated(Altered):
    def alter(self, observation: Any, reward: Any, terminated: Any, truncated: Any, info: Any) -> Any:
        if truncated:
            info["score"] = 0
        return observation, reward, terminated, truncated, info


class Spilling(Cellar):
    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if action.startswith("open ") and action not in self.commands():
            self.jars.pop()
        return super().step(action)


class Tidying(Cellar):
    """Its class holds what all instances need, and each takes it along when it is closed."""

    shelf: ClassVar[list[str]] = []

    def reset(self, *, seed: int | None = None, options: Options = None) -> tuple[str, dict[str, Any]]:
        self.shelf[:] = JARS
        return super().reset(seed=seed, options=options)

    def commands(self) -> list[str]:
        return ["wait", *(f"open {jar}" for jar in self.jars if self.shelf.index(jar) >= 0)]

    def close(self) -> None:
        self.shelf.clear()


class Forgetful(Cellar):
    """Keeps what was seen next to its state."""

    opened = 0

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.opened += action.startswith("open ")
        return super().step(action)

    def belief(self) -> list[int]:
        return [*range(self.opened)]


class OfNumpy(Altered):
    def alter(self, observation: Any, reward: Any, terminated: Any, truncated: Any, info: Any) -> Any:
        return observation, np.float64(reward), np.bool_(terminated), np.bool_(truncated), info


DEFECTS = {
    Nameless: "test_metadata_names_the_domain_and_what_tells_the_outcome",
    Crowded: "test_observations_and_actions_are_in_their_spaces",
    Endless: "test_rewards_are_finite_numbers_and_flags_are_booleans",
    Twofold: "test_rewards_are_finite_numbers_and_flags_are_booleans",
    Mute: "test_infos_say_what_they_must",
    Secretive: "test_the_end_tells_success_and_score",
    Changeable: "test_infos_keep_their_types",
    Repeating: "test_admissible_commands_are_told_once_each",
    Drawing: "test_rendering_gives_text_and_changes_nothing",
    Numb: "test_rendering_gives_text_and_changes_nothing",
    Patient: "test_a_blank_action_is_invalid",
    Started: "test_a_step_before_the_first_reset_is_refused",
    ClosedOnce: "test_close_may_be_called_twice",
    Credulous: "test_a_foreign_state_is_refused",
    HalfRestored: "test_a_foreign_state_is_refused",
    Wearing: "test_a_state_can_be_restored_again_and_again",
    Renaming: "test_a_task_can_be_chosen_by_its_id",
    Fresh: "test_resets_without_a_seed_follow_from_the_seed",
    Unsure: "test_an_invalid_action_is_told_apart",
    Partial: "test_every_turn_can_be_restored",
    Huge: "test_states_are_small_plain_json",
    Reusing: "test_gymnasium_finds_nothing_wrong",
    SilentWhenTruncated: "test_the_end_tells_success_and_score",
    CountingWhenTruncated: "test_the_end_tells_success_and_score",
    Spilling: "test_odd_texts_do_no_harm",
    Tidying: "test_close_may_be_called_twice",
    Forgetful: "test_what_it_says_of_its_state_comes_back_with_it",
    OfNumpy: "test_gymnasium_finds_nothing_wrong",
}


@pytest.mark.parametrize("kind", DEFECTS)
def test_a_defect_is_found_by_its_check(kind: type[Cellar]) -> None:
    assert DEFECTS[kind] in check_text_env(kind, raise_on_failure=False).broken


def test_flags_of_numpy_are_all_that_gymnasium_finds_wrong_and_it_is_told_how_to_mend_them() -> None:
    report = check_text_env(OfNumpy, raise_on_failure=False)
    assert report.broken == ("test_gymnasium_finds_nothing_wrong",)
    assert "bool(truncated)" in str(report)


def test_an_end_by_the_turn_limit_is_looked_at_too() -> None:
    told = str(check_text_env(SilentWhenTruncated, raise_on_failure=False))
    assert "from an episode that was truncated" in " ".join(told.split())


def test_every_check_finds_someone() -> None:
    found = {*DEFECTS.values(), *(kind.found_by for kind in BROKEN), *(name for kind in BAD for name in kind.breaks)}
    # Two parts of a broken generator or state, and splits, which have tests of their own.
    found |= {"test_the_state_goes_through_json_into_another_instance", "test_splits_share_no_task"}
    assert {name for name in dir(EnvContract) if name.startswith("test_")} - found == set()
    report = check_text_env(BROKEN[1], raise_on_failure=False)
    assert "test_the_state_goes_through_json_into_another_instance" in report.broken
