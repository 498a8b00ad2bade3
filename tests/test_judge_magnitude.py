"""The second level inside a role, row by row of its table."""

from __future__ import annotations

from typing import Any

import pytest
from composed_judges import Fake, facts, window

from triage_gym.errors import InputError
from triage_gym.judges.magnitude import MagnitudeJudge, by_facts, by_text
from triage_gym.protocols import Facts

OLD = "A room with a door."


@pytest.mark.parametrize(
    ("role", "fields", "size"),
    [
        ("D", {"action": "take plate", "observation": OLD, "next_observation": "Taken."}, 1.0),
        ("D", {"action": "open door", "observation": OLD, "next_observation": "Open."}, 0.75),
        ("D", {"action": "take plate", "observation": OLD, "next_observation": OLD}, 0.25),
        ("E", {"observation": OLD, "next_observation": "Cupboards everywhere!"}, 1.0),
        ("E", {"observation": OLD, "next_observation": "A room with cupboards."}, 0.75),
        ("E", {"observation": OLD, "next_observation": "A room with a door with a door and a room"}, 0.5),
        ("E", {"observation": OLD, "next_observation": "With a door."}, 0.25),
        ("E", {"observation": OLD, "next_observation": ""}, 0.25),
        ("N", {"observation": OLD, "next_observation": "Nothing happens."}, 1.0),
        ("N", {"observation": OLD, "next_observation": OLD}, 1.0),
        ("N", {"observation": OLD, "next_observation": "You wait."}, 0.5),
        ("R", {"observation": OLD, "next_observation": "It breaks."}, 1.0),
        ("R", {"next_observation": OLD, "past": [("look", OLD)]}, 0.5),
        ("R", {"next_observation": OLD, "past": [("look", OLD), ("x", OLD), ("look", OLD)]}, 0.75),
        ("R", {"next_observation": OLD, "past": [("look", OLD)] * 4}, 1.0),
    ],
)
def test_sizes_by_text(role: Any, fields: dict[str, Any], size: float) -> None:
    action = fields.get("action", "look")
    assert by_text(window(0, action, **{k: v for k, v in fields.items() if k != "action"}), role) == size


@pytest.mark.parametrize(
    ("role", "before", "after", "size"),
    [
        ("D", 4, 3, 0.25),
        ("D", 4, 0, 1.0),
        ("D", 4, 4, 0.0),
        ("D", 4, 5, 0.0),
        ("D", 0, 0, 0.0),
        ("D", -1, 3, 1.0),
        ("D", 3, -1, 0.0),
        ("R", 3, -1, 1.0),
        ("R", -1, -1, 0.25),
        ("R", 4, 6, 0.5),
        ("R", 2, 9, 1.0),
        ("R", 0, 1, 1.0),
        ("R", 4, 4, 0.25),
        ("R", -1, 4, 0.25),
        ("D", None, 3, None),
        ("D", 3, None, None),
        ("E", 4, 3, None),
        ("N", 4, 3, None),
    ],
)
def test_sizes_by_facts(role: Any, before: int | None, after: int | None, size: float | None) -> None:
    assert by_facts(window(0)._replace(facts=facts(before=before, after=after)), role) == size


def test_the_judge_sizes_labels_and_leaves_the_rest() -> None:
    far: Facts = facts(before=10, after=9)
    windows = [window(0)._replace(facts=far), window(1)]
    text = MagnitudeJudge(Fake(lambda w: "D"))
    assert [x.magnitude for x in text.judge(windows)] == [0.75, 0.75]
    assert text.needs_facts == ()
    by = MagnitudeJudge(Fake(lambda w: "D"), rubric="facts")
    assert [x.magnitude for x in by.judge(windows)] == [0.1, 0.75]
    assert by.needs_facts == ("distance",)
    assert by.usage["sized"] == 2
    assert MagnitudeJudge(Fake(lambda w: None)).judge(windows)[0].status == "failed"
    assert text.identity != by.identity
    with pytest.raises(InputError, match="rubric"):
        MagnitudeJudge(Fake(), rubric="mood")  # type: ignore[arg-type]
