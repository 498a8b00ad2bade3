"""SearchQAEnv: turns, endings, rewards, infos, states and arguments."""

from __future__ import annotations

import copy
import json
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from gymnasium.error import ResetNeeded
from hash_seeds import outputs

import triage_gym  # noqa: F401
from triage_gym import registry
from triage_gym.envs.searchqa import LocalRetriever, SearchQAEnv
from triage_gym.errors import InputError, StateError
from triage_gym.wrappers import PivotRetryWrapper

ONE_HOP, TWO_HOP = "train/capital/ls", "train/capital-by-borders/sp-an-mo"
SEARCH, ANSWER, NEITHER = "<search>Liechtenstein</search>", "<answer>Vaduz</answer>", "Vaduz"
ALWAYS = {"admissible_commands", "command_templates", "invalid_action"}
AT_THE_END = ALWAYS | {"success", "score", "em", "subem", "f1"}


def played(env: SearchQAEnv, *actions: str, task_id: str = ONE_HOP) -> tuple[str, float, bool, bool, dict[str, Any]]:
    """The last answer to some actions."""
    env.reset(options={"task_id": task_id})
    return [env.step(action) for action in actions][-1]


def test_an_episode_that_is_won() -> None:
    env = SearchQAEnv(render_mode="ansi")
    observation, info = env.reset(options={"task_id": TWO_HOP})
    question = "What is the capital of the only country that borders both Andorra and Morocco?"
    assert observation == env.render()
    assert observation.endswith(f"\nQuestion: {question}\n")
    assert info == {
        "admissible_commands": [
            f"<search>{question}</search>",
            "<search>borders Andorra Morocco capital</search>",
            "<search>borders Andorra Morocco</search>",
        ],
        "command_templates": ["<search><query></search>", "<answer><text></answer>"],
        "task_id": TWO_HOP,
        "task": question,
        "task_type": "capital-by-borders",
    }
    text, reward, terminated, truncated, info = env.step(
        "<think>Who?</think><search>border countries Andorra Morocco</search>"
    )
    assert text.startswith('\n\n<information>Doc 1(Title: "')
    assert text.count("\nDoc ") == 2
    assert (reward, terminated, truncated, info.keys()) == (0.0, False, False, ALWAYS)
    text, reward, terminated, truncated, info = env.step("It is Spain. <answer> the Madrid. </answer>")
    assert (text, reward, terminated, truncated) == ("", 1.0, True, False)
    assert info.keys() == AT_THE_END
    assert (info["success"], info["score"], info["em"], info["subem"], info["f1"]) == (True, 1.0, 1.0, 1.0, 1.0)
    with pytest.raises(ResetNeeded):
        env.step(ANSWER)


def test_a_search_of_the_last_turn_is_not_carried_out() -> None:
    text, reward, terminated, truncated, info = played(SearchQAEnv(), *[SEARCH] * 5)
    assert (text, reward, terminated, truncated) == ("\n\n<information></information>\n\n", 0.0, False, True)
    assert (info["success"], info["score"], info["invalid_action"]) == (False, 0.0, False)
    assert info.keys() == AT_THE_END
    assert "Liechtenstein" in played(SearchQAEnv(), *[SEARCH] * 4)[0]


def test_the_last_turn_may_answer() -> None:
    env = SearchQAEnv()
    info = played(env, *[SEARCH] * 4)[4]
    assert info["admissible_commands"][-1] == "<answer></answer>"
    assert all(command.startswith("<answer>") for command in info["admissible_commands"])
    _, reward, terminated, truncated, info = env.step(ANSWER)
    assert (reward, terminated, truncated, info["success"]) == (1.0, True, False, True)


def test_what_is_admissible_at_the_end_gives_up() -> None:
    env = SearchQAEnv()
    command = played(env, *[SEARCH] * 4)[4]["admissible_commands"][-1]
    _, reward, terminated, _, info = env.step(command)
    assert (reward, terminated, info["success"], info["invalid_action"]) == (0.0, True, False, False)


def test_an_invalid_action_costs_a_turn_and_is_told() -> None:
    env = SearchQAEnv()
    text, reward, terminated, truncated, info = played(env, NEITHER)
    assert text.startswith("\nMy previous action is invalid. ")
    assert (reward, terminated, truncated, info["invalid_action"]) == (0.0, False, False, True)
    _, reward, terminated, truncated, info = played(env, *[NEITHER] * 5)
    assert (reward, terminated, truncated, info["invalid_action"]) == (0.0, False, True, True)
    assert info.keys() == AT_THE_END


@pytest.mark.parametrize(
    ("metric", "answer", "score", "success"),
    [
        ("em", "Vaduz!", 1.0, True),
        ("em", "the city of Vaduz", 0.0, False),
        ("subem", "the city of Vaduz", 1.0, True),
        ("f1", "the city of Vaduz", 0.5, False),
        ("f1", "Vaduz", 1.0, True),
        ("subem", "Bern", 0.0, False),
    ],
)
def test_the_metric_decides_score_and_reward(metric: Any, answer: str, score: float, success: bool) -> None:
    _, reward, _, _, info = played(SearchQAEnv(metric=metric), f"<answer>{answer}</answer>")
    assert (reward, info["score"], info["success"]) == (score, score, success)


