"""The gold set: segments of the six built-in families whose roles were settled, to hold judges against.

Episodes were played by experts with noise; the oracle judge labelled each turn (it knows the way to the goal), and segments
were drawn from every cell of role x outcome, most from R in successes, which a poor judge misses first. Where oracle and
rules differed the window was read and the role settled by its definition; these rows carry the reason as ``note``.
Elsewhere gold is what both said. ``benchmarks/judge_gold.py`` builds the file again from its seeds and the decisions.

Leanings to know of: rules are right by construction wherever they agreed with the oracle, so they look better here than
against labels that were made without them; one reader settled the rest, with both labels and the facts in sight, so there
is no agreement of annotators to tell; and most regressions in successes are plain repetitions, as they are in play.

What it leaves to you: it says how well a judge does on *these* families, as their experts with noise play them. Label
segments of your own (``triage-gym judge collect``, ``triage-gym judge label``) before you trust a judge elsewhere.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from triage_gym.audit.labels import LabelledWindow, read_labels

PATH: Final = Path(__file__).with_name("gold.jsonl.gz")


def gold_rows() -> list[LabelledWindow]:
    """The rows of the gold set, family by family in order of play; each has a ``gold`` role.

    Raises:
        InputError: If the file that comes along cannot be read.
    """
    return read_labels(PATH)