def test_verl_agent_plays_four_turns_of_which_the_last_does_not_search() -> None:
    env = SearchQAEnv(preset="verl-agent")
    text, _, terminated, truncated, info = played(env, *[SEARCH] * 4)
    assert (text, terminated, truncated, info["success"], info["invalid_action"]) == ("", False, True, False, False)
    text, _, _, _, info = played(env, *[SEARCH] * 3)
    assert text.startswith('\n<information>{"result": "Doc 1: ')
    assert info["admissible_commands"][-1] == "<answer></answer>"
    assert played(env, *[SEARCH] * 3, ANSWER)[4]["success"] is True


def test_verl_agent_plays_what_it_calls_invalid() -> None:
    env = SearchQAEnv(preset="verl-agent")
    text, _, terminated, _, info = played(env, f"{ANSWER}{SEARCH}")
    assert (terminated, info["invalid_action"]) == (False, True)
    assert "Liechtenstein" in text
    _, reward, terminated, _, info = played(env, f"{ANSWER}<answer>no</answer>")
    assert (reward, terminated, info["invalid_action"], info["success"]) == (1.0, True, True, True)
    text, _, _, _, info = played(env, NEITHER)
    assert (text, info["invalid_action"]) == ("", True)


def test_turns_and_passages_can_be_chosen() -> None:
    assert played(SearchQAEnv(topk=7), SEARCH)[0].count("\nDoc ") == 6
    assert played(SearchQAEnv(max_turns=2), SEARCH, SEARCH)[3]
    assert played(SearchQAEnv(max_turns=1), ANSWER)[4]["success"] is True


def test_an_observation_stays_in_its_space() -> None:
    env = SearchQAEnv(retriever=LocalRetriever.build(["Vaduz\n" + "x " * 50_000]))
    text = played(env, "<search>vaduz</search>")[0]
    assert text in env.observation_space
    assert text.startswith("\n\n<information>Doc 1(Title: Vaduz) x x")


class Faulty:
    """Finds ``found``, whatever is asked."""

    def __init__(self, found: Any) -> None:
        self.found, self.fingerprint = found, f"faulty {found!r}"

    def search(self, query: str, k: int) -> Any:
        return self.found


@pytest.mark.parametrize("found", ["a text", ["a", 3], [None]])
def test_what_a_retriever_of_your_own_finds_must_be_texts(found: Any) -> None:
    env = SearchQAEnv(retriever=Faulty(found))
    env.reset(options={"task_id": ONE_HOP})
    before = env.get_state()
    with pytest.raises(InputError, match="to give a sequence of texts"):
        env.step(SEARCH)
    assert env.get_state() == before


def test_no_more_passages_are_shown_than_asked_for() -> None:
    assert played(SearchQAEnv(retriever=Faulty(["x"] * 9), topk=2), SEARCH)[0].count("Doc ") == 2


def test_a_retriever_of_your_own() -> None:
    env = SearchQAEnv(retriever=LocalRetriever.build(['"Vaduz"\nA capital.']))
    assert (
        played(env, "<search>capital</search>")[0]
        == '\n\n<information>Doc 1(Title: "Vaduz") A capital.</information>\n\n'
    )
    assert played(env, "<search>zebra</search>")[0] == "\n\n<information></information>\n\n"


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])  # noqa: S301
def test_copies_go_on_where_the_original_stands(duplicate: Any) -> None:
    for arguments in ({}, {"retriever": LocalRetriever.build(["Vaduz"])}):
        env = SearchQAEnv(**arguments)  # type: ignore[arg-type]
        env.reset(seed=3)
        env.step(SEARCH)
        twin = duplicate(env)
        assert twin.get_state() == env.get_state()
        assert twin.step(SEARCH) == env.step(SEARCH)
        assert twin.reset() == env.reset()


def test_a_state_is_small_and_told_by_json() -> None:
    env = SearchQAEnv()
    played(env, SEARCH, NEITHER)
    state = json.loads(json.dumps(env.get_state()))
    assert len(json.dumps(state)) < 4000
    assert state["game"] == {
        "turn": 2,
        "answer": None,
        "place": "start",
        "retrieved": False,
        "searched": ["Liechtenstein"],
    }


@pytest.mark.parametrize(
    "change",
    [
        *({"turn": -1}, {"turn": 6}, {"turn": True}, {"turn": 1.0}, {"answer": 3}, {"place": "there"}, {"place": None}),
        *(
            {"retrieved": 1},
            {"more": 1},
            {"place": ["start"]},
            {"searched": "x"},
            {"searched": [1]},
            {"searched": ["a"] * 9},
        ),
    ],
)
def test_a_state_that_does_not_fit_is_refused(change: dict[str, Any]) -> None:
    env = SearchQAEnv()
    played(env, SEARCH)
    before = env.get_state()
    for game in ({**before["game"], **change}, {}, {"turn": 1}):
        with pytest.raises(StateError):
            env.set_state({**before, "game": game})
    assert env.get_state() == before


@pytest.mark.parametrize("change", [{"turns": 2}, {"turns": 99}, {"done": True}])
def test_a_state_that_does_not_fit_itself_is_refused(change: dict[str, Any]) -> None:
    env = SearchQAEnv()
    played(env, SEARCH)
    before = env.get_state()
    with pytest.raises(StateError, match="to be those of its game"):
        env.set_state({**before, **change})
    assert env.get_state() == before
    for actions in ((SEARCH, ANSWER), (SEARCH,) * 5):
        played(env, *actions)
        over = env.get_state()
        env.set_state(over)
        assert env.get_state() == over
        with pytest.raises(StateError, match="to be those of its game"):
            env.set_state({**over, "done": False})


@pytest.mark.parametrize(
    "arguments",
    [
        {"topk": 2},
        {"metric": "f1"},
        {"layout_reward": True},
        {"preset": "verl-agent"},
        {"retriever": LocalRetriever.build(["x"])},
    ],
)
def test_a_state_of_another_setting_is_refused(arguments: dict[str, Any]) -> None:
    env, other = SearchQAEnv(), SearchQAEnv(**arguments)
    env.reset(seed=0)
    with pytest.raises(StateError, match="Expected"):
        other.set_state(env.get_state())


@pytest.mark.parametrize(
    "arguments",
    [
        {"preset": "r1"},
        {"metric": "rouge"},
        {"layout_reward": 1},
        {"layout_reward": True, "preset": "verl-agent"},
        {"topk": 0},
        {"topk": 51},
        {"topk": True},
        {"max_turns": 0},
        {"split": "dev"},
        {"datasets": ["nq"]},
        {"corpus": "x", "server": "http://127.0.0.1:1/"},
        {"server": "127.0.0.1"},
        {"retriever": object()},
        {"retriever": LocalRetriever},
        {"corpus": "absent"},
        {"questions": "absent", "server": "http://127.0.0.1:1/"},
    ],
)
def test_arguments_are_checked(arguments: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"^Expected "):
        SearchQAEnv(**arguments)


def test_it_is_registered() -> None:
    env = gymnasium.make("triage/SearchQA-v0", split="test")
    assert env.reset(seed=1)[1]["task_id"].startswith("test/")
    assert isinstance(registry.make("envs", "searchqa"), SearchQAEnv)


def test_making_one_indexes_nothing() -> None:
    script = (
        "from triage_gym.envs.searchqa import SearchQAEnv, embedded\n"
        "env = SearchQAEnv(); print(embedded.factbook.cache_info().currsize)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "0\n"


def test_a_process_of_another_hash_seed_plays_the_same() -> None:
    script = (
        "from triage_gym.envs.searchqa import SearchQAEnv\n"
        "env = SearchQAEnv(split='val')\n"
        "print([env.reset(seed=s) for s in range(20)], env.step('<answer>x</answer>'), env.get_state())"
    )
    first, second = outputs(script)
    assert first == second


def test_questions_that_the_expert_has_no_searches_for_are_answered_at_once(tmp_path: Path) -> None:
    (tmp_path / "nq.jsonl").write_text('{"question": "who", "answer": ["me", "I"]}\n', encoding="utf-8")
    env = SearchQAEnv(questions=tmp_path, split="test", retriever=LocalRetriever.build(["x"]))
    assert env.reset(seed=0)[1]["task"] == "who?"
    assert env.expert_plan() == ["<answer>me</answer>"]
    assert env.task_ids() == ["nq/test/0"]


def test_a_plan_is_what_is_left_to_do() -> None:
    env = SearchQAEnv()
    env.reset(options={"task_id": TWO_HOP})
    plan = env.expert_plan()
    assert plan == [
        "<search>border countries Andorra Morocco</search>",
        "<search>Spain capital name</search>",
        "<answer>Madrid</answer>",
    ]
    for done, action in enumerate(plan):
        assert env.expert_plan() == plan[done:]
        env.step(action)
    assert env.expert_plan() == []
    played(env, *[NEITHER] * 4, task_id=TWO_HOP)
    assert env.expert_plan() == plan[2:]


def test_the_example_of_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parent.parent / "docs" / "searchqa.md").read_text(encoding="utf-8")
    exec(re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0], {})  # noqa: S102
    assert capsys.readouterr().out.splitlines()[-1] == "1.0 True 1.0 1.0 1.0"


def test_a_failed_episode_is_retried_from_its_pivot() -> None:
    env = PivotRetryWrapper(SearchQAEnv(split="test"))
    first, info = env.reset(options={"task_id": "test/capital/au"})
    second = env.step("<search>Austria capital name</search>")[0]
    assert env.step("<answer>Graz</answer>")[4]["success"] is False
    again, info = env.reset(options={"retry": 1})
    assert (again, info["pivot_step"], info["task_id"]) == (second, 1, "test/capital/au")
    assert env.step("<answer>Linz</answer>")[4]["success"] is False
    assert env.reset(options={"retry": 0})[0] == first
    assert env.step("<answer>Vienna</answer>")[4]["success"] is True
